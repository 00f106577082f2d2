"""Several linear heads on the same rows, brought to their optima at once by NumPy and BLAS alone.

Newton's method with conjugate gradients, as in :mod:`firthshot.engine.solvers.newton_cg_gram`, for
convex losses with L2. The problems of a batch share the rows and differ in sample weights (zero for
a row left out), targets and L2, so that one product with the rows serves them all. Nothing is
compiled: a first small fit answers at once.

Inner products are those of W and b in either space of rows below, whose choice therefore changes
rounding alone; so do rows given twice instead of a weight of two. Arrays are (B, C, n): problem,
class, sample or coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Protocol

import numpy as np

from firthshot.arrays import Array

# A direction is good enough when its residual is this share of the gradient: √‖g‖ between the two,
# so that convergence is superlinear. Half or twice either changes the time by some percent.
LOOSEST, TIGHTEST = 0.25, 1e-2
# The last direction needs no more than bring the gradient to this share of the tolerance.
OVERSHOOT = 0.3
MOST_PRODUCTS = 100  # for one direction; they end before it wherever L2 is not tiny
# A step ends where the slope is at most this share of the first; each trial in its place is this
# much shorter at least and at most. Half or twice the shares changes no step on our benches.
FLAT, MOST_TRIALS, SHORTEST, LONGEST = 0.25, 30, 0.1, 0.9
TINY = 1e-37  # in the place of a zero divisor


class Rows(Protocol):
    """Rows X (N, d), centred where there is an intercept, and coordinates of W and b for them.

    A vector of coordinates has an image, from which its logits follow without another product.
    """

    def image(self, x: Array) -> Array:
        """Return the image of coordinates, of their precision."""

    def logits(self, image: Array) -> Array:
        """Return the logits (B, C, N) of an image."""

    def gradient(self, by_logits: Array) -> Array:
        """Return the coordinates of a gradient by W and b from that by logits."""

    def inner(self, left: Array, right: Array, image: Array) -> Array:
        """Return inner products of coordinates per problem, (B,), given the second's image."""

    def weights(self, x: Array) -> tuple[Array, Array]:
        """Return W (B, C, d) and b (B, C)."""


@dataclass(frozen=True)
class GramRows:
    """At most d rows: W = ν X, all in N dimensions; the last coordinate is the intercept.

    Attributes
    ----------
    X : (N, d); intercept : whether there is one
    """

    X: Array
    intercept: bool

    @cached_property
    def gram(self) -> dict[type, Array]:
        n = len(self.X)
        gram = np.zeros((n + self.intercept, n + self.intercept))
        np.matmul(self.X, self.X.T, out=gram[:n, :n])
        gram[n:, n:] = 1.0
        return {np.float64: gram, np.float32: gram.astype(np.float32)}

    @property
    def width(self) -> int:
        return len(self.X) + self.intercept

    def image(self, x: Array) -> Array:
        return _times(x, self.gram[x.dtype.type])

    def logits(self, image: Array) -> Array:
        n = len(self.X)
        return image[..., :n] + image[..., n:] if self.intercept else image.copy()

    def gradient(self, by_logits: Array) -> Array:
        if not self.intercept:
            return by_logits.copy()
        return np.concatenate([by_logits, by_logits.sum(axis=2, keepdims=True)], axis=2)

    def inner(self, left: Array, right: Array, image: Array) -> Array:  # noqa: ARG002
        return _dot(left, image)

    def weights(self, x: Array) -> tuple[Array, Array]:
        n = len(self.X)
        b = x[..., n] if self.intercept else np.zeros(x.shape[:2])
        return _times(x[..., :n], self.X), b


@dataclass(frozen=True)
class FeatureRows:
    """More than d rows: the coordinates are W itself and b."""

    X: Array
    intercept: bool

    @cached_property
    def features(self) -> dict[type, Array]:
        X = np.column_stack([self.X, np.ones(len(self.X))]) if self.intercept else self.X
        return {np.float64: X, np.float32: X.astype(np.float32)}

    @cached_property
    def transposed(self) -> dict[type, Array]:
        return {kind: np.ascontiguousarray(X.T) for kind, X in self.features.items()}

    @property
    def width(self) -> int:
        return self.X.shape[1] + self.intercept

    def image(self, x: Array) -> Array:
        return _times(x, self.transposed[x.dtype.type])

    def logits(self, image: Array) -> Array:
        return image.copy()

    def gradient(self, by_logits: Array) -> Array:
        return _times(by_logits, self.features[by_logits.dtype.type])

    def inner(self, left: Array, right: Array, image: Array) -> Array:  # noqa: ARG002
        return _dot(left, right)

    def weights(self, x: Array) -> tuple[Array, Array]:
        d = self.X.shape[1]
        return x[..., :d], x[..., d] if self.intercept else np.zeros(x.shape[:2])


