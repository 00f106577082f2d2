"""The compiled core: the penalised log-likelihood, its gradient, its maximum and its profiles.

The model is the baseline-category logit with K = J + 1 classes, class 0 the reference::

    l*(θ) = Σ_i w_i log p(y_i | z_i) + τ log det F(θ),     F = Σ_i w_i M_i ⊗ z_i z_i'

with ``M_i = diag(p_i) - p_i p_i'`` over the J other classes; two classes are the case J = 1.
The gradient of the penalty needs, for each row, only the J x J matrix ``V_i`` with entries
``z_i' (F⁻¹)_{jk} z_i``::

    ∂ log det F / ∂η_il = w_i p_il (V_ll - 2 (V p)_l - Σ_j p_j V_jj + 2 p'V p)

Arrays hold observations along their last axis, so that loops over observations run through
memory; BLAS reads a row-major array as its transpose, hence the design is stored as Z' and its
n x r columns are what BLAS sees. Observations are taken in blocks that stay in the cache.
All q x q matrices (q = J r) are symmetric or triangular, the triangle being BLAS's lower one.

Every step of the solvers uses B = F + A, where A is a symmetric rank-one (SR1) estimate of the
curvature of the penalty: Fisher scoring at first, superlinear at the end. Constraints
``C θ = b`` hold at the start and are kept by every step, so a restricted fit keeps the
information of the full model in its penalty.

Everything is in one file because numba's cache notices changes in the file of a function only,
not in the files of the functions that it calls (so touch it after a change of `_blas` or
`_elementary`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from firthshot.jeffreys._blas import (
    LOWER,
    NO,
    NON_UNIT,
    RIGHT,
    YES,
    dgemm,
    dpotrf,
    dpotrs,
    dsyrk,
    dtrmm,
    dtrtri,
)
from firthshot.jeffreys._elementary import add, apply, copy, dot, exp_in_place, fill, log_in_place

FloatArray = NDArray[np.float64]
# Sums may be reordered for vector instructions; infinities and NaN keep their meaning.
FAST = {"reassoc", "contract"}
_CACHE_DOUBLES, _FEWEST_ROWS = 16_384, 256
CONVERGED, TOO_MANY_STEPS, NO_ASCENT, SINGULAR, ILL_CONDITIONED = 0, 1, 2, 3, 4
_SHORTEST_STEP = 1e-10
# Below this many columns gemm beats syrk and trmm although it does twice the work, and OpenBLAS
# keeps products of fewer multiplications than _ONE_THREAD to one thread, which is quicker.
_NARROW, _ONE_THREAD = 40, 250_000


class Data(NamedTuple):
    """What stays constant during a fit: n observations, r columns, J = K - 1 contrasts."""

    Z: FloatArray  # (r, n) the design, transposed
    y: NDArray[np.int64]  # (n,) class numbers, 0 is the reference
    w: FloatArray  # (n,)
    offset: FloatArray  # (J, n)
    tau: float


class Work(NamedTuple):
    """Scratch memory; after `value` and `gradient` it describes the point last evaluated."""

    P: FloatArray  # (J, n) probabilities of the non-reference classes
    P0: FloatArray  # (n,) probability of the reference
    F: FloatArray  # (q, q) Fisher information, both triangles
    L: FloatArray  # (q, q) its Cholesky factor
    Linv: FloatArray  # (q, q)
    score: FloatArray  # (2, q): of the penalised log-likelihood, and of the penalty alone
    hat: FloatArray  # (n,) w_i tr(M_i V_i)
    V: FloatArray  # (J, J, n), filled when the penalty is on
    block: FloatArray  # (r, rows)
    G: FloatArray  # (J, q, rows)
    residual: FloatArray  # (2 J, rows)
    rows: FloatArray  # (3, rows)
    info: NDArray[np.int64]  # (1,)


def make_work(n: int, r: int, J: int) -> Work:
    """Allocate scratch memory for ``n`` observations, ``r`` columns and ``J`` contrasts."""
    q = J * r
    rows = max(_FEWEST_ROWS, _CACHE_DOUBLES // max(1, J * q))
    if 0 < r < _NARROW:
        rows = min(rows, _ONE_THREAD // r**2)
    rows = min(n, rows)
    return Work(
        P=np.empty((J, n)),
        P0=np.empty(n),
        F=np.zeros((q, q)),
        L=np.zeros((q, q)),
        Linv=np.zeros((q, q)),
        score=np.zeros((2, q)),
        hat=np.zeros(n),
        V=np.zeros((J, J, n)),
        block=np.empty((r, rows)),
        G=np.zeros((J, q, rows)),
        residual=np.empty((2 * J, rows)),
        rows=np.empty((3, rows)),
        info=np.zeros(1, dtype=np.int64),
    )


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _predictors(data: Data, work: Work, theta: FloatArray, start: int, rows: int) -> None:
    """Fill ``work.P`` with the linear predictors of one block."""
    r, J = data.Z.shape[0], work.P.shape[0]
    for j in range(J):
        eta, offset = work.P[j, start:], data.offset[j, start:]
        for b in range(rows):
            eta[b] = offset[b]
        for s in range(r):
            Z, weight = data.Z[s, start:], theta[j * r + s]
            for b in range(rows):
                eta[b] += weight * Z[b]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _probabilities(data: Data, work: Work, start: int, rows: int) -> float:
    """Turn the linear predictors in ``work.P`` into probabilities; return the log-likelihood."""
    J = work.P.shape[0]
    top, total, scratch = work.rows[0, :rows], work.rows[1, :rows], work.rows[2, :rows]
    y, w = data.y[start : start + rows], data.w[start : start + rows]
    loglik, finite = 0.0, 0.0
    for b in range(rows):
        top[b] = 0.0
    for j in range(J):
        eta = work.P[j, start : start + rows]
        for b in range(rows):
            top[b] = max(top[b], eta[b])
            finite += eta[b]
            loglik += w[b] * eta[b] if y[b] == j + 1 else 0.0
    reference = work.P0[start : start + rows]
    for b in range(rows):
        loglik -= w[b] * top[b]
        reference[b] = -top[b]
    exp_in_place(reference, scratch)
    for b in range(rows):
        total[b] = reference[b]
    for j in range(J):
        odds = work.P[j, start : start + rows]
        for b in range(rows):
            odds[b] -= top[b]
        exp_in_place(odds, scratch)
        for b in range(rows):
            total[b] += odds[b]
    for b in range(rows):
        top[b] = 1.0 / total[b]
        reference[b] *= top[b]
    for j in range(J):
        odds = work.P[j, start : start + rows]
        for b in range(rows):
            odds[b] *= top[b]
    log_in_place(total, scratch)
    for b in range(rows):
        loglik -= w[b] * total[b]
    return loglik + 0.0 * finite  # NaN as soon as one predictor is not finite


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _scale_columns(data: Data, work: Work, start: int, rows: int, j: int, k: int) -> None:
    """Fill ``work.block`` with the columns of Z times sqrt(w |M_jk|)."""
    r, J = data.Z.shape[0], work.P.shape[0]
    root = work.residual[0]
    for b in range(rows):
        i = start + b
        other = work.P[k, i]
        if j == k:  # 1 - p_j as a sum: no cancellation when p_j is nearly 1
            other = work.P0[i]
            for m in range(J):
                if m != j:
                    other += work.P[m, i]
        root[b] = np.sqrt(data.w[i] * work.P[j, i] * other)
    for s in range(r):
        for b in range(rows):
            work.block[s, b] = root[b] * data.Z[s, start + b]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_information(data: Data, work: Work, start: int, rows: int) -> None:
    """Add one block of observations to F; every block (j, k) of F is itself symmetric."""
    r, J, q, most = data.Z.shape[0], work.P.shape[0], work.F.shape[0], work.block.shape[1]
    Y = work.block
    for j in range(J):
        for k in range(j, J):
            _scale_columns(data, work, start, rows, j, k)
            sign = 1.0 if j == k else -1.0
            corner = work.F[j * r :, k * r :]
            if r < _NARROW:
                dgemm((YES, NO, r, r, rows, sign, Y, most, Y, most, 1.0, corner, q))
            else:
                dsyrk((LOWER, YES, r, rows, sign, Y, most, 1.0, corner, q))


@njit(cache=True, nogil=True, error_model="numpy")
def _complete(F: FloatArray, r: int) -> None:
    """Fill F from the triangles that `_add_information` has written."""
    J = F.shape[0] // r
    for j in range(J):
        for k in range(j, J):
            for s in range(r):
                for t in range(s + 1):
                    # BLAS's lower triangle is the upper one in row-major order.
                    entry = F[j * r + t, k * r + s]
                    F[j * r + s, k * r + t] = entry
                    F[k * r + t, j * r + s] = entry
                    F[k * r + s, j * r + t] = entry


@njit(cache=True, nogil=True, error_model="numpy")
def value(data: Data, work: Work, theta: FloatArray) -> float:
    """Return l*(θ) and leave probabilities, F and its Cholesky factor in ``work``.

    Minus infinity when F is not positive definite to machine precision.
    """
    r, n = data.Z.shape
    q, most = work.F.shape[0], work.block.shape[1]
    fill(work.F, 0.0)
    lp = 0.0
    for start in range(0, n, most):
        rows = min(most, n - start)
        _predictors(data, work, theta, start, rows)
        lp += _probabilities(data, work, start, rows)
        _add_information(data, work, start, rows)
    _complete(work.F, r)
    copy(work.F, work.L)
    dpotrf((LOWER, q, work.L, q, work.info))
    if work.info[0] != 0 or not np.isfinite(lp):
        return -np.inf
    for s in range(q):
        lp += 2.0 * data.tau * np.log(work.L[s, s])
    return lp


@njit(cache=True, nogil=True, error_model="numpy")
def _whiten(data: Data, work: Work, start: int, rows: int) -> None:
    """Fill ``work.G[j]`` with (e_j ⊗ z_i)' L⁻ᵀ, of which the first j r columns are zero."""
    r, n = data.Z.shape
    J, q, most = work.P.shape[0], work.F.shape[0], work.block.shape[1]
    for j in range(J):
        G, first = work.G[j], j * r
        if r >= _NARROW:
            for s in range(r):
                for b in range(rows):
                    G[first + s, b] = data.Z[s, start + b]
            triangle, own = work.Linv[first:, first:], G[first:]
            dtrmm((RIGHT, LOWER, YES, NON_UNIT, rows, r, 1.0, triangle, q, own, most))
            first += r
        while first < q:
            below, target = work.Linv[j * r :, first:], G[first:]
            width = r if r < _NARROW else q - first
            Z = data.Z[:, start:]
            dgemm((NO, YES, rows, width, r, 1.0, Z, n, below, q, 0.0, target, most))
            first += width


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _quadratic_forms(work: Work, r: int, start: int, rows: int) -> None:
    """Fill V_i = z_i' (F⁻¹)_{jk} z_i for one block of observations."""
    J, q = work.P.shape[0], work.F.shape[0]
    for j in range(J):
        for k in range(j, J):
            V, mirror = work.V[j, k, start:], work.V[k, j, start:]
            for b in range(rows):
                V[b] = 0.0
            for s in range(k * r, q):
                left, right = work.G[j, s], work.G[k, s]
                for b in range(rows):
                    V[b] += left[b] * right[b]
            for b in range(rows):
                mirror[b] = V[b]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _residuals(data: Data, work: Work, start: int, rows: int) -> None:
    """Fill the derivatives with respect to the linear predictors, and the hat values."""
    J = work.P.shape[0]
    end = start + rows
    y, w, hat = data.y[start:end], data.w[start:end], work.hat[start:end]
    diagonal, full = work.rows[0, :rows], work.rows[1, :rows]
    for b in range(rows):
        diagonal[b] = 0.0
        full[b] = 0.0
    for j in range(J):
        own, p, row = work.V[j, j, start:end], work.P[j, start:end], work.residual[J + j]
        for b in range(rows):
            row[b] = 0.0
        for k in range(J):
            V, other = work.V[j, k, start:end], work.P[k, start:end]
            for b in range(rows):
                row[b] += V[b] * other[b]
        for b in range(rows):
            diagonal[b] += p[b] * own[b]
            full[b] += p[b] * row[b]
            row[b] = own[b] - 2.0 * row[b]
    for b in range(rows):
        hat[b] = w[b] * (diagonal[b] - full[b])
        diagonal[b] -= 2.0 * full[b]
    for j in range(J):
        p, total, penalty = work.P[j, start:end], work.residual[j], work.residual[J + j]
        for b in range(rows):
            share = w[b] * p[b]
            penalty[b] = data.tau * share * (penalty[b] - diagonal[b])
            hit = w[b] if y[b] == j + 1 else 0.0
            total[b] = hit - share + penalty[b]


