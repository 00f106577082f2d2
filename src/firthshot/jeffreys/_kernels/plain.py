"""The core in NumPy, for small problems: Newton's method, and nothing to compile.

Climbs and searches for bounds run side by side, one along each first axis, so that one call of
NumPy serves them all. A single free climb has a loop of its own, which is quicker.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv, dpotrs

from firthshot.jeffreys._kernels.memory import (
    CONVERGED,
    ILL_CONDITIONED,
    MOST_HALVINGS,
    NO_ASCENT,
    SHORTEST_STEP,
    SINGULAR,
    STIFFNESS,
    TOO_MANY_STEPS,
    Data,
    FloatArray,
    Level,
    Top,
    Work,
)
from firthshot.jeffreys._kernels.points import (
    Points,
    evaluate,
    evaluate_one,
    factors,
    lower_inverses,
)

SLOW = 6  # iterations of any climb; where there is one maximum it mostly takes fewer
_LONGEST = 5.0  # of a step in linear predictors, besides what they are: beyond, B means little
_HALVES = 0.5 ** np.arange(1.0, 5.0)  # of a step that fails, tried together
Ends = tuple[FloatArray, FloatArray, FloatArray, NDArray[np.int64], NDArray[np.int64]]


def value(data: Data, work: Work, theta: FloatArray) -> float:
    """Return l*(θ) and leave what is known there in ``work``."""
    now = _point(data, theta)
    _fill(work, now)
    return float(now.lp)


def _fill(work: Work, now: Points) -> None:
    parts = (work.F, work.A, work.L, work.P, work.P0, work.V, work.hat)
    for part, new in zip(parts, now[3:], strict=True):
        part[:] = new


def maximise(
    data: Data,
    work: Work,
    theta: FloatArray,
    C: FloatArray,
    tol: float,
    max_iter: int,
    lowest_pivot: float,
) -> tuple[float, float, int, int]:
    """Maximise l* from ``theta`` as `compiled.maximise` does."""
    if len(C):
        ends = maximise_each(data, work, theta[None], C[None], work.A, tol, max_iter)
        theta[:] = ends[0][0]
        value(data, work, theta)
        return float(ends[1][0]), float(ends[2][0]), int(ends[3][0]), int(ends[4][0])
    now = _point(data, theta)
    if now.lp == -np.inf:
        return -np.inf, np.inf, 0, SINGULAR
    if lowest_pivot > 0.0:
        pivots = np.diagonal(now.L) ** 2 / np.diagonal(now.F)
        if pivots.min(initial=np.inf) < lowest_pivot:
            return float(now.lp), np.inf, 0, ILL_CONDITIONED
    status, length, iteration = TOO_MANY_STEPS, np.inf, 0
    for iteration in range(max_iter + 1):
        _, step, failed = dposv(now.F + now.A, now.score, lower=1)
        if failed:
            step, _ = dpotrs(now.L, now.score, lower=1)
        gain = float(now.score @ step)
        if not np.isfinite(gain):
            length, status = np.inf, NO_ASCENT
            break
        length = np.sqrt(max(0.0, gain))
        if length <= tol:
            status = CONVERGED
            break
        if iteration == max_iter:
            break
        risen = _risen(data, now, step, length)
        if risen is None:
            status = NO_ASCENT
            break
        now = risen
    theta[:] = now.theta
    _fill(work, now)
    return float(now.lp), length, iteration, status


def _point(data: Data, theta: FloatArray) -> Points:
    return (evaluate_one if len(data.offset) == 1 else evaluate)(data, theta)


def _risen(data: Data, now: Points, step: FloatArray, length: float) -> Points | None:
    """Halve ``step`` until l* does not fall; None if it gets too short."""
    least, size = _least(now), 1.0 + now.theta @ now.theta
    new = _point(data, now.theta + step)
    for _ in range(MOST_HALVINGS):
        if new.lp >= least:
            return new
        step, length = 0.5 * step, 0.5 * length
        if not (length >= SHORTEST_STEP or step @ step >= SHORTEST_STEP**2 * size):
            break
        new = _point(data, now.theta + step)
    return None


def _least(now: Points) -> FloatArray:
    """Return what a step must reach: a decrease by rounding means nothing."""
    return np.asarray(now.lp - 4e-15 * (now.theta.shape[-1] + np.abs(now.lp)))


class _Steps(NamedTuple):
    """Newton steps and the parts they are made of, one along each first axis."""

    free: FloatArray  # (s, q), B⁻¹U
    spread: FloatArray  # (s, q, m), B⁻¹C'
    inner: FloatArray  # (s, m, m), (C B⁻¹ C')⁻¹
    stiff: FloatArray  # (s, m), how much of its c c' each row of C has added to B
    kept: FloatArray  # (s, q), the free steps projected on C δ = 0


def _newton_steps(now: Points, C: FloatArray) -> _Steps:
    """Return the steps with B = F + A, or with F where that is not positive definite.

    B is stiff along C.
    """
    diagonal = np.diagonal(now.F, axis1=-2, axis2=-1)
    stiff = STIFFNESS / (C**2 / diagonal[:, None]).sum(axis=-1)
    across = np.swapaxes(C, -1, -2)
    added = (across * stiff[:, None]) @ C
    U = factors(now.F + now.A + added)
    lost = ~np.isfinite(U[:, -1, -1])
    if lost.any():
        U[lost] = factors(now.F[lost] + added[lost])
    half = lower_inverses(U)
    inverse = np.swapaxes(half, -1, -2) @ half
    free = _times(inverse, now.score)
    spread = inverse @ across
    inner = np.asarray(np.linalg.inv(C @ spread), dtype=np.float64)
    kept = free
    for _ in range(2 if C.shape[-2] else 0):  # twice: rounding, on a very long step
        kept = kept - _times(spread, _times(inner, _times(C, kept)))
    return _Steps(free, spread, inner, stiff, kept)


def _times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    return np.asarray((matrices @ vectors[..., None])[..., 0])


def _pick(points: Points, which: NDArray[Any]) -> Points:
    return Points(*(part[which] for part in points))


def maximise_each(
    data: Data,
    _work: Work,
    starts: FloatArray,
    C: FloatArray,
    _curvature: FloatArray,
    tol: float,
    max_iter: int,
) -> Ends:
    """Maximise l* from each row of ``starts`` as `compiled.maximise_each` does."""
    now = evaluate(data, starts)
    theta, lp, decrements = starts.copy(), now.lp.copy(), np.full(len(starts), np.inf)
    iterations = np.zeros(len(starts), dtype=np.int64)
    status = np.where(np.isfinite(lp), TOO_MANY_STEPS, SINGULAR)
    climbing = np.flatnonzero(status == TOO_MANY_STEPS)
    if len(climbing) < len(starts):
        now, C = _pick(now, climbing), C[climbing]
    for iteration in range(max_iter + 1):
        if not climbing.size:
            break
        step = _newton_steps(now, C).kept
        gain = (now.score * step).sum(axis=1)
        lost = ~np.isfinite(gain)
        length = np.where(lost, np.inf, np.sqrt(np.maximum(gain, 0.0)))
        going = ~lost & (length > tol)
        theta[climbing], lp[climbing], decrements[climbing] = now.theta, now.lp, length
        iterations[climbing] = iteration
        status[climbing[~going]] = np.where(lost[~going], NO_ASCENT, CONVERGED)
        if iteration == max_iter:
            break
        if not going.all():
            now, C, step, length = _pick(now, going), C[going], step[going], length[going]
            climbing = climbing[going]
        now, risen = _climb(data, now, step, _least(now), length)
        if not risen.all():
            status[climbing[~risen]] = NO_ASCENT
            climbing, now, C = climbing[risen], _pick(now, risen), C[risen]
    return theta, lp, decrements, iterations, status


def _climb(
    data: Data, now: Points, step: FloatArray, least: FloatArray, length: FloatArray
) -> tuple[Points, NDArray[np.bool_]]:
    """Halve each step until l* is at least ``least``; tell where it got too short before."""
    step = step * _shares(data, now.theta, step)[:, None]
    reached = evaluate(data, now.theta + step)
    risen = reached.lp >= least
    halving, share = np.flatnonzero(~risen), 1.0
    while halving.size and share > 0.5**MOST_HALVINGS:
        shares = share * _HALVES
        size = 1.0 + (now.theta[halving] ** 2).sum(axis=1)
        squares = shares[0] ** 2 * (step[halving] ** 2).sum(axis=1)
        long = shares[0] * length[halving] >= SHORTEST_STEP
        halving = halving[long | (squares >= SHORTEST_STEP**2 * size)]
        tried = evaluate(data, now.theta[halving, None] + shares[:, None] * step[halving, None])
        rises = tried.lp >= least[halving, None]
        up, first = rises.any(axis=1), rises.argmax(axis=1)
        for part, new in zip(reached, tried, strict=True):
            part[halving[up]] = new[up, first[up]]
        risen[halving[up]] = True
        halving, share = halving[~up], shares[-1]
    return reached, risen


def _shares(data: Data, theta: FloatArray, step: FloatArray) -> FloatArray:
    """Return the share of each step that at most doubles the linear predictors, or so."""
    J, r = len(data.offset), len(data.Z)
    both = np.stack([theta, step]).reshape(2, -1, J, r) @ data.Z
    here, there = np.abs(both).max(axis=(-2, -1))
    return np.asarray(np.minimum(1.0, (_LONGEST + here) / np.maximum(there, _LONGEST)))


def profile_each(
    data: Data, _work: Work, top: Top, forms: FloatArray, level: Level, tol: float, max_iter: int
) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Find both profile bounds of each form, as `compiled.profile_each` does."""
    paths = forms @ top.inverse
    reach = np.sqrt(2.0 * level[1] / (forms * paths).sum(axis=1))[:, None] * paths
    sides = np.resize([-1.0, 1.0], 2 * len(forms))
    starts = top.theta + sides[:, None] * np.repeat(reach, 2, axis=0)
    C = np.repeat(forms, 2, axis=0)[:, None]
    found = _bounds(data, starts, C, level, sides, tol, max_iter)
    return found[0].reshape(-1, 2), found[1].reshape(-1, 2), found[2].reshape(-1, 2)


