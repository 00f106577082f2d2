"""Several linear heads on the same rows, brought to their optima at once by NumPy and BLAS alone.

Newton's method with conjugate gradients, as in :mod:`firthshot.engine.solvers.newton_cg_gram`, for
convex losses with L2. The problems of a batch share the rows and differ in sample weights (zero for
a row left out), targets and L2, so that one product with the rows serves them all. Nothing is
compiled: a first small fit answers at once.

There are two kinds of coordinates: W and b themselves, or dual variables ν with W = ν X. Inner
products are those of W and b in both, so that the choice changes the rounding and nothing else.
Arrays are (B, C, n): problem, class, sample or coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from firthshot.arrays import Array

Kind = type[np.float32] | type[np.float64]

# Forcing term as in `newton_cg`: √‖g‖ between the two. Half or twice either changes the time by
# some percent.
LOOSEST, TIGHTEST = 0.25, 1e-2
# It is never tighter than what brings the gradient to this share of the tolerance.
OVERSHOOT = 0.3
MOST_PRODUCTS = 100  # for one direction; they end before it wherever L2 is not tiny
# A step is taken if the objective rises at its end by at most FLAT times the first slope; otherwise
# the next trial is SHORTEST to LONGEST times as long. Half or twice changes no step on our benches.
FLAT, MOST_TRIALS, SHORTEST, LONGEST = 0.25, 30, 0.1, 0.9
TINY = 1e-37  # in the place of a zero divisor


@dataclass(frozen=True)
class Rows:
    """Rows X (N, d), centred where there is an intercept, and coordinates of W and b for them.

    A vector of coordinates has an image, from which its logits follow without another product with
    the rows. Where there is an intercept, it is the last coordinate.
    """

    X: Array
    intercept: bool

    @property
    def width(self) -> int:
        """Return the number of coordinates."""
        raise NotImplementedError

    def image(self, x: Array) -> Array:
        """Return the image of coordinates, in their precision."""
        raise NotImplementedError

    def logits(self, image: Array) -> Array:
        """Return the logits (B, C, N) of an image, as a new array."""
        raise NotImplementedError

    def gradient(self, by_logits: Array) -> Array:
        """Return the coordinates of a gradient from that by logits, as a new array."""
        raise NotImplementedError

    def inner(self, left: Array, right: Array, image: Array) -> Array:
        """Return inner products of W and b per problem, (B,), given the image of the second."""
        raise NotImplementedError

    def weights(self, x: Array) -> tuple[Array, Array]:
        """Return W (B, C, d) and b (B, C)."""
        b = x[..., -1] if self.intercept else np.zeros(x.shape[:2])
        return self._slopes(x[..., : self.width - self.intercept]), b

    def _slopes(self, x: Array) -> Array:
        raise NotImplementedError


class _GramRows(Rows):
    """Few rows: W = ν X. The image is ν X X'; nothing else knows the number of features."""

    @cached_property
    def _gram(self) -> dict[type, Array]:
        gram = self.X @ self.X.T
        return {np.float64: gram, np.float32: gram.astype(np.float32)}

    @property
    def width(self) -> int:
        return len(self.X) + self.intercept

    def image(self, x: Array) -> Array:
        gram, n, found = self._gram[x.dtype.type], len(self.X), np.empty_like(x)
        flat, out = x.reshape(-1, self.width), found.reshape(-1, self.width)
        np.matmul(flat[:, :n], gram, out=out[:, :n])
        out[:, n:] = flat[:, n:]
        return found

    def logits(self, image: Array) -> Array:
        return image[..., :-1] + image[..., -1:] if self.intercept else image.copy()

    def gradient(self, by_logits: Array) -> Array:
        if not self.intercept:
            return by_logits.copy()
        found = np.empty((*by_logits.shape[:2], self.width), by_logits.dtype)
        found[..., :-1] = by_logits
        np.add.reduce(by_logits, axis=2, out=found[..., -1])
        return found

    def inner(self, left: Array, _right: Array, image: Array) -> Array:
        return _dot(left, image)

    def _slopes(self, x: Array) -> Array:
        return _times(x, self.X)