@njit(cache=True, nogil=True, error_model="numpy")
def gradient(data: Data, work: Work) -> None:
    """Fill ``work.score`` and ``work.hat`` at the point at which `value` was last called."""
    r, n = data.Z.shape
    J, q, most = work.P.shape[0], work.F.shape[0], work.block.shape[1]
    if data.tau > 0.0:
        copy(work.L, work.Linv)
        dtrtri((LOWER, NON_UNIT, q, work.Linv, q, work.info))
        for i in range(q):
            for j in range(i):
                work.Linv[i, j] = 0.0
    fill(work.score, 0.0)
    for start in range(0, n, most):
        rows = min(most, n - start)
        if data.tau > 0.0:
            _whiten(data, work, start, rows)
            _quadratic_forms(work, r, start, rows)
        _residuals(data, work, start, rows)
        Z, R = data.Z[:, start:], work.residual
        dgemm((YES, NO, r, 2 * J, rows, 1.0, Z, n, R, most, 1.0, work.score, r))


@njit(cache=True, nogil=True, error_model="numpy")
def _factor_curvature(work: Work, A: FloatArray, B: FloatArray) -> None:
    """Factor F + A into ``B``; forget A where the sum is not positive definite."""
    q = B.shape[0]
    for i in range(q):
        for j in range(q):
            B[i, j] = work.F[i, j] + A[i, j]
    dpotrf((LOWER, q, B, q, work.info))
    if work.info[0] != 0:
        fill(A, 0.0)
        copy(work.L, B)


