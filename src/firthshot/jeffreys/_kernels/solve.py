"""The maximum of the penalised log-likelihood, and where its profiles fall to a level.

Both take quasi-Newton steps with step halving. U is the score, B = F + A the approximate negative
Hessian (see the package), and C δ = 0 what a constrained step δ keeps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firthshot.jeffreys._kernels.evaluate import gradient, value
from firthshot.jeffreys._kernels.memory import Data, FloatArray, Top, Work
from firthshot.kernels import kernel
from firthshot.kernels.blas import LOWER, dpotrf, dpotrs
from firthshot.kernels.elementary import add, apply, copy, dot, fill

Level = tuple[float, float]
CONVERGED, TOO_MANY_STEPS, NO_ASCENT, SINGULAR, ILL_CONDITIONED = 0, 1, 2, 3, 4
# Halving ends below this length, in standard errors and relative to θ: shorter steps change no
# digit that is printed. Half the value costs one more halving.
SHORTEST_STEP = 1e-10
MOST_HALVINGS = 100  # any finite step is below SHORTEST_STEP before; this ends steps of NaN


@kernel(error_model="numpy")
def _factor_curvature(work: Work, B: FloatArray) -> None:
    """Factor F + A into ``B``; forget A where the sum is not positive definite."""
    q = B.shape[0]
    for i in range(q):
        for j in range(q):
            B[i, j] = work.F[i, j] + work.A[i, j]
    dpotrf((LOWER, q, B, q, work.info))
    if work.info[0] != 0:
        fill(work.A, 0.0)
        copy(work.L, B)


@kernel(error_model="numpy")
def _newton_parts(
    work: Work, B: FloatArray, C: FloatArray, S: FloatArray, step: FloatArray
) -> None:
    """Fill ``step`` with B⁻¹U projected on C δ = 0, and the rows of ``S`` with B⁻¹U and B⁻¹C'."""
    q, m = B.shape[0], C.shape[0]
    _factor_curvature(work, B)
    copy(work.score[:1], S[:1])
    copy(C, S[1:])
    dpotrs((LOWER, q, m + 1, B, q, S, q, work.info))
    add(S[0], 0.0, S[0], step)
    if m == 0:
        return
    schur, along = np.empty((m, m)), np.empty(m)
    for i in range(m):
        for j in range(m):
            schur[i, j] = dot(C[i], S[1 + j])
    dpotrf((LOWER, m, schur, m, work.info))
    for _ in range(2):  # the second time removes what rounding has left of a very long step
        for i in range(m):
            along[i] = dot(C[i], step)
        dpotrs((LOWER, m, 1, schur, m, along, m, work.info))
        for i in range(m):
            add(step, -along[i], S[1 + i], step)


@kernel(error_model="numpy")
def _sr1_update(A: FloatArray, step: FloatArray, change: FloatArray) -> None:
    """Update A by the symmetric rank-one matrix that makes ``A step = change`` (SR1).

    ``change`` becomes the residual ``change - A step``, the vector of the update.
    """
    q, residual = step.size, change
    for i in range(q):
        residual[i] -= dot(A[i], step)
    along = dot(residual, step)
    # Nocedal and Wright's safeguard (6.26): skip an update whose denominator is rounding.
    if abs(along) > 1e-8 * np.sqrt(dot(residual, residual) * dot(step, step)):
        for i in range(q):
            factor = residual[i] / along
            for j in range(q):
                A[i, j] += factor * residual[j]


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
    least_pivot: float,
) -> tuple[float, float, int, int]:
    """Maximise l* from ``theta`` (overwritten by the maximum), keeping ``C θ`` as it is.

    ``work.A`` is improved. Gives up at once where a pivot of F is below ``least_pivot``, relative
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
    for s in range(q):
        if work.L[s, s] ** 2 < least_pivot * work.F[s, s]:
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
        kappa = 1.0 / dot(c, S[1])
        slope = kappa * dot(c, S[0])
        gain = 0.5 * dot(work.score[0], step)
        room = slope * slope + 2.0 * kappa * (lp + gain - target)
        # If the model has no root (room < 0): half a Newton step back to the level if the profile
        # falls outwards here, two standard errors outwards if it rises.
        move = side * 2.0 / np.sqrt(kappa)
        if room >= 0.0:
            move = (slope + side * np.sqrt(room)) / kappa
        elif slope * side < 0.0:
            move = (lp + gain - target) / -slope * 0.5 if slope != 0.0 else move
        # Close enough: the last move is read off the model, without another evaluation. The model
        # contains the gain of the nuisance step. With these bounds the error left is of the order
        # of tol; twice either saves a step and doubles that error.
        if abs(lp - target) <= 0.1 * tol**0.25 and gain <= 100.0 * tol and room >= 0.0:
            return dot(c, theta) + move, iteration + 1, CONVERGED
        # No move exceeds six standard errors, the largest standard error met so far: a start may be
        # far from the bound, where the model is poor.
        width = max(width, 2.0 / np.sqrt(kappa))
        move = min(max(move, -3.0 * width), 3.0 * width)
        add(step, move * kappa, S[1], step)
        # A step may end below the level, by up to four times the drop: the model finds back from
        # there.
        reached = _backtrack(data, work, theta, step, target - 4.0 * drop, 0.0)
        if reached == -np.inf:
            return dot(c, theta), iteration, NO_ASCENT
        lp = reached
    return dot(c, theta), max_iter, TOO_MANY_STEPS


@kernel(error_model="numpy")
def restricted_fits(
    data: Data, work: Work, top: Top, forms: FloatArray, tol: float, max_iter: int
) -> tuple[FloatArray, FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Maximise under ``forms[k]'θ = 0`` for each k, from the free maximum.

    Returns
    -------
    lp, decrements, iterations, status
        Arrays with one entry per form.
    """
    m, q = forms.shape
    lp, decrements = np.empty(m), np.empty(m)
    iterations, status = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.int64)
    path, theta = np.empty(q), np.empty(q)
    for k in range(m):
        apply(top.inverse, forms[k], path)
        add(top.theta, -dot(forms[k], top.theta) / dot(forms[k], path), path, theta)
        copy(top.curvature, work.A)
        lp[k], decrements[k], iterations[k], status[k] = maximise(
            data, work, theta, forms[k : k + 1], tol, max_iter, 0.0
        )
    return lp, decrements, iterations, status


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