class _FeatureRows(Rows):
    """Many rows: the coordinates are W and b themselves, the image their logits."""

    @cached_property
    def _features(self) -> dict[type, tuple[Array, Array]]:
        X = np.column_stack([self.X, np.ones(len(self.X))]) if self.intercept else self.X
        single = X.astype(np.float32)
        # Both ways: BLAS multiplies a few rows by a transposed matrix much more slowly.
        return {x.dtype.type: (x, np.ascontiguousarray(x.T)) for x in (X, single)}

    @property
    def width(self) -> int:
        return int(self.X.shape[1]) + self.intercept

    def image(self, x: Array) -> Array:
        return _times(x, self._features[x.dtype.type][1])

    def logits(self, image: Array) -> Array:
        return image.copy()

    def gradient(self, by_logits: Array) -> Array:
        return _times(by_logits, self._features[by_logits.dtype.type][0])

    def inner(self, left: Array, right: Array, _image: Array) -> Array:
        return _dot(left, right)

    def _slopes(self, x: Array) -> Array:
        return x


def shared_rows(X: Array, intercept: bool) -> Rows:
    """Return rows X (N, d) in the space where they take the fewest operations.

    Beyond twice as many rows as features, coordinates of the rows would also be too dependent.
    """
    return (_GramRows if len(X) <= 2 * X.shape[1] else _FeatureRows)(X, intercept)


@dataclass
class Batch:
    """Problems that are being solved, and where each is.

    Attributes
    ----------
    weights : (B, 1, N), not negative, of sum one in every problem
    targets : (B, C, N), of sum one over the classes
    decay : (B, 1, n), L2 factors of the coordinates, zero for an intercept
    x, image : (B, C, n), coordinates of W and b, and their image
    norm : (B,), of the gradient; iterations : (B,)
    """

    weights: Array
    targets: Array
    decay: Array
    x: Array
    image: Array
    norm: Array
    iterations: Array

    def take(self, kept: Array) -> Batch:
        """Return some of the problems."""
        return Batch(*(getattr(self, part.name)[kept] for part in fields(self)))

    def put(self, where: Array, other: Batch) -> None:
        """Write back where some of the problems got to."""
        for name in ("x", "image", "norm", "iterations"):
            getattr(self, name)[where] = getattr(other, name)


def minimise_together(
    rows: Rows, weights: Array, targets: Array, l2: Array, start: Array, tolerance: float,
    max_iterations: int, directions: Kind = np.float32,
) -> Batch:  # fmt: skip
    """Bring every problem to its optimum.

    Parameters
    ----------
    weights : (B, N), not negative, of sum one in every problem
    targets : (B, C, N), of sum one over the classes
    l2 : (B,), above zero: beside the mean loss stands ½ l2 ‖W‖²
    start : (B, C, n), coordinates
        In float32 so is everything, which is good for a gradient of about 1e-5.
    tolerance : norm of the gradient by W and b that counts as converged
    directions : precision of Newton's directions, which only have to point downhill
    """
    decay = np.repeat(l2[:, None, None], rows.width, axis=2)
    if rows.intercept:
        decay[..., -1] = 0.0
    weights, targets, decay = (
        part.astype(start.dtype, copy=False) for part in (weights[:, None], targets, decay)
    )
    norm, iterations = np.full(len(l2), np.inf), np.zeros(len(l2), np.int64)
    batch = Batch(weights, targets, decay, start, rows.image(start), norm, iterations)
    left, active = np.arange(len(l2)), batch
    p, by_logits = _loss(batch, rows.logits(batch.image))
    while True:
        gradient = rows.gradient(by_logits)
        gradient += active.decay * active.x
        image = rows.image(gradient)
        active.norm = np.sqrt(np.maximum(rows.inner(gradient, gradient, image), 0.0))
        going = (active.norm > tolerance) & (active.iterations < max_iterations)
        if not going.all():
            batch.put(left, active)
            if not going.any():
                return batch
            left, active = left[going], active.take(going)
            p, by_logits, gradient, image = (
                part[going] for part in (p, by_logits, gradient, image)
            )
        step = _newton_direction(rows, active, p, (gradient, image), tolerance, directions)
        p, by_logits = _move(rows, active, (gradient, image), by_logits, step)
        active.iterations += 1