@njit(cache=True, nogil=True, error_model="numpy")
def _newton_parts(
    work: Work, A: FloatArray, B: FloatArray, C: FloatArray, S: FloatArray, step: FloatArray
) -> None:
    """Fill ``step`` with B⁻¹U projected on C δ = 0, and the rows of ``S`` with B⁻¹U and B⁻¹C'."""
    q, m = B.shape[0], C.shape[0]
    _factor_curvature(work, A, B)
    copy(work.score[:1], S[:1])
    copy(C, S[1:])
    dpotrs((LOWER, q, m + 1, B, q, S, q, work.info))
    add(S[0], 0.0, S[0], step)
    if m == 0:
        return
    pull, along = np.empty((m, m)), np.empty(m)
    for i in range(m):
        for j in range(m):
            pull[i, j] = dot(C[i], S[1 + j])
    dpotrf((LOWER, m, pull, m, work.info))
    for _ in range(2):  # the second time removes what rounding has left of a very long step
        for i in range(m):
            along[i] = dot(C[i], step)
        dpotrs((LOWER, m, 1, pull, m, along, m, work.info))
        for i in range(m):
            add(step, -along[i], S[1 + i], step)


@njit(cache=True, nogil=True, error_model="numpy")
def _learn_curvature(A: FloatArray, step: FloatArray, change: FloatArray) -> None:
    """Update A by the rank-one matrix that makes ``A step = change``; spoils ``change``."""
    q = step.size
    for i in range(q):
        change[i] -= dot(A[i], step)
    along = dot(change, step)
    if abs(along) > 1e-8 * np.sqrt(dot(change, change) * dot(step, step)):
        for i in range(q):
            share = change[i] / along
            for j in range(q):
                A[i, j] += share * change[j]


