"""The Fisher information of the multinomial logistic model and its amended determinant.

Appendix A of the paper. X (N, d) holds the samples, P = softmax(logits) (N, K), J = K-1, and

    F = (X ⊗ I_J)ᵀ M (X ⊗ I_J),   M = blockdiag(M_1 … M_N),   M_i = diag(p_i) - p_i p_iᵀ  (J × J),

class 0 being the reference. The *amended* determinant is the product of the non-zero eigenvalues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.objective._checks import check_matrix
from firthshot.objective._gram import (
    WeightedGram,
    multinomial_factor,
    rank_of_sizes,
    weighted_gram,
    whitened_classes,
)
from firthshot.objective._softmax import Array, log_softmax, softmax

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, eq=False)
class Span:
    """The samples X in an orthonormal basis of their span: X = basis · diag(sizes) · Vᵀ.

    Attributes
    ----------
    basis : array of shape (N, rank)
        Left singular vectors.
    sizes : array of shape (rank,)
        Non-zero singular values.
    """

    basis: Array
    sizes: Array

    @property
    def rank(self) -> int:
        """Number of independent samples."""
        return len(self.sizes)

    @property
    def independent(self) -> bool:
        """Whether all samples are linearly independent: rank X = N."""
        return self.rank == len(self.basis)


def span_of(X: ArrayLike, *, intercept: bool = True) -> Span:
    """Find the span of the samples, with a column of ones appended if there is an intercept.

    Singular values below max(N, d) · 2.2e-16 · (the largest) count as zero, as in
    `numpy.linalg.matrix_rank`: identical rows are always found, rows that are dependent only up to
    float32 rounding are not.
    """
    features = check_matrix(X, intercept=intercept)
    left, sizes, _ = np.linalg.svd(features, full_matrices=False)
    rank = rank_of_sizes(sizes, features.shape)
    if rank == 0:
        raise FirthshotError("every entry of X is zero; give features.")
    return Span(left[:, :rank], sizes[:rank])


def fisher_blocks(logits: ArrayLike) -> Array:
    """Compute M_i = diag(p_i) - p_i p_iᵀ without the reference class 0 (Eq. Midef).

    Parameters
    ----------
    logits : array of shape (..., N, K)

    Returns
    -------
    array of shape (..., N, K-1, K-1)
    """
    p = softmax(logits)[..., 1:]
    others = np.expm1(log_softmax(logits))[..., 1:]  # p - 1, with its digits
    blocks: Array = -p[..., :, None] * p[..., None, :]
    diagonal = np.arange(p.shape[-1])
    blocks[..., diagonal, diagonal] = -p * others
    return blocks


def fisher_information(X: ArrayLike, logits: ArrayLike, *, intercept: bool = True) -> Array:
    """Compute the Fisher information of a multinomial logistic model (Eq. firthblocks).

    Block (j, k), 1 ≤ j, k ≤ J, is Σ_i (M_i)_jk x_i x_iᵀ. For small problems: the matrix has
    (d J)² entries. Do not take its eigenvalues for a determinant: see `amended_log_det`.

    Parameters
    ----------
    X : array of shape (N, d)
    logits : array of shape (..., N, K)
    intercept : bool
        Append a column of ones to X, so that d counts it.

    Returns
    -------
    array of shape (..., J d, J d)
        Classes outside, features inside.
    """
    features, log_p = _matched(X, logits, intercept=intercept)
    F: Array = np.einsum("...ijk,ia,ib->...jakb", fisher_blocks(log_p), features, features)
    side = F.shape[-1] * F.shape[-2]
    return F.reshape(*F.shape[:-4], side, side)


def log_det_blocks(logits: ArrayLike) -> Array:
    """Compute log det M_i = Σ_j log P_ij over all K classes (Eq. milogde), shape (..., N)."""
    log_det: Array = log_softmax(logits).sum(axis=-1)
    return log_det


def amended_log_det(X: ArrayLike, logits: ArrayLike, *, intercept: bool = True) -> Array:
    """Compute the log of the product of the non-zero eigenvalues of the Fisher information.

    With rank X = N it is Σ_i Σ_j log P_ij + (K-1) log det XXᵀ (Eq. detfim2), and is computed so.
    Otherwise, with X = U S Vᵀ of rank r, it is 2 (K-1) Σ log S + log det Σ_i u_i u_iᵀ ⊗ M_i, and
    the last determinant is taken with the probabilities as logarithms: tiny ones cost no digits.
    No path looks at eigenvalues of F, which are off by hundreds once P is tiny. Limits: the rank
    of X is decided as in `span_of`, dependence among at most r of the samples at a relative 1e-10;
    time grows as N J (r J)² when rank X < N.

    Parameters
    ----------
    X : array of shape (N, d)
    logits : array of shape (..., N, K)
    intercept : bool
        Append a column of ones to X.

    Returns
    -------
    array of shape (...)
    """
    _, log_p = _matched(X, logits, intercept=intercept)
    span = span_of(X, intercept=intercept)
    scale = 2.0 * (log_p.shape[-1] - 1) * np.log(span.sizes).sum()
    if span.independent:
        closed: Array = log_p.sum(axis=(-2, -1)) + scale
        return closed
    return np.array([_gram(span, sample).log_det + scale for sample in _stacked(log_p)]).reshape(
        log_p.shape[:-2]
    )


def amended_log_det_gradient(X: ArrayLike, logits: ArrayLike, *, intercept: bool = True) -> Array:
    """Differentiate `amended_log_det` by the logits, X fixed; weights get Xᵀ times it.

    For sample i it is, with H_i (J × J) its block of the hat matrix and v_ik its whitened classes,
    v_ikᵀ H_i v_ik - P_ik tr H_i. With rank X = N every H_i is the identity and it is 1 - K P_ik.

    Returns
    -------
    array of shape (..., N, K)
    """
    _, log_p = _matched(X, logits, intercept=intercept)
    span = span_of(X, intercept=intercept)
    if span.independent:
        gradient: Array = 1.0 - log_p.shape[-1] * np.exp(log_p)
        return gradient
    stack = [_gradient(span, sample) for sample in _stacked(log_p)]
    return np.array(stack).reshape(log_p.shape)


def _matched(X: ArrayLike, logits: ArrayLike, *, intercept: bool) -> tuple[Array, Array]:
    features = check_matrix(X, intercept=intercept)
    log_p = log_softmax(np.asarray(logits, dtype=np.float64))
    if log_p.shape[-2] != len(features):
        raise FirthshotError(
            f"X has {len(features)} samples but the logits have {log_p.shape[-2]}; "
            "give one row of each per sample."
        )
    return features, log_p


def _stacked(log_p: Array) -> Array:
    return log_p.reshape(-1, *log_p.shape[-2:])


def _gram(span: Span, log_p: Array) -> WeightedGram:
    """Return the Gram matrix Σ_i u_i u_iᵀ ⊗ M_i of one set of logits (N, K)."""
    log_weights, rows = multinomial_factor(log_p)
    # the determinant does not depend on the reference class: drop the last, whose column is dense
    kron = np.einsum("ia,ijk->ijak", span.basis, rows[..., :-1])
    return weighted_gram(log_weights.ravel(), kron.reshape(log_weights.size, -1))


def _gradient(span: Span, log_p: Array) -> Array:
    N, K = log_p.shape
    root = _gram(span, log_p).hat_root.reshape(N, K - 1, -1)
    projected = np.einsum("ija,ijk->iak", root, whitened_classes(log_p))
    leverage = np.square(root).sum(axis=(1, 2))
    gradient: Array = np.square(projected).sum(axis=1) - np.exp(log_p) * leverage[:, None]
    return gradient