def _newton_direction(
    rows: Rows, batch: Batch, p: Array, gradient: tuple[Array, Array], tolerance: float, kind: Kind
) -> Array:
    """Return approximate Newton steps by conjugate gradients."""
    parts = [p, -gradient[0], -gradient[1], batch.decay, batch.weights]
    cast: list[Array] = [part.astype(kind, copy=False) for part in parts]
    p, residual, image, decay, weights = cast
    weighted = p * weights
    direction, solution, term = residual.copy(), np.zeros_like(residual), np.empty_like(residual)
    square = rows.inner(residual, residual, image)
    goal = square * (_forcing(batch.norm, tolerance) ** 2).astype(kind)
    going = square > goal
    for _ in range(MOST_PRODUCTS):
        v = rows.logits(image)
        v -= np.einsum("bcn,bcn->bn", p, v)[:, None]
        v *= weighted
        product = rows.gradient(v)
        product += np.multiply(direction, decay, out=term)
        length = square / np.maximum(rows.inner(product, direction, image), TINY)
        length *= going  # problems that have converged stand still
        solution += np.multiply(direction, length[:, None, None], out=term)
        residual -= np.multiply(product, length[:, None, None], out=product)
        new = rows.image(residual)
        before, square = square, rows.inner(residual, residual, new)
        going = square > goal
        if not going.any():
            break
        ratio = (going * square / np.maximum(before, TINY))[:, None, None]
        direction *= ratio
        direction += residual
        image *= ratio
        image += new
    return solution.astype(batch.x.dtype, copy=False)


def _forcing(norm: Array, tolerance: float) -> Array:
    """Return the forcing terms, (B,): the share of a gradient that may remain as residual."""
    enough = np.minimum(LOOSEST, OVERSHOOT * tolerance / norm)
    return np.clip(np.sqrt(norm), np.maximum(TIGHTEST, enough), LOOSEST)


def _move(
    rows: Rows, batch: Batch, gradient: tuple[Array, Array], by_logits: Array, step: Array
) -> tuple[Array, Array]:
    """Move a batch along its steps; return probabilities and dLoss/dz there.

    Objectives are convex, so that slopes are enough: a step is too long if it ends where the
    objective rises by more than `FLAT` times the first slope; the secant of the slopes gives a
    shorter one. Logits move along a line, so that no trial costs a product with the rows.
    """
    image, length = rows.image(step), np.ones((len(step), 1, 1), step.dtype)
    start, along = rows.logits(batch.image), rows.logits(image)
    slope = rows.inner(step, *gradient)
    l2_slope = slope - _dot(by_logits, along)
    l2_curvature = rows.inner(batch.decay * step, step, image)
    for _ in range(MOST_TRIALS):
        p, by_logits = _loss(batch, start + length * along)
        there = _dot(by_logits, along) + l2_slope + length[:, 0, 0] * l2_curvature
        long = there > -FLAT * slope
        if not long.any():
            break
        share = np.clip(slope / np.minimum(slope - there, -TINY), SHORTEST, LONGEST)
        length *= np.where(long, share, 1.0)[:, None, None]
    batch.x = batch.x + length * step
    batch.image = batch.image + length * image
    return p, by_logits


def _loss(batch: Batch, z: Array) -> tuple[Array, Array]:
    """Return probabilities of logits and the derivative of the mean loss by them, (B, C, N)."""
    z -= z.max(axis=1, keepdims=True)
    p = np.exp(z, out=z)
    p /= p.sum(axis=1, keepdims=True)
    by_logits = p - batch.targets
    by_logits *= batch.weights
    return p, by_logits


def _times(left: Array, right: Array) -> Array:
    """Return left (B, C, m) times right (m, k), as one product."""
    return (left.reshape(-1, left.shape[2]) @ right).reshape(*left.shape[:2], -1)


def _dot(left: Array, right: Array) -> Array:
    """Return the sums of products of every problem, (B,)."""
    found: Array = np.vecdot(left.reshape(len(left), -1), right.reshape(len(right), -1))
    return found
