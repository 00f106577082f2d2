"""Several linear heads on the same rows, brought to their optima at once by NumPy and BLAS alone.

L-BFGS for convex losses with L2, in the metric of the Hessian at equal probabilities. The problems
of a batch share the rows and differ in sample weights (zero for a row left out), targets and L2, so
that one product serves them all. Nothing is compiled: a first small fit answers at once.

Inner products are those of W and b in either space of rows below, whose choice therefore changes
rounding alone; so do rows given twice instead of a weight of two. Arrays are (B, C, n): problem,
class, sample or coordinate, or the same flat, (B, C n).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array
from firthshot.engine.solvers.metric import Metric, Rows

# Pairs of steps and changes of the gradient that L-BFGS keeps. Two do for features of encoders;
# more help where L2 is small.
MEMORY = 5
# After every so many steps the metric is taken anew if the curvature is so many times less there.
LOOK, FLATTER = 8, 2.0
# A step ends where the slope is at most this share of the first; each trial in its place is this
# much shorter at least and at most. Half or twice the shares changes no step on our benches.
FLAT, MOST_TRIALS, SHORTEST, LONGEST = 0.9, 30, 0.1, 0.9
# How far tracked logits may be from those of the coordinates. Rounding of float32 reaches 1e-4 or
# so; coordinates that grow without bound soon pass 1.
ASTRAY = 1e-2
TINY = 1e-37  # in the place of a zero divisor


@dataclass
class Problems:
    """What is to be minimised, for every problem of a batch.

    Attributes
    ----------
    weights : (B, 1, N), not negative, of sum one in every problem
    targets : (B, C, N), of sum one over the classes
    l2 : (B, 1, 1), above zero: beside the mean loss stands ½ l2 ‖W‖²
    """

    weights: Array
    targets: Array
    l2: Array

    def take(self, kept: Array) -> Problems:
        """Return some of the problems."""
        return Problems(self.weights[kept], self.targets[kept], self.l2[kept])

    def gradient(self, rows: Rows, point: Array) -> Array:
        """Return the gradients at points."""
        z = rows.logits(point)
        z -= np.maximum.reduce(z, axis=1, keepdims=True)
        p = np.exp(z, out=z)
        p /= np.add.reduce(p, axis=1, keepdims=True)
        p -= self.targets
        p *= self.weights
        return rows.gradient(p, point, self.l2)


@dataclass(frozen=True)
class Optima:
    """Where the solver got to with every problem."""

    x: Array  # (B, C, n), coordinates
    logits: Array  # (B, C, N)
    norm: Array  # (B,), of the gradient, or above it
    iterations: Array  # (B,)
    scale: Array  # (B,), of the metric there
    metric: Metric  # the last


class _Memory:
    """The last pairs of L-BFGS: steps s, and changes y of the gradient in the metric, P y.

    The step against a gradient g is P (g − Y a) + S R⁻ᵀ (D a − Y' P (g − Y a)) with a = R⁻¹ S' g,
    R_ij = s_i' y_j for pairs i up to j and else 0, D its diagonal (Byrd, Nocedal and Schnabel).
    P is taken at the scale s'y / y'Py of the last pair, but at most 1: coordinates of rows that
    depend on each other would grow above 2, and no inner product would notice.
    """

    def __init__(self, point: Array, scale: Array) -> None:
        n_problems, size = point.shape
        self.pairs = np.empty((n_problems, 2 * MEMORY, size), point.dtype)  # s, P y, s, P y, …
        self.steps = np.zeros((n_problems, MEMORY, MEMORY), point.dtype)  # s_i' y_j
        self.changes = np.zeros_like(self.steps)  # y_i' P y_j
        self.found = scale[:, None].astype(point.dtype)
        self.added = 0

    @property
    def scale(self) -> Array:
        """Return the factors of P, (B, 1)."""
        return np.asarray(np.minimum(self.found, 1.0))

    def take(self, kept: Array) -> None:
        """Forget some of the problems."""
        self.pairs, self.steps, self.changes, self.found = (
            part[kept] for part in (self.pairs, self.steps, self.changes, self.found)
        )

    def add(self, rows: Rows, step: Array, scaled: Array, change: Array) -> None:
        """Keep a pair in the place of the oldest; ``scaled`` is the change in the metric."""
        at, n = self.added % MEMORY, min(self.added + 1, MEMORY)
        self.pairs[:, 2 * at], self.pairs[:, 2 * at + 1] = step, scaled
        products = self._products(rows, change, n)
        if not (products[:, at] > 0).all():  # a step as small as rounding says nothing
            self.added = 0
            return
        self.added += 1
        self.steps[:, at] = 0.0
        self.steps[:, :n, at] = products[..., 0]
        self.changes[:, :n, at] = self.changes[:, at, :n] = products[..., 1]
        self.found = products[:, at, :1] / products[:, at, 1:]

    def _products(self, rows: Rows, gradient: Array, n: int) -> Array:
        """Return s'g and (P y)'g of the first n pairs, (B, n, 2)."""
        found: Array = np.vecdot(rows.paired(self.pairs[:, : 2 * n]), gradient[:, None])
        return found.reshape(len(found), n, 2)

    def descent(self, rows: Rows, gradient: Array, scaled: Array) -> Array:
        """Return the steps against gradients, whose products with the metric are ``scaled``."""
        n, scale = min(self.added, MEMORY), self.scale
        if not n:
            return -scale * scaled
        steps, products = self.steps[:, :n, :n], self._products(rows, gradient, n)
        inverse, weights = np.linalg.inv(steps), np.empty_like(products)
        a = inverse @ products[..., :1]
        rest = scale * (products[..., 1:] - self.changes[:, :n, :n] @ a)[..., 0]
        rest -= np.einsum("bii->bi", steps) * a[..., 0]
        weights[..., 0] = (rest[:, None] @ inverse)[:, 0]
        weights[..., 1] = scale * a[..., 0]
        step: Array = (weights.reshape(-1, 1, 2 * n) @ self.pairs[:, : 2 * n])[:, 0]
        step -= scale * scaled
        return step


def minimise_together(
    rows: Rows, metric: Metric, problems: Problems, start: tuple[Array, Array],
    tolerance: float, max_iterations: int,
) -> Optima:  # fmt: skip
    """Bring every problem to its optimum.

    Parameters
    ----------
    start : coordinates (B, C, n), and a scale of the metric (B,)
    tolerance : norm of the gradient by W and b that counts as converged
    """
    n_problems = len(start[0])
    points = point = rows.point(start[0])
    norms, scales, iterations = np.empty(n_problems), start[1].copy(), np.zeros(n_problems, int)
    left, memory, iteration = np.arange(n_problems), _Memory(point, scales), 0
    gradient = problems.gradient(rows, point)
    scaled = metric.times(gradient)
    while True:
        norm = np.sqrt(metric.stiffest * np.abs(_dot(rows.paired(scaled), gradient)))
        going = norm > tolerance
        if not going.all() or iteration == max_iterations:
            points[left], norms[left], iterations[left] = point, norm, iteration
            scales[left] = memory.scale[:, 0]
            if iteration == max_iterations or not going.any():
                x, logits = rows.coordinates(points), rows.logits(points)
                astray = np.abs(rows.point(x) - points).max(axis=1) > ASTRAY
                norms[astray] = np.inf
                return Optima(x, logits, norms, iterations, scales, metric)
            left, problems = left[going], problems.take(going)
            point, gradient, scaled = point[going], gradient[going], scaled[going]
            memory.take(going)
        step, there, new = _move(
            rows, problems, point, gradient, memory.descent(rows, gradient, scaled)
        )
        before, scaled = scaled, metric.times(new)
        memory.add(rows, step, scaled - before, new - gradient)
        point, gradient, iteration = there, new, iteration + 1
        if iteration % LOOK == 0 and memory.found.min() > FLATTER:
            metric = rows.metric(metric.l2, metric.c / float(memory.found.min()))
            memory, scaled = _Memory(point, np.ones(len(point))), metric.times(gradient)


def _move(
    rows: Rows, problems: Problems, point: Array, gradient: Array, step: Array
) -> tuple[Array, Array, Array]:
    """Return the steps taken along those given, where they end, and the gradients there.

    Objectives are convex: a step is too long where its end is steep, and the secant of the slopes
    gives a better one.
    """
    along = rows.paired(step)
    slope = _dot(along, gradient)
    for _ in range(MOST_TRIALS):
        there = point + step
        gradient = problems.gradient(rows, there)
        end = _dot(along, gradient)
        long = end > -FLAT * slope
        if not long.any():
            break
        share = np.clip(slope / np.minimum(slope - end, -TINY), SHORTEST, LONGEST)
        step = step * np.where(long, share, 1.0)[:, None].astype(step.dtype)
    return step, there, gradient


def _dot(left: Array, right: Array) -> Array:
    """Return the sums of products of every problem, (B,)."""
    found: Array = np.vecdot(left, right)
    return found
