"""Several linear heads on the same rows, brought to their optima at once by NumPy and BLAS alone.

L-BFGS for convex losses, with L2 or without, in the metric of the Hessian at equal probabilities.
The problems of a batch share the rows and differ in sample weights (zero for a row left out),
targets and L2, so that one product serves them all. Nothing is compiled: a first small fit answers
at once.

Inner products are those of W and b in either space of rows below, whose choice therefore changes
rounding alone; so do rows given twice instead of a weight of two. Logits are (B, C, N): problem,
class, sample; points and gradients are flat, (B, …).
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
# The curvature is never taken for more times less than the metric's: where a step led to logits at
# which nothing is curved, the next would be so long that rounding is all that is left of it. 30 and
# 1e5 do as well.
FLATTEST = 1e3
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
    targets : (B, C, N), of sum one over the classes, times the weights
    l2 : (B, 1), not negative: beside the mean loss stands ½ l2 ‖W‖²
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
        p *= self.weights / np.add.reduce(p, axis=1, keepdims=True)
        p -= self.targets
        return rows.gradient(p, point, self.l2)


@dataclass(frozen=True)
class Optima:
    """Where the solver got to with every problem."""

    points: Array  # (B, …)
    logits: Array  # (B, C, N)
    norm: Array  # (B,), of the gradient, or above it
    iterations: Array  # (B,)
    metric: Metric  # the last


class _Memory:
    """The last pairs of L-BFGS: steps s, and changes y of the gradient in the metric, P y.

    The step against a gradient g is P (g − Y a) + S R⁻ᵀ (D a − Y' P (g − Y a)) with a = R⁻¹ S' g,
    R_ij = s_i' y_j for pairs i up to j and else 0, D its diagonal (Byrd, Nocedal and Schnabel).
    P is taken at the scale s'y / y'Py of the last pair, but at most ``limit``: where that is twice
    the L2 of the metric over that of the problem, coordinates of rows that depend on each other
    would grow, and no inner product would notice.
    """

    def __init__(self, point: Array, limit: Array) -> None:
        n_problems, size = point.shape
        self.pairs = np.empty((n_problems, 2 * MEMORY, size), point.dtype)  # s, P y, s, P y, …
        self.along = np.empty((n_problems, 2 * MEMORY), point.dtype)  # their products with g
        self.inverse = np.zeros((n_problems, MEMORY, MEMORY), point.dtype)  # R⁻¹
        self.diagonal = np.zeros((n_problems, MEMORY), point.dtype)  # s_i' y_i
        self.changes = np.zeros_like(self.inverse)  # y_i' P y_j
        self.found, self.limit = np.ones((n_problems, 1), point.dtype), limit
        self.added = 0

    def take(self, kept: Array) -> None:
        """Forget some of the problems."""
        for name, part in vars(self).items():
            if isinstance(part, np.ndarray):
                setattr(self, name, part[kept])

    def add(self, rows: Rows, step: Array, change: Array, before: Array, gradient: Array) -> None:
        """Keep a step and the change of the gradient in the metric, in the place of the oldest."""
        at, n = self.added % MEMORY, min(self.added + 1, MEMORY)
        pair = np.s_[:, 2 * at : 2 * at + 2]
        self.pairs[:, 2 * at], self.pairs[:, 2 * at + 1] = step, change
        np.vecdot(rows.paired(self.pairs[pair]), before[:, None], out=self.along[pair])
        along = np.vecdot(rows.paired(self.pairs[:, : 2 * n]), gradient[:, None])
        products = along - self.along[:, : 2 * n]
        if not (products[pair] > 0).all():  # a step as small as rounding says nothing
            self.added = 0
            return
        self.added += 1
        self.along[:, : 2 * n] = along
        self.changes[:, :n, at] = self.changes[:, at, :n] = products[:, 1::2]
        own = self.diagonal[:, at] = products[:, 2 * at]
        self.found = (own / products[:, 2 * at + 1])[:, None]
        self._extend(at, products[:, ::2] / -own[:, None], 1 / own)

    def _extend(self, at: int, column: Array, corner: Array) -> None:
        """Put a column into R⁻¹; the inverse of R without its first pair is the rest of R⁻¹."""
        n = column.shape[1]
        self.inverse[:, at] = self.inverse[:, :, at] = 0.0
        self.inverse[:, :n, at] = np.vecdot(self.inverse[:, :n, :n], column[:, None])
        self.inverse[:, at, at] = corner

    def descent(self, scaled: Array) -> Array:
        """Return the steps against the gradients, whose products with the metric are ``scaled``."""
        n, scale = min(self.added, MEMORY), np.minimum(self.found, self.limit)
        if not n:
            return -scale * scaled
        along, inverse = self.along[:, : 2 * n], self.inverse[:, :n, :n]
        a, weights = np.vecdot(inverse, along[:, None, ::2]), np.empty_like(along)
        rest = scale * (along[:, 1::2] - np.vecdot(self.changes[:, :n, :n], a[:, None]))
        rest -= self.diagonal[:, :n] * a
        np.vecdot(inverse.mT, rest[:, None], out=weights[:, ::2])
        np.multiply(scale, a, out=weights[:, 1::2])
        step: Array = (weights[:, None] @ self.pairs[:, : 2 * n])[:, 0]
        step -= scale * scaled
        return step


def minimise_together(
    rows: Rows, metric: Metric, problems: Problems, start: Array, tolerance: float,
    max_iterations: int,
) -> Optima:  # fmt: skip
    """Bring every problem to its optimum.

    Parameters
    ----------
    start : points (B, …)
    tolerance : norm of the gradient by W and b that counts as converged
    """
    points, point = start.copy(), start
    norms, iterations = np.empty(len(point)), np.zeros(len(point), int)
    left, memory, iteration = np.arange(len(point)), _forget(problems, metric, point), 0
    gradient = problems.gradient(rows, point)
    scaled = metric.times(gradient)
    while True:
        square = metric.stiffest * _dot(rows.paired(scaled), gradient)
        going = square > tolerance**2
        if not going.all() or iteration == max_iterations:
            points[left], norms[left], iterations[left] = point, np.sqrt(np.abs(square)), iteration
            if iteration == max_iterations or not going.any():
                norms[metric.strayed(points) > ASTRAY] = np.inf
                return Optima(points, rows.logits(points), norms, iterations, metric)
            left, problems = left[going], problems.take(going)
            memory.take(going)
            point, gradient, scaled = point[going], gradient[going], scaled[going]
        step, there, new = _move(rows, problems, point, gradient, memory.descent(scaled))
        before, scaled = scaled, metric.times(new)
        memory.add(rows, step, scaled - before, gradient, new)
        point, gradient, iteration = there, new, iteration + 1
        if iteration % LOOK == 0 and memory.found.min() > FLATTER:
            metric = rows.metric(metric.l2, metric.c / float(memory.found.min()))
            memory, scaled = _forget(problems, metric, point), metric.times(gradient)


def _forget(problems: Problems, metric: Metric, point: Array) -> _Memory:
    limit = metric.l2 / np.maximum(problems.l2, metric.l2 / FLATTEST)
    return _Memory(point, np.maximum(limit, 1.0))


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