@dataclass
class Batch:
    """Problems that are being solved, and where each is.

    Attributes
    ----------
    weights : (B, 1, N), not negative, of sum one in every problem
    targets : (B, C, N), of sum one over the classes
    decay : (B, 1, 1), L2 factor of W
    tolerance : (B,), norm of the gradient by W and b that counts as converged
    x, image : (B, C, n), coordinates of W and b, and their image
    norm : (B,), of the gradient; iterations : (B,)
    """

    weights: Array
    targets: Array
    decay: Array
    tolerance: Array
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
    rows: Rows, weights: Array, targets: Array, decay: Array, tolerance: Array,
    max_iterations: int, start: Array | None = None,
) -> Batch:  # fmt: skip
    """Bring every problem to its optimum, from zero or a start; see `Batch` for the arrays."""
    x = np.zeros((*targets.shape[:2], rows.width)) if start is None else start
    norm, iterations = np.full(len(x), np.inf), np.zeros(len(x), np.int64)
    batch = Batch(weights, targets, decay, tolerance, x, rows.image(x), norm, iterations)
    left, active = np.arange(len(x)), batch
    p, by_logits = _loss(batch, rows.logits(batch.image))
    while True:
        gradient, l2 = rows.gradient(by_logits), active.decay * active.x
        if rows.intercept:
            l2[..., -1] = 0.0
        gradient += l2
        image = rows.image(gradient)
        active.norm = np.sqrt(rows.inner(gradient, gradient, image))
        going = (active.norm > active.tolerance) & (active.iterations < max_iterations)
        if not going.all():
            batch.put(left, active)
            if not going.any():
                return batch
            left, active, p, by_logits, gradient, image = (
                part[going] if isinstance(part, np.ndarray) else part.take(going)
                for part in (left, active, p, by_logits, gradient, image)
            )
        step = _newton_direction(rows, active, p, gradient, image)
        p, by_logits = _move(rows, active, (gradient, image), by_logits, step)
        active.iterations += 1


def _newton_direction(rows: Rows, batch: Batch, p: Array, gradient: Array, image: Array) -> Array:
    """Return approximate Newton steps by conjugate gradients.

    In float32: they only have to point downhill.
    """
    p, residual, image = (part.astype(np.float32) for part in (p, -gradient, -image))
    decay, weighted = batch.decay.astype(np.float32), p * batch.weights.astype(np.float32)
    direction, solution, term = residual.copy(), np.zeros_like(residual), np.empty_like(residual)
    square = rows.inner(residual, residual, image)
    goal = square * _forcing(square, batch) ** 2
    for _ in range(MOST_PRODUCTS):
        v = rows.logits(image)
        v -= np.einsum("bcn,bcn->bn", p, v)[:, None]
        v *= weighted
        product = rows.gradient(v)
        np.multiply(direction, decay, out=term)
        if rows.intercept:
            term[..., -1] = 0.0
        product += term
        length = square / np.maximum(rows.inner(product, direction, image), TINY)
        solution += np.multiply(direction, length[:, None, None], out=term)
        residual -= np.multiply(product, length[:, None, None], out=product)
        new = rows.image(residual)
        before, square = square, rows.inner(residual, residual, new)
        if (square <= goal).all():
            break
        ratio = (square / np.maximum(before, TINY))[:, None, None]
        direction *= ratio
        direction += residual
        image *= ratio
        image += new
    return solution.astype(np.float64)


def _forcing(square: Array, batch: Batch) -> Array:
    """Return the share of every gradient that may remain as residual, (B,)."""
    enough = np.minimum(LOOSEST, OVERSHOOT * batch.tolerance / batch.norm)
    return np.clip(square**0.25, np.maximum(TIGHTEST, enough), LOOSEST)


def _move(
    rows: Rows, batch: Batch, gradient: tuple[Array, Array], by_logits: Array, step: Array
) -> tuple[Array, Array]:
    """Move a batch along its steps; return probabilities and dLoss/dz there.

    Objectives are convex: a step is too long where its end is steep, and the secant of the slopes
    gives a better one. No trial costs a product with the rows.
    """
    image, length = rows.image(step), np.ones((len(step), 1, 1))
    start, along = rows.logits(batch.image), rows.logits(image)
    slope = rows.inner(step, *gradient)
    l2_slope = slope - _dot(by_logits, along)
    l2_step = batch.decay * step
    if rows.intercept:
        l2_step[..., -1] = 0.0
    l2_curvature = rows.inner(l2_step, step, image)
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
    return np.vecdot(left.reshape(len(left), -1), right.reshape(len(right), -1))
