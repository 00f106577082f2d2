"""The penalised log-likelihood, its information and its gradient, block by block."""

from __future__ import annotations

import numpy as np

from firthshot.jeffreys._kernels.memory import NARROW, Data, FloatArray, Work
from firthshot.kernels import kernel
from firthshot.kernels.blas import (
    LOWER,
    NO,
    NON_UNIT,
    RIGHT,
    YES,
    dgemm,
    dpotrf,
    dsyrk,
    dtrmm,
    dtrtri,
)
from firthshot.kernels.elementary import copy, exp_in_place, fill, log_in_place

# Sums may be reordered for vector instructions; infinities and NaN keep their meaning.
FAST = {"reassoc", "contract"}


@kernel(fastmath=FAST, error_model="numpy")
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


@kernel(fastmath=FAST, error_model="numpy")
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


@kernel(fastmath=FAST, error_model="numpy")
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


@kernel(error_model="numpy")
def _add_information(data: Data, work: Work, start: int, rows: int) -> None:
    """Add one block of observations to F; every block (j, k) of F is itself symmetric."""
    r, J, q, most = data.Z.shape[0], work.P.shape[0], work.F.shape[0], work.block.shape[1]
    Y = work.block
    for j in range(J):
        for k in range(j, J):
            _scale_columns(data, work, start, rows, j, k)
            sign = 1.0 if j == k else -1.0
            corner = work.F[j * r :, k * r :]
            if r < NARROW:
                dgemm((YES, NO, r, r, rows, sign, Y, most, Y, most, 1.0, corner, q))
            else:
                dsyrk((LOWER, YES, r, rows, sign, Y, most, 1.0, corner, q))


@kernel(error_model="numpy")
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


@kernel(error_model="numpy")
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


@kernel(error_model="numpy")
def _whiten(data: Data, work: Work, start: int, rows: int) -> None:
    """Fill ``work.G[j]`` with (e_j ⊗ z_i)' L⁻ᵀ, of which the first j r columns are zero."""
    r, n = data.Z.shape
    J, q, most = work.P.shape[0], work.F.shape[0], work.block.shape[1]
    for j in range(J):
        G, first = work.G[j], j * r
        if r >= NARROW:
            for s in range(r):
                for b in range(rows):
                    G[first + s, b] = data.Z[s, start + b]
            triangle, own = work.Linv[first:, first:], G[first:]
            dtrmm((RIGHT, LOWER, YES, NON_UNIT, rows, r, 1.0, triangle, q, own, most))
            first += r
        while first < q:
            below, target = work.Linv[j * r :, first:], G[first:]
            width = r if r < NARROW else q - first
            Z = data.Z[:, start:]
            dgemm((NO, YES, rows, width, r, 1.0, Z, n, below, q, 0.0, target, most))
            first += width


@kernel(fastmath=FAST, error_model="numpy")
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


@kernel(fastmath=FAST, error_model="numpy")
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
            weight = w[b] * p[b]
            penalty[b] = data.tau * weight * (penalty[b] - diagonal[b])
            hit = w[b] if y[b] == j + 1 else 0.0
            total[b] = hit - weight + penalty[b]


@kernel(error_model="numpy")
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
