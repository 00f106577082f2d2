"""The Firth head: logistic regression with Firth bias reduction and a ridge, several at once.

Minimises Σ_i w_i [CE(y_i‖p_i) + λ KL(u‖p_i)] + (l2 / 2) ‖W‖² over W and an intercept, for several
sets of weights w over the same rows: that of all rows, and those that leave some out. L-BFGS,
started from the inverse Hessian of probabilities that are all equal, which all sets share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from firthshot.arrays import Array

MEMORY = 6
MOST_STEPS = 100
TOLERANCE = 1e-4  # of the gradient, relative to the weights' sum, for rows about 1 apart
SLOPE, SHORTEST = 1e-4, 1e-8  # of Armijo's rule


@dataclass(frozen=True)
class Problem:
    """Several logistic regressions on the same rows.

    Attributes
    ----------
    rows : (N, r + 1), the last column ones; targets : (N, K), y + λ u
    weights : (B, N); lam, l2 : the two penalties
    scatter : (r, r), Σ w x x' of the rows, about: only the way to the optimum depends on it
    """

    rows: Array
    targets: Array
    weights: Array
    lam: float
    l2: float
    scatter: Array

    def value_and_gradient(self, W: Array) -> tuple[Array, Array]:
        """Return the objective (B,) and its gradient (B, r + 1, K)."""
        logits = self.rows @ W
        top = logits.max(axis=2, keepdims=True)
        p = np.exp(logits - top)
        total = p.sum(axis=2, keepdims=True)
        p *= (1 + self.lam) / total
        loss = (1 + self.lam) * (np.log(total) + top)[..., 0]
        loss -= (self.targets * logits).sum(axis=2)
        p -= self.targets
        p *= self.weights[..., None]
        gradient = self.rows.T @ p
        ridge = self.l2 * W
        ridge[:, -1] = 0.0
        gradient += ridge
        value = (self.weights * loss).sum(axis=1) + 0.5 * _inner(ridge, W)
        return value, gradient

    def inverse(self) -> Array:
        """Return the inverse Hessian (r + 1, r + 1) of a class at equal probabilities."""
        n_classes, size = self.targets.shape[1], len(self.scatter)
        curvature = (1 + self.lam) * (1 - 1 / n_classes) / n_classes
        hessian = curvature * self.scatter
        least = 1e-9 * (curvature + float(np.trace(hessian)) / size)
        hessian[np.diag_indices(size)] += max(self.l2, least)
        inverse = np.zeros((size + 1, size + 1))
        half = dpotri(dpotrf(hessian, lower=1)[0], lower=1)[0]
        inverse[:size, :size] = np.tril(half) + np.tril(half, -1).T
        inverse[size, size] = 1 / (curvature * float(self.weights[0].sum()))
        return inverse


def solve(
    problem: Problem, inverse: Array, start: Array | None = None, tolerance: float = TOLERANCE
) -> Array:
    """Return the optimum of every set of weights, (B, r + 1, K).

    Parameters
    ----------
    inverse : (r + 1, r + 1), about the inverse Hessian of a class, as `Problem.inverse` gives it
    start : (B, r + 1, K)
    """
    n_sets, n_classes = len(problem.weights), problem.targets.shape[1]
    W = np.zeros((n_sets, problem.rows.shape[1], n_classes)) if start is None else start
    enough = tolerance * problem.weights.sum(axis=1)
    value, gradient = problem.value_and_gradient(W)
    pairs: list[tuple[Array, Array, Array]] = []
    for _ in range(MOST_STEPS):
        if (np.abs(gradient).max(axis=(1, 2)) <= enough).all():
            break
        step = _direction(gradient, pairs, inverse)
        moved, value_there, gradient_there = _descend(problem, W, value, gradient, step)
        taken, change = moved - W, gradient_there - gradient
        bend = _inner(taken, change)
        pairs.append((taken, change, np.where(bend > 0, 1 / np.where(bend > 0, bend, 1.0), 0.0)))
        pairs = pairs[-MEMORY:]
        W, value, gradient = moved, value_there, gradient_there
    return W


def _direction(gradient: Array, pairs: list[tuple[Array, Array, Array]], inverse: Array) -> Array:
    """Return the step against the gradient by the two loops of L-BFGS."""
    step, along = gradient.copy(), []
    for taken, change, rho in reversed(pairs):
        share = rho * _inner(taken, step)
        along.append(share)
        step -= share[:, None, None] * change
    step = inverse @ step
    if pairs:
        _, change, rho = pairs[-1]
        bent = _inner(inverse @ change, change) * rho
        step *= np.where(bent > 0, 1 / np.where(bent > 0, bent, 1.0), 1.0)[:, None, None]
    for (taken, change, rho), share in zip(pairs, reversed(along), strict=True):
        step += (share - rho * _inner(change, step))[:, None, None] * taken
    return step


def _descend(
    problem: Problem, W: Array, value: Array, gradient: Array, step: Array
) -> tuple[Array, Array, Array]:
    """Go along the step, half as far wherever that does not lower the objective."""
    length = np.ones(len(W))
    slope = _inner(gradient, step)
    while True:
        moved = W - length[:, None, None] * step
        there, gradient_there = problem.value_and_gradient(moved)
        bad = there > value - SLOPE * length * slope + 1e-12 * np.abs(value)
        bad &= length > SHORTEST
        if not bad.any():
            return moved, there, gradient_there
        length[bad] /= 2


def _inner(a: Array, b: Array) -> Array:
    """Return the inner products of two stacks of matrices, (B,)."""
    n = len(a)
    return np.asarray((a.reshape(n, 1, -1) @ b.reshape(n, -1, 1)).ravel())
