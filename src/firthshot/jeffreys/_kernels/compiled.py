"""The core compiled with numba, for problems that are not small: quasi-Newton steps with halving.

U is the score, B = F + A the approximate negative Hessian (see the package), and C δ = 0 what a
constrained step δ keeps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firthshot.jeffreys._kernels.evaluate import gradient, value
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
from firthshot.kernels import kernel
from firthshot.kernels.blas import LOWER, dpotrf, dpotrs
from firthshot.kernels.elementary import add, apply, copy, dot, fill

SLOW = 8  # iterations of any climb; where there is one maximum it mostly takes fewer


@kernel
def total(x: FloatArray, y: FloatArray, a: FloatArray) -> None:
    """Set ``a`` to the sum of two matrices."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = x[i, j] + y[i, j]


@kernel
def add_outer(x: FloatArray, factor: float, a: FloatArray) -> None:
    """Add factor · x x' to ``a``."""
    for i in range(x.size):
        weight = factor * x[i]
        for j in range(x.size):
            a[i, j] += weight * x[j]


@kernel
def factor(B: FloatArray, info: NDArray[np.int64]) -> bool:
    """Replace B by U with B = U'U; tell whether it is positive definite."""
    size = B.shape[0]
    dpotrf((LOWER, size, B, size, info))
    return bool(info[0] == 0)


@kernel
def solve_factored(U: FloatArray, S: FloatArray, info: NDArray[np.int64]) -> None:
    """Replace each row s of ``S`` by the solution of U'U x = s."""
    size = U.shape[0]
    dpotrs((LOWER, size, S.shape[0], U, size, S, size, info))


@kernel(error_model="numpy")
def least_pivot(work: Work) -> float:
    """Return the smallest pivot of F relative to its diagonal."""
    least = np.inf
    for s in range(work.F.shape[0]):
        least = min(least, work.L[s, s] ** 2 / work.F[s, s])
    return least


@kernel(error_model="numpy")
def _stiffness(work: Work, c: FloatArray) -> float:
    """Return how much of c c' is added to B."""
    spread = 0.0
    for s in range(c.size):
        spread += c[s] * c[s] / work.F[s, s]
    return STIFFNESS / spread


@kernel(error_model="numpy")
def _factor_curvature(work: Work, B: FloatArray, C: FloatArray) -> None:
    """Factor F + A into ``B``, stiff along ``C``; forget A where that is not positive definite."""
    total(work.F, work.A, B)
    for i in range(C.shape[0]):
        add_outer(C[i], _stiffness(work, C[i]), B)
    if not factor(B, work.info):
        fill(work.A, 0.0)
        copy(work.F, B)
        for i in range(C.shape[0]):
            add_outer(C[i], _stiffness(work, C[i]), B)
        factor(B, work.info)


@kernel(error_model="numpy")
def _newton_parts(
    work: Work, B: FloatArray, C: FloatArray, S: FloatArray, step: FloatArray
) -> None:
    """Fill ``step`` with B⁻¹U projected on C δ = 0, and the rows of ``S`` with B⁻¹U and B⁻¹C'.

    B is stiff along C.
    """
    m = C.shape[0]
    _factor_curvature(work, B, C)
    copy(work.score[:1], S[:1])
    copy(C, S[1:])
    solve_factored(B, S, work.info)
    add(S[0], 0.0, S[0], step)
    if m == 0:
        return
    schur, along = np.empty((m, m)), np.empty((1, m))
    for i in range(m):
        for j in range(m):
            schur[i, j] = dot(C[i], S[1 + j])
    factor(schur, work.info)
    for _ in range(2):  # the second time removes what rounding has left of a very long step
        for i in range(m):
            along[0, i] = dot(C[i], step)
        solve_factored(schur, along, work.info)
        for i in range(m):
            add(step, -along[0, i], S[1 + i], step)


@kernel(error_model="numpy")
def _sr1_update(A: FloatArray, step: FloatArray, change: FloatArray) -> None:
    """Update A by the symmetric rank-one matrix that makes ``A step = change`` (SR1).

    ``change`` becomes the residual ``change - A step``, the vector of the update.
    """
    learnt, residual = np.empty(step.size), change
    apply(A, step, learnt)
    add(change, -1.0, learnt, residual)
    along = dot(residual, step)
    # Nocedal and Wright's safeguard (6.26): skip an update whose denominator is rounding.
    if abs(along) > 1e-8 * np.sqrt(dot(residual, residual) * dot(step, step)):
        add_outer(residual, 1.0 / along, A)


