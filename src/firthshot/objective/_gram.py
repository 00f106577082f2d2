"""Determinants of Gram matrices whose rows carry weights of any size.

The Fisher information is F = Σ_r w_r² y_r y_rᵀ with weights w that span hundreds of orders of
magnitude once probabilities are tiny, while the rows y are tame. Eigenvalues of F, and even
singular values of the weighted rows, drown the small weights in rounding. Here the weights stay
logarithms: a heaviest basis S of the rows is chosen, every row is written in it, and

    det(Yᵀ W² Y) = Π_{s in S} w_s² · det(Y_S)² · det(Tᵀ T),   T_rs = (w_r / w_s) (Y Y_S⁻¹)_rs,

where T holds an identity and, because the basis is the heaviest, moderate entries elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from firthshot.objective._softmax import Array

# A row closer than this, relative to its length, to the span of heavier rows counts as inside it.
DEPENDENCE_TOLERANCE = 1e-10


def rank_of_sizes(sizes: Array, shape: tuple[int, ...]) -> int:
    """Return the rank of a matrix from its singular values, largest first.

    Those below max(shape) · 2.2e-16 · (the largest) count as zero, as in
    `numpy.linalg.matrix_rank`.
    """
    return int((sizes > max(shape) * np.finfo(np.float64).eps * sizes[0]).sum())


@dataclass(frozen=True, eq=False)
class WeightedGram:
    """The log-determinant of Yᵀ W² Y and its orthonormal weighted rows.

    Attributes
    ----------
    log_det : float
        log det(Yᵀ W² Y).
    hat_root : array of shape (R, c)
        Q with QQᵀ = W Y (Yᵀ W² Y)⁻¹ Yᵀ W, the hat matrix; its rows' squared lengths are
        leverages.
    """

    log_det: float
    hat_root: Array


def multinomial_factor(log_p: Array) -> tuple[Array, Array]:
    """Factor the covariance of a one-hot draw: diag p - ppᵀ = Σ_j w_j² r_j r_jᵀ.

    The Cholesky factor of a multinomial covariance has a closed form without any subtraction:
    with tails q_j = Σ_{k>j} p_k it is w_j² = p_j q_j / (p_j + q_j) and
    r_j = e_j - Σ_{k>j} (p_k/q_j) e_k.

    Returns
    -------
    log_weights : array of shape (..., N, K-1)
        log w_j, finite however small p is.
    rows : array of shape (..., N, K-1, K)
        r_j: unit upper triangular, entries in [-1, 1].
    """
    tails = _log_tails(log_p)
    log_weights = 0.5 * (log_p[..., :-1] + tails[..., 1:] - tails[..., :-1])
    ratios = np.exp(np.minimum(log_p[..., None, :] - tails[..., 1:, None], 0.0))
    J = log_weights.shape[-1]
    return log_weights, np.eye(J, J + 1) - np.triu(ratios, k=1)


def whitened_classes(log_p: Array) -> Array:
    """Return V with columns √p_k L⁻¹(e_k - p), L the factor of `multinomial_factor`.

    Returns
    -------
    array of shape (..., N, K-1, K)
        Its rows are orthonormal and orthogonal to √p; the squared length of column k is 1 - p_k.
    """
    tails = _log_tails(log_p)
    diagonal = np.exp(0.5 * (tails[..., 1:] - tails[..., :-1]))
    exponent = log_p[..., None, :] + (log_p[..., :-1] - tails[..., 1:] - tails[..., :-1])[..., None]
    above = np.triu(np.exp(0.5 * np.minimum(exponent, 0.0)), k=1)
    J = diagonal.shape[-1]
    return np.eye(J, J + 1) * diagonal[..., None] - above


def _log_tails(log_p: Array) -> Array:
    """Return log Σ_{k≥j} p_k for every class j, shape (..., N, K)."""
    tails: Array = np.logaddexp.accumulate(log_p[..., ::-1], axis=-1)[..., ::-1]
    return tails


def weighted_gram(log_weights: Array, rows: Array) -> WeightedGram:
    """Compute log det(Yᵀ W² Y) for weights exp(log_weights) (R,) and rows Y (R, c) of rank c.

    Exact to rounding for weights of any size. The limit is dependence among the rows
    themselves: it is decided at a relative distance of 1e-10.
    """
    if len(rows) == rows.shape[-1]:
        return WeightedGram(2.0 * float(log_weights.sum() + _log_abs_det(rows)), np.eye(len(rows)))
    basis = _heaviest_basis(log_weights, rows)
    scaled = _rows_in_basis(log_weights, rows, basis)
    hat_root, triangle = np.linalg.qr(scaled)
    log_volume = log_weights[basis].sum() + _log_abs_det(rows[basis])
    log_volume += np.log(np.abs(np.diag(triangle))).sum()
    return WeightedGram(2.0 * float(log_volume), hat_root)


def _log_abs_det(square: Array) -> float:
    return float(np.linalg.slogdet(square)[1])


def _heaviest_basis(log_weights: Array, rows: Array) -> NDArray[np.intp]:
    """Choose c independent rows greedily by weight times distance from those already chosen."""
    residual = rows.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1)
    chosen: list[int] = []
    for _ in range(rows.shape[1]):
        distance = np.linalg.norm(residual, axis=1)
        free = distance > DEPENDENCE_TOLERANCE * lengths
        if not free.any():
            raise FirthshotError(
                "the samples' weighted features are numerically dependent; remove nearly "
                "duplicate features."
            )
        score = np.where(free, log_weights + np.log(np.where(free, distance, 1.0)), -np.inf)
        chosen.append(int(np.argmax(score)))
        axis = residual[chosen[-1]] / distance[chosen[-1]]
        residual -= np.outer(residual @ axis, axis)
    return np.array(chosen)


def _rows_in_basis(log_weights: Array, rows: Array, basis: NDArray[np.intp]) -> Array:
    """Return T_rs = (w_r / w_s) (Y Y_S⁻¹)_rs with rounding noise of zero entries removed."""
    coordinates: Array = np.linalg.solve(rows[basis].T, rows.T).T
    coordinates[basis] = np.eye(len(basis))
    size: NDArray[Any] = np.abs(coordinates)
    real = size > DEPENDENCE_TOLERANCE * size.max(axis=1, keepdims=True)
    log_ratio = log_weights[:, None] - log_weights[basis]
    log_size = np.log(np.where(real, size, 1.0)) + log_ratio
    return np.where(real, np.sign(coordinates) * np.exp(np.where(real, log_size, 0.0)), 0.0)