@njit(cache=True, nogil=True, error_model="numpy")
def maximise(
    data: Data,
    work: Work,
    theta: FloatArray,
    A: FloatArray,
    C: FloatArray,
    tol: float,
    max_iter: int,
    least_pivot: float,
) -> tuple[float, float, int, int]:
    """Climb from ``theta`` (overwritten by the maximum) keeping ``C θ`` as it is.

    Gives up at once where a pivot of F is below ``least_pivot``, relative to its diagonal.

    Returns
    -------
    lp, decrement, iterations, status
        ``decrement`` is sqrt(U'B⁻¹U) at the result: the last step in standard errors.
    """
    q, m = theta.size, C.shape[0]
    B, S = np.empty((q, q)), np.empty((m + 1, q))
    step, change, trial = np.empty(q), np.empty(q), np.empty(q)
    lp = value(data, work, theta)
    if lp == -np.inf:
        return lp, np.inf, 0, SINGULAR
    for s in range(q):
        if work.L[s, s] ** 2 < least_pivot * work.F[s, s]:
            return lp, np.inf, 0, ILL_CONDITIONED
    gradient(data, work)
    for iteration in range(max_iter + 1):
        _newton_parts(work, A, B, C, S, step)
        decrement = np.sqrt(max(0.0, dot(work.score[0], step)))
        if decrement <= tol:
            return lp, decrement, iteration, CONVERGED
        if iteration == max_iter:
            break
        add(work.score[1], 0.0, step, change)
        add(theta, 1.0, step, trial)
        higher = value(data, work, trial)
        # Below the resolution of lp in double precision a decrease means nothing.
        slack = 4e-15 * (q + abs(lp))
        while higher < lp - slack or not higher > -np.inf:
            add(step, -0.5, step, step)
            decrement *= 0.5
            if decrement < _SHORTEST_STEP:
                value(data, work, theta)
                gradient(data, work)
                return lp, 2.0 * decrement, iteration, NO_ASCENT
            add(theta, 1.0, step, trial)
            higher = value(data, work, trial)
        add(theta, 1.0, step, theta)
        lp = higher
        gradient(data, work)
        add(change, -1.0, work.score[1], change)
        _learn_curvature(A, step, change)
    return lp, decrement, max_iter, TOO_MANY_STEPS