@kernel(error_model="numpy")
def _backtrack(
    data: Data, work: Work, theta: FloatArray, step: FloatArray, least: float, errors: float
) -> float:
    """Halve ``step`` until l* is at least ``least``, then take it and update A.

    ``errors`` is the length of the step in standard errors, 0 where that is not known. Returns l*
    at the new ``theta``, or minus infinity if the step got shorter than `SHORTEST_STEP`: then
    ``theta`` stays.
    """
    change, trial = np.empty(theta.size), np.empty(theta.size)
    add(work.score[1], 0.0, step, change)
    add(theta, 1.0, step, trial)
    reached: float = value(data, work, trial)
    halvings = 0
    while not reached >= least:
        add(step, -0.5, step, step)
        halvings += 1
        # A step may be long in standard errors and short in θ, or the other way round; one of
        # NaN is neither.
        long = errors * 0.5**halvings >= SHORTEST_STEP
        long = long or dot(step, step) >= SHORTEST_STEP**2 * (1.0 + dot(theta, theta))
        if not long or halvings > MOST_HALVINGS:
            return -np.inf
        add(theta, 1.0, step, trial)
        reached = value(data, work, trial)
    add(theta, 1.0, step, theta)
    gradient(data, work)
    add(change, -1.0, work.score[1], change)
    _sr1_update(work.A, step, change)
    return reached


@kernel(error_model="numpy")
def maximise(
    data: Data,
    work: Work,
    theta: FloatArray,
    C: FloatArray,
    tol: float,
    max_iter: int,
    lowest_pivot: float,
) -> tuple[float, float, int, int]:
    """Maximise l* from ``theta`` (overwritten by the maximum), keeping ``C θ`` as it is.

    ``work.A`` is improved. Gives up at once where a pivot of F is below ``lowest_pivot``, relative
    to its diagonal.

    Returns
    -------
    lp, decrement, iterations, status
        ``decrement`` is sqrt(U'B⁻¹U) at the result: the next whole step in standard errors.
    """
    q, m = theta.size, C.shape[0]
    B, S, step = np.empty((q, q)), np.empty((m + 1, q)), np.empty(q)
    lp = value(data, work, theta)
    if lp == -np.inf:
        return lp, np.inf, 0, SINGULAR
    if least_pivot(work) < lowest_pivot:
        return lp, np.inf, 0, ILL_CONDITIONED
    gradient(data, work)
    for iteration in range(max_iter + 1):
        _newton_parts(work, B, C, S, step)
        gain = dot(work.score[0], step)
        if not np.isfinite(gain):
            return lp, np.inf, iteration, NO_ASCENT
        decrement = np.sqrt(max(0.0, gain))
        if decrement <= tol:
            return lp, decrement, iteration, CONVERGED
        if iteration == max_iter:
            break
        # A decrease by some 20 units of float64's rounding of lp means nothing.
        slack = 4e-15 * (q + abs(lp))
        reached = _backtrack(data, work, theta, step, lp - slack, decrement)
        if reached == -np.inf:
            value(data, work, theta)
            gradient(data, work)
            return lp, decrement, iteration, NO_ASCENT
        lp = reached
    return lp, decrement, max_iter, TOO_MANY_STEPS


