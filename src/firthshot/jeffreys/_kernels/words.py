"""The words of `solve` in NumPy: what a small problem needs, with nothing to compile."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from firthshot.jeffreys._kernels.memory import Data, FloatArray, Work

LEAST_EXPONENT = -707.0  # exp of it is a normal number still, as in the compiled kernels


def dot(a: FloatArray, b: FloatArray) -> float:
    """Return a'b."""
    return float(a @ b)


def add(x: FloatArray, factor: float, step: FloatArray, a: FloatArray) -> None:
    """Set ``a`` to x + factor · step."""
    a[:] = x + factor * step


def total(x: FloatArray, y: FloatArray, a: FloatArray) -> None:
    """Set ``a`` to the sum of two matrices."""
    np.add(x, y, out=a)


def add_outer(x: FloatArray, factor: float, a: FloatArray) -> None:
    """Add factor · x x' to ``a``."""
    a += np.multiply.outer(factor * x, x)


def apply(matrix: FloatArray, x: FloatArray, a: FloatArray) -> None:
    """Set ``a`` to matrix · x."""
    np.matmul(matrix, x, out=a)


def fill(a: FloatArray, number: float) -> None:
    """Set every entry of a matrix."""
    a[:] = number


def copy(source: FloatArray, a: FloatArray) -> None:
    """Copy a matrix into ``a``."""
    a[:] = source


def factor(B: FloatArray, info: NDArray[np.int64]) -> bool:
    """Replace B by U with B = U'U; tell whether it is positive definite."""
    B[:], info[0] = dpotrf(B, lower=0)
    return bool(info[0] == 0)


def solve_factored(U: FloatArray, S: FloatArray, info: NDArray[np.int64]) -> None:
    """Replace each row s of ``S`` by the solution of U'U x = s."""
    solution, info[0] = dpotrs(U, S.T, lower=0)
    S[:] = solution.T


def least_pivot(work: Work) -> float:
    """Return the smallest pivot of F relative to its diagonal."""
    return float((np.diagonal(work.L) ** 2 / np.diagonal(work.F)).min(initial=np.inf))


def value(data: Data, work: Work, theta: FloatArray) -> float:
    """Return l*(θ) and leave probabilities, F and its Cholesky factor in ``work``.

    Minus infinity when F is not positive definite to machine precision.
    """
    J, r = len(work.P), len(data.Z)
    eta = theta.reshape(J, r) @ data.Z + data.offset
    top = np.maximum(eta.max(axis=0), 0.0)
    np.exp(np.maximum(eta - top, LEAST_EXPONENT), out=work.P)
    np.exp(np.maximum(-top, LEAST_EXPONENT), out=work.P0)
    odds = work.P0 + work.P.sum(axis=0)
    np.divide(work.P, odds, out=work.P)
    np.divide(work.P0, odds, out=work.P0)
    own = np.where(_hits(data, J), eta, 0.0).sum(axis=0)
    lp = float(data.w @ (own - top - np.log(odds)))
    _fill_information(data, work)
    if not np.isfinite(lp + eta.sum()):
        return -np.inf
    work.L[:], work.info[0] = dpotrf(work.F, lower=0)
    if work.info[0] != 0:
        return -np.inf
    return lp + 2.0 * data.tau * float(np.log(np.diagonal(work.L)).sum())


def _hits(data: Data, J: int) -> NDArray[np.bool_]:
    """Tell which of the classes besides the reference each row is of, shape (J, n)."""
    return np.asarray(data.y == np.arange(1, J + 1)[:, None])


def _fill_information(data: Data, work: Work) -> None:
    J, r = len(work.P), len(data.Z)
    for j in range(J):
        for k in range(j, J):
            # 1 - p_j as a sum: no cancellation when p_j is nearly 1
            other = -work.P[k] if k > j else work.P0 + work.P[:j].sum(0) + work.P[j + 1 :].sum(0)
            block = (data.Z * (data.w * work.P[j] * other)) @ data.Z.T
            work.F[j * r : (j + 1) * r, k * r : (k + 1) * r] = block
            work.F[k * r : (k + 1) * r, j * r : (j + 1) * r] = block


def gradient(data: Data, work: Work) -> None:
    """Fill ``work.score`` and ``work.hat`` at the point at which `value` was last called."""
    J, r = len(work.P), len(data.Z)
    weight = data.w * work.P
    penalty = np.zeros_like(weight)
    if data.tau > 0.0:
        _fill_quadratic_forms(data, work)
        rows = np.einsum("jkn,kn->jn", work.V, work.P)
        own = np.einsum("jjn->jn", work.V)
        diagonal, full = (work.P * own).sum(axis=0), (work.P * rows).sum(axis=0)
        np.multiply(data.w, diagonal - full, out=work.hat)
        penalty = data.tau * weight * (own - 2.0 * rows - diagonal + 2.0 * full)
    residual = np.where(_hits(data, J), data.w, 0.0) - weight + penalty
    work.score[:] = (np.concatenate([residual, penalty]) @ data.Z.T).reshape(2, J * r)


def _fill_quadratic_forms(data: Data, work: Work) -> None:
    """Fill V_i = z_i' (F⁻¹)_{jk} z_i, as products of (e_j ⊗ z_i)' U⁻¹."""
    J, r = len(work.P), len(data.Z)
    work.Linv[:], work.info[0] = dtrtri(work.L, lower=0)
    G = work.Linv.T.reshape(J * r, J, r) @ data.Z
    np.einsum("sjn,skn->jkn", G, G, out=work.V)