@njit(cache=True, nogil=True, error_model="numpy")
def profile_bound(
    data: Data,
    work: Work,
    theta: FloatArray,
    A: FloatArray,
    C: FloatArray,
    target: float,
    depth: float,
    side: float,
    tol: float,
    max_iter: int,
) -> tuple[float, int, int]:
    """Find where the profile of ``C[0]'θ`` falls to ``target``, from a first guess ``theta``.

    Venzon and Moolgavkar's method in the metric of B: with t = B⁻¹c / c'B⁻¹c the path of the
    profile, d the nuisance step and g = U't, κ = t'Bt, the model of the profile is
    l + ½ U'd + g Δ - ½ κ Δ² and Δ is its root on the wanted side.

    Returns
    -------
    bound, iterations, status
    """
    q = theta.size
    c = C[0]
    B, S = np.empty((q, q)), np.empty((2, q))
    step, change, trial = np.empty(q), np.empty(q), np.empty(q)
    width = 0.0
    lp = value(data, work, theta)
    if lp == -np.inf:
        return np.nan, 0, SINGULAR
    gradient(data, work)
    for iteration in range(max_iter):
        _newton_parts(work, A, B, C, S, step)
        kappa = 1.0 / dot(c, S[1])
        slope = kappa * dot(c, S[0])
        gain = 0.5 * dot(work.score[0], step)
        room = slope * slope + 2.0 * kappa * (lp + gain - target)
        move = side * 2.0 / np.sqrt(kappa)
        if room >= 0.0:
            move = (slope + side * np.sqrt(room)) / kappa
        elif slope * side < 0.0:
            move = (lp + gain - target) / -slope * 0.5 if slope != 0.0 else move
        # The move is good to second order in the gap, and the gain is allowed for.
        if abs(lp - target) <= 0.1 * tol**0.25 and gain <= 100.0 * tol and room >= 0.0:
            return dot(c, theta) + move, iteration + 1, CONVERGED
        width = max(width, 2.0 / np.sqrt(kappa))
        move = min(max(move, -3.0 * width), 3.0 * width)
        add(step, move * kappa, S[1], step)
        add(work.score[1], 0.0, step, change)
        add(theta, 1.0, step, trial)
        lower = value(data, work, trial)
        while not lower > target - 4.0 * depth:
            add(step, -0.5, step, step)
            if dot(step, step) < _SHORTEST_STEP**2 * dot(theta, theta):
                return dot(c, theta), iteration, NO_ASCENT
            add(theta, 1.0, step, trial)
            lower = value(data, work, trial)
        add(theta, 1.0, step, theta)
        lp = lower
        gradient(data, work)
        add(change, -1.0, work.score[1], change)
        _learn_curvature(A, step, change)
    return dot(c, theta), max_iter, TOO_MANY_STEPS