@kernel(error_model="numpy")
def profile_bound(
    data: Data,
    work: Work,
    theta: FloatArray,
    C: FloatArray,
    level: Level,
    side: float,
    tol: float,
    max_iter: int,
) -> tuple[float, int, int]:
    """Find where the profile of ``C[0]'θ`` falls to the level, from a first guess ``theta``.

    ``level`` is how high that is, and how far below the maximum.

    Venzon and Moolgavkar's method in the metric of B: with t = B⁻¹c / c'B⁻¹c the path of the
    profile, d the nuisance step and g = U't, κ = t'Bt, the model of the profile is
    l + ½ U'd + g Δ - ½ κ Δ² and Δ is its root on the wanted side.

    Returns
    -------
    bound, iterations, status
    """
    q, c, (target, drop) = theta.size, C[0], level
    B, S, step = np.empty((q, q)), np.empty((2, q)), np.empty(q)
    width = 0.0
    lp = value(data, work, theta)
    if lp == -np.inf:
        return np.nan, 0, SINGULAR
    gradient(data, work)
    for iteration in range(max_iter):
        _newton_parts(work, B, C, S, step)
        stiff = 1.0 / dot(c, S[1])  # c'B⁻¹c of the stiff B; without it, κ may be negative
        kappa = stiff - _stiffness(work, c)
        slope = stiff * dot(c, S[0])
        gain = 0.5 * dot(work.score[0], step)
        room = slope * slope + 2.0 * kappa * (lp + gain - target)
        error = STIFFNESS / _stiffness(work, c)
        width = max(width, 2.0 * np.sqrt(1.0 / kappa if kappa > 0.0 else error))
        # If the model has no root (room < 0): half a Newton step back to the level if the profile
        # falls outwards here, two standard errors outwards if it rises.
        move = side * width
        if slope * side < 0.0:
            root = slope - side * np.sqrt(max(0.0, room))
            move = (lp + gain - target) * (-2.0 / root if room >= 0.0 else -0.5 / slope)
        elif room >= 0.0 and kappa > 0.0:
            move = (slope + side * np.sqrt(room)) / kappa
        # Close enough: the last move is read off the model, without another evaluation. The model
        # contains the gain of the nuisance step, which B may understate a hundredfold: with ten
        # times the second bound, a bound of the slow test missed its level by 1e-5.
        # Where the profile rises outwards, the root is another one, and far.
        close = abs(lp - target) <= 0.1 * tol**0.25 and room >= 0.0 and slope * side < 0.0
        if close and gain <= 10.0 * tol:
            return dot(c, theta) + move, iteration + 1, CONVERGED
        # No move exceeds six standard errors, the largest standard error met so far: a start may be
        # far from the bound, where the model is poor.
        move = min(max(move, -3.0 * width), 3.0 * width)
        add(step, move * stiff, S[1], step)
        # A step may end below the level, by up to four times the drop: the model finds back from
        # there.
        reached = _backtrack(data, work, theta, step, target - 4.0 * drop, 0.0)
        if reached == -np.inf:
            return dot(c, theta), iteration, NO_ASCENT
        lp = reached
    return dot(c, theta), max_iter, TOO_MANY_STEPS


@kernel(error_model="numpy")
def maximise_each(
    data: Data,
    work: Work,
    starts: FloatArray,
    C: FloatArray,
    curvature: FloatArray,
    tol: float,
    max_iter: int,
) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Maximise l* from each row of ``starts``, keeping its ``C[k] θ`` as it is.

    ``curvature`` is what ``work.A`` begins with.

    Returns
    -------
    theta, lp, decrements, iterations, status
        Arrays with one entry per start.
    """
    count = len(starts)
    theta, lp, decrements = starts.copy(), np.empty(count), np.empty(count)
    iterations, status = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    for k in range(count):
        copy(curvature, work.A)
        lp[k], decrements[k], iterations[k], status[k] = maximise(
            data, work, theta[k], C[k], tol, max_iter, 0.0
        )
    return theta, lp, decrements, iterations, status


@kernel(error_model="numpy")
def profile_each(
    data: Data, work: Work, top: Top, forms: FloatArray, level: Level, tol: float, max_iter: int
) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Find both profile bounds of each form, starting from its Wald bounds.

    Returns
    -------
    bounds, iterations, status
        Arrays of shape (m, 2).
    """
    m, q = forms.shape
    bounds = np.empty((m, 2))
    iterations, status = np.empty((m, 2), dtype=np.int64), np.empty((m, 2), dtype=np.int64)
    path, theta = np.empty(q), np.empty(q)
    for k in range(m):
        apply(top.inverse, forms[k], path)
        reach = np.sqrt(2.0 * level[1] / dot(forms[k], path))
        for end in range(2):
            side = 2.0 * end - 1.0
            add(top.theta, side * reach, path, theta)
            copy(top.curvature, work.A)
            bounds[k, end], iterations[k, end], status[k, end] = profile_bound(
                data, work, theta, forms[k : k + 1], level, side, tol, max_iter
            )
    return bounds, iterations, status