def profile_bound(
    data: Data,
    _work: Work,
    theta: FloatArray,
    C: FloatArray,
    level: Level,
    side: float,
    tol: float,
    max_iter: int,
) -> tuple[float, int, int]:
    """Find where the profile of ``C[0]'θ`` falls to the level, as `compiled.profile_bound` does."""
    found = _bounds(data, theta[None], C[None], level, np.array([side]), tol, max_iter)
    return float(found[0][0]), int(found[1][0]), int(found[2][0])


def _bounds(
    data: Data,
    starts: FloatArray,
    C: FloatArray,
    level: Level,
    sides: FloatArray,
    tol: float,
    max_iter: int,
) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Find profile bounds side by side; the method and its rules are `compiled.profile_bound`'s."""
    target, drop = level
    now = evaluate(data, starts)
    bounds, width = np.full(len(starts), np.nan), np.zeros(len(starts))
    iterations = np.zeros(len(starts), dtype=np.int64)
    status = np.where(np.isfinite(now.lp), TOO_MANY_STEPS, SINGULAR)
    going = np.flatnonzero(status == TOO_MANY_STEPS)
    now = _pick(now, going)
    for iteration in range(max_iter):
        if not going.size:
            break
        steps = _newton_steps(now, C[going])
        side, stiff = sides[going], steps.inner[:, 0, 0]
        kappa = stiff - steps.stiff[:, 0]
        slope = stiff * (C[going, 0] * steps.free).sum(axis=1)
        gain = 0.5 * (now.score * steps.kept).sum(axis=1)
        ahead = now.lp + gain - target
        room = slope * slope + 2.0 * kappa * ahead
        error = np.where(kappa > 0.0, 1.0 / kappa, STIFFNESS / steps.stiff[:, 0])
        width[going] = np.maximum(width[going], 2.0 * np.sqrt(error))
        root = np.sqrt(np.maximum(room, 0.0))
        falls = ahead * np.where(room >= 0.0, -2.0 / (slope - side * root), -0.5 / slope)
        bends = (room >= 0.0) & (kappa > 0.0)
        rises = np.where(bends, (slope + side * root) / kappa, side * width[going])
        move = np.where(slope * side < 0.0, falls, rises)
        here = (C[going, 0] * now.theta).sum(axis=1)
        close = np.abs(now.lp - target) <= 0.1 * tol**0.25
        done = close & (gain <= 10.0 * tol) & (room >= 0.0) & (slope * side < 0.0)
        bounds[going], iterations[going] = np.where(done, here + move, here), iteration + 1
        status[going[done]] = CONVERGED
        move = np.clip(move, -3.0 * width[going], 3.0 * width[going])
        step = (steps.kept + (move * stiff)[:, None] * steps.spread[:, :, 0])[~done]
        going, now = going[~done], _pick(now, ~done)
        lowest = np.full(len(going), target - 4.0 * drop)
        now, risen = _climb(data, now, step, lowest, np.zeros(len(going)))
        status[going[~risen]] = NO_ASCENT
        going, now = going[risen], _pick(now, risen)
    return bounds, iterations, status