@njit(cache=True, nogil=True, error_model="numpy")
def test_each(
    data: Data,
    work: Work,
    top: FloatArray,
    inverse: FloatArray,
    A: FloatArray,
    forms: FloatArray,
    tol: float,
    max_iter: int,
) -> tuple[FloatArray, FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Maximise under ``forms[k]'θ = 0`` for each k, from the free maximum ``top``.

    Returns
    -------
    lp, decrements, iterations, status
        Arrays with one entry per form.
    """
    m = forms.shape[0]
    lp, decrements = np.empty(m), np.empty(m)
    iterations, status = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.int64)
    path, theta = np.empty(top.size), np.empty(top.size)
    for k in range(m):
        apply(inverse, forms[k], path)
        add(top, -dot(forms[k], top) / dot(forms[k], path), path, theta)
        lp[k], decrements[k], iterations[k], status[k] = maximise(
            data, work, theta, A.copy(), forms[k : k + 1], tol, max_iter, 0.0
        )
    return lp, decrements, iterations, status


@njit(cache=True, nogil=True, error_model="numpy")
def profile_each(
    data: Data,
    work: Work,
    top: FloatArray,
    inverse: FloatArray,
    A: FloatArray,
    forms: FloatArray,
    highest: float,
    drop: float,
    tol: float,
    max_iter: int,
) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Find both profile bounds of each form, starting from its Wald bounds.

    Returns
    -------
    bounds, iterations, status
        Arrays of shape (m, 2).
    """
    m = forms.shape[0]
    bounds = np.empty((m, 2))
    iterations, status = np.empty((m, 2), dtype=np.int64), np.empty((m, 2), dtype=np.int64)
    path, theta = np.empty(top.size), np.empty(top.size)
    for k in range(m):
        apply(inverse, forms[k], path)
        reach = np.sqrt(2.0 * drop / dot(forms[k], path))
        for end in range(2):
            side = 2.0 * end - 1.0
            add(top, side * reach, path, theta)
            bounds[k, end], iterations[k, end], status[k, end] = profile_bound(
                data,
                work,
                theta,
                A.copy(),
                forms[k : k + 1],
                highest - drop,
                drop,
                side,
                tol,
                max_iter,
            )
    return bounds, iterations, status
