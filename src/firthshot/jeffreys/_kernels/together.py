"""Climbs from several starts at once, in NumPy: one call of NumPy serves all of them.

The method is that of `solve.maximise`. A small problem spends its time on calls, not on numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firthshot.jeffreys._kernels.memory import Data, FloatArray
from firthshot.jeffreys._kernels.solve import (
    CONVERGED,
    NO_ASCENT,
    SHORTEST_STEP,
    SINGULAR,
    TOO_MANY_STEPS,
)
from firthshot.jeffreys._kernels.words import LEAST_EXPONENT

_NO_UPDATE = 1e-8  # Nocedal and Wright's safeguard (6.26)


class Points(NamedTuple):
    """What is known at some points, one along each first axis."""

    theta: FloatArray  # (s, q)
    lp: FloatArray  # (s,), minus infinity where F is not positive definite
    score: FloatArray  # (s, q), of the penalised log-likelihood
    penalty: FloatArray  # (s, q), of the penalty alone
    F: FloatArray  # (s, q, q)
    A: FloatArray  # (s, q, q), what the climb has learnt of the curvature of the penalty


def _pick(points: Points, which: NDArray[np.int64]) -> Points:
    return Points(*(part[which] for part in points))


def maximise_each(
    data: Data, starts: FloatArray, C: FloatArray, tol: float, max_iter: int
) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Maximise l* from each row of ``starts``, keeping ``C θ`` as it is.

    Returns
    -------
    theta, lp, decrements, iterations, status
        Arrays with one entry per start.
    """
    count, q = starts.shape
    now = _evaluate(data, starts, np.zeros((count, q, q)))
    theta, lp, decrements = starts.copy(), now.lp.copy(), np.full(count, np.inf)
    iterations = np.zeros(count, dtype=np.int64)
    status = np.where(np.isfinite(lp), TOO_MANY_STEPS, SINGULAR)
    climbing = np.flatnonzero(status == TOO_MANY_STEPS)
    now = _pick(now, climbing)
    for iteration in range(max_iter + 1):
        if not climbing.size:
            break
        now, step = _newton_steps(now, C)
        gain = (now.score * step).sum(axis=1)
        lost = ~np.isfinite(gain)
        length = np.where(lost, np.inf, np.sqrt(np.maximum(gain, 0.0)))
        theta[climbing], lp[climbing], decrements[climbing] = now.theta, now.lp, length
        iterations[climbing] = iteration
        status[climbing[length <= tol]] = CONVERGED
        status[climbing[lost]] = NO_ASCENT
        going = np.flatnonzero(~lost & (length > tol))
        if iteration == max_iter:
            break
        now, risen = _backtrack(data, _pick(now, going), step[going], length[going])
        status[climbing[going[~risen]]] = NO_ASCENT
        climbing, now = climbing[going[risen]], _pick(now, np.flatnonzero(risen))
    return theta, lp, decrements, iterations, status


def _evaluate(data: Data, theta: FloatArray, A: FloatArray) -> Points:
    """Compute l*, its gradient and the information at each row of ``theta``."""
    r, J, count = len(data.Z), len(data.offset), len(theta)
    eta = theta.reshape(count, J, r) @ data.Z + data.offset
    top = np.maximum(eta.max(axis=1), 0.0)
    P = np.exp(np.maximum(eta - top[:, None], LEAST_EXPONENT))
    P0 = np.exp(np.maximum(-top, LEAST_EXPONENT))
    odds = P0 + P.sum(axis=1)
    P /= odds[:, None]
    P0 /= odds
    hits = data.y == np.arange(1, J + 1)[:, None]
    lp = (np.where(hits, eta, 0.0).sum(axis=1) - top - np.log(odds)) @ data.w
    F = _information(data, P, P0)
    L = _factors(F)
    sound = np.isfinite(lp + eta.sum(axis=(1, 2)) + L[:, -1, -1])
    L[~sound] = np.eye(J * r)
    lp += 2.0 * data.tau * np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
    penalty = data.tau * _penalty_slopes(data, P, L)
    residual = np.where(hits, data.w, 0.0) - data.w * P + penalty
    score, part = ((each @ data.Z.T).reshape(count, J * r) for each in (residual, penalty))
    return Points(theta, np.where(sound, lp, -np.inf), score, part, F, A)


