"""The Firth head: logistic regression with Firth bias reduction and a ridge, many at once.

Minimises Σ_i w_i [CE(y_i‖p_i) + λ KL(u‖p_i)] + (l2 / 2) ‖W‖² over W and an intercept, for several
kinds of columns and several sets of weights w over the same rows. L-BFGS, started from the inverse
Hessian of probabilities that are all equal, which the sets of a kind share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from firthshot.arrays import Array

MEMORY = 6
MOST_STEPS = 100
TOLERANCE = 1e-3  # of the gradient, relative to the weights' sum, for rows about 1 apart
LARGE = 50_000  # numbers in rows times classes from which sets are not solved together
SLOPE, SHORTEST = 1e-4, 1e-8  # of Armijo's rule


@dataclass(frozen=True)
class Problem:
    """Several logistic regressions on the same labels.

    Attributes
    ----------
    rows : (S, 1, N, r + 1), the last column ones; targets : (N, K), y + λ u
    weights : (B, N); lam : λ; l2 : (S, 1, 1, 1)
    scatter : (S, r, r), Σ w x x' of all rows: only the way to the optimum depends on it
    """

    rows: Array
    targets: Array
    weights: Array
    lam: float
    l2: Array
    scatter: Array

    def value_and_gradient(self, W: Array) -> tuple[Array, Array]:
        """Return the objective (S, B) and its gradient (S, B, r + 1, K)."""
        logits = self.rows @ W
        top = logits.max(axis=-1, keepdims=True)
        p = np.exp(logits - top)
        total = p.sum(axis=-1, keepdims=True)
        p *= (1 + self.lam) / total
        loss = (1 + self.lam) * (np.log(total) + top)[..., 0]
        loss -= np.vecdot(self.targets, logits)
        p -= self.targets
        p *= self.weights[..., None]
        gradient = self.rows.mT @ p
        ridge = self.l2 * W
        ridge[..., -1, :] = 0.0
        gradient += ridge
        return np.vecdot(self.weights, loss) + 0.5 * _inner(ridge, W), gradient

    def inverse(self) -> Array:
        """Return the inverse Hessian (S, 1, r + 1, r + 1) of a class at equal probabilities."""
        n_classes, size = self.targets.shape[1], self.scatter.shape[-1]
        curvature = (1 + self.lam) * (1 - 1 / n_classes) / n_classes
        inverse = np.zeros((len(self.scatter), 1, size + 1, size + 1))
        inverse[..., size, size] = 1 / (curvature * float(self.weights[0].sum()))
        for one, scatter, l2 in zip(inverse[:, 0], self.scatter, self.l2.ravel(), strict=True):
            hessian = curvature * scatter
            least = 1e-9 * (curvature + float(np.trace(hessian)) / size)
            hessian[np.diag_indices(size)] += max(float(l2), least)
            half = dpotri(dpotrf(hessian, lower=1)[0], lower=1)[0]
            one[:size, :size] = np.tril(half) + np.tril(half, -1).T
        return inverse


def solve(problem: Problem, tolerance: float = TOLERANCE) -> Array:
    """Return the optimum for every kind and set of weights, (S, B, r + 1, K).

    Large problems solve the first set, which is all rows, and start the others there.
    """
    inverse, K = problem.inverse(), problem.targets.shape[1]
    S, n_sets, r = len(inverse), len(problem.weights), inverse.shape[-1]
    if n_sets == 1 or len(problem.targets) * r * K < LARGE:
        return _minimise(problem, np.zeros((S, n_sets, r, K)), inverse, tolerance)
    whole, others = (replace(problem, weights=problem.weights[at]) for at in np.s_[:1, 1:])
    first = _minimise(whole, np.zeros((S, 1, r, K)), inverse, tolerance)
    start = np.repeat(first, n_sets - 1, axis=1)
    return np.concatenate([first, _minimise(others, start, inverse, tolerance)], axis=1)


@dataclass(frozen=True)
class Move:
    """One step of L-BFGS: the way taken, the change of the gradient, and that change scaled."""

    taken: Array
    change: Array
    scaled_change: Array
    rho: Array


def _minimise(problem: Problem, W: Array, inverse: Array, tolerance: float) -> Array:
    enough = tolerance * problem.weights.sum(axis=1)
    value, gradient = problem.value_and_gradient(W)
    scaled = inverse @ gradient
    moves: list[Move] = []
    for _ in range(MOST_STEPS):
        if (np.abs(gradient).max(axis=(-2, -1)) <= enough).all():
            break
        step = _direction(gradient, scaled, moves)
        moved, value, gradient_there = _descend(problem, W, value, gradient, step)
        scaled_there = inverse @ gradient_there
        taken, change = moved - W, gradient_there - gradient
        rho = _one_over(_inner(taken, change))
        moves = [*moves[1 - MEMORY :], Move(taken, change, scaled_there - scaled, rho)]
        W, gradient, scaled = moved, gradient_there, scaled_there
    return W


def _direction(gradient: Array, scaled: Array, moves: list[Move]) -> Array:
    """Return the step against the gradient by the two loops of L-BFGS.

    ``scaled`` is the inverse times the gradient: the inverse times what the first loop leaves of
    the gradient is a sum of what is known.
    """
    left, step, along = gradient.copy(), scaled.copy(), []
    for move in reversed(moves):
        share = (move.rho * _inner(move.taken, left))[..., None, None]
        along.append(share)
        left -= share * move.change
        step -= share * move.scaled_change
    if moves:
        last = moves[-1]
        bent = _inner(last.scaled_change, last.change) * last.rho
        step *= np.where(bent > 0, _one_over(bent), 1.0)[..., None, None]
    for move, share in zip(moves, reversed(along), strict=True):
        step += (share - (move.rho * _inner(move.change, step))[..., None, None]) * move.taken
    return step


def _descend(
    problem: Problem, W: Array, value: Array, gradient: Array, step: Array
) -> tuple[Array, Array, Array]:
    """Go along the step, half as far wherever that does not lower the objective."""
    length = np.ones(value.shape)
    slope = _inner(gradient, step)
    while True:
        moved = W - length[..., None, None] * step
        there, gradient_there = problem.value_and_gradient(moved)
        bad = there > value - SLOPE * length * slope + 1e-12 * np.abs(value)
        bad &= length > SHORTEST
        if not bad.any():
            return moved, there, gradient_there
        length[bad] /= 2


def _one_over(values: Array) -> Array:
    """Return 1 / values, or 0 where they are not positive."""
    return np.where(values > 0, 1 / np.where(values > 0, values, 1.0), 0.0)


def _inner(a: Array, b: Array) -> Array:
    """Return the inner products of two stacks of matrices, (S, B)."""
    return np.asarray(np.vecdot(a.reshape(*a.shape[:2], -1), b.reshape(*b.shape[:2], -1)))