def _information(data: Data, P: FloatArray, P0: FloatArray) -> FloatArray:
    J, r = P.shape[1], len(data.Z)
    F = np.empty((len(P), J * r, J * r))
    for j in range(J):
        for k in range(j, J):
            # 1 - p_j as a sum: no cancellation when p_j is nearly 1
            other = -P[:, k] if k > j else P0 + P[:, :j].sum(axis=1) + P[:, j + 1 :].sum(axis=1)
            block = (data.Z * (data.w * P[:, j] * other)[:, None]) @ data.Z.T
            F[:, j * r : (j + 1) * r, k * r : (k + 1) * r] = block
            F[:, k * r : (k + 1) * r, j * r : (j + 1) * r] = block
    return F


def _penalty_slopes(data: Data, P: FloatArray, L: FloatArray) -> FloatArray:
    """Return ∂ log det F / ∂η, shape (s, J, n)."""
    (count, J, _), r = P.shape, len(data.Z)
    G = np.linalg.inv(L).reshape(count, J * r, J, r) @ data.Z
    V = np.einsum("sqjn,sqkn->sjkn", G, G)
    rows, own = np.einsum("sjkn,skn->sjn", V, P), np.einsum("sjjn->sjn", V)
    diagonal, full = (P * own).sum(axis=1), (P * rows).sum(axis=1)
    return np.asarray(data.w * P * (own - 2.0 * rows - (diagonal - 2.0 * full)[:, None]))


def _factors(F: FloatArray) -> FloatArray:
    """Return the Cholesky factors L with F = L L'; NaN at the end of those that have none."""
    try:
        return np.asarray(np.linalg.cholesky(F), dtype=np.float64)
    except np.linalg.LinAlgError:
        return _factors_where_possible(F)


def _factors_where_possible(F: FloatArray) -> FloatArray:
    L = np.zeros_like(F)
    for k in range(F.shape[1]):
        column = F[:, k:, k] - np.einsum("sik,sk->si", L[:, k:, :k], L[:, k, :k])
        L[:, k:, k] = column / np.sqrt(column[:, :1])  # NaN or infinite unless positive
    return L


def _newton_steps(now: Points, C: FloatArray) -> tuple[Points, FloatArray]:
    """Return B⁻¹U projected on C δ = 0; A is forgotten where B = F + A is not positive definite."""
    U = _factors(now.F + now.A)
    lost = ~np.isfinite(U[:, -1, -1])
    if lost.any():
        now = now._replace(A=np.where(lost[:, None, None], 0.0, now.A))
        U[lost] = _factors(now.F[lost])
    half = np.linalg.inv(U)
    inverse = half.transpose(0, 2, 1) @ half
    step = np.einsum("sij,sj->si", inverse, now.score)
    if len(C):
        along = inverse @ C.T
        back = along @ np.linalg.inv(C @ along)
        for _ in range(2):  # the second time removes what rounding has left of a very long step
            step = step - np.einsum("sim,sm->si", back, step @ C.T)
    return now, step


def _backtrack(
    data: Data, now: Points, step: FloatArray, length: FloatArray
) -> tuple[Points, NDArray[np.bool_]]:
    """Halve each step until l* does not fall, take it, and update A; tell which were taken."""
    least = now.lp - 4e-15 * (now.theta.shape[1] + np.abs(now.lp))
    reached = _evaluate(data, now.theta + step, now.A)
    size = 1.0 + (now.theta**2).sum(axis=1)
    risen = reached.lp >= least
    halving = np.flatnonzero(~risen)
    share = 1.0
    while halving.size:
        share *= 0.5
        squares = share**2 * (step[halving] ** 2).sum(axis=1)
        long = (share * length[halving] >= SHORTEST_STEP) | (
            squares >= SHORTEST_STEP**2 * size[halving]
        )
        halving = halving[long]
        tried = _evaluate(data, now.theta[halving] + share * step[halving], now.A[halving])
        up = tried.lp >= least[halving]
        for part, new in zip(reached, tried, strict=True):
            part[halving[up]] = new[up]
        risen[halving[up]] = True
        halving = halving[~up]
    taken = reached.theta - now.theta
    return reached._replace(A=_learn(now, reached, taken)), risen


def _learn(before: Points, after: Points, step: FloatArray) -> FloatArray:
    """Update A by the symmetric rank-one matrix that makes ``A step`` the change of slope (SR1)."""
    learnt = np.einsum("sij,sj->si", before.A, step)
    residual = before.penalty - after.penalty - learnt
    along = (residual * step).sum(axis=1)
    bound = _NO_UPDATE * np.sqrt((residual**2).sum(axis=1) * (step**2).sum(axis=1))
    factor = np.where(np.abs(along) > bound, 1.0 / along, 0.0)
    update = factor[:, None, None] * residual[:, :, None] * residual[:, None, :]
    return before.A + np.where(factor[:, None, None] == 0.0, 0.0, update)
