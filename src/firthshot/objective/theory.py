"""Fisher information of the multinomial logistic model, and the λ that Firth's theory prescribes.

In Appendix A of the paper, X (N, d) holds the samples, P = softmax(logits) (N, K), J = K-1, class 0
is the reference, and

    F = (X ⊗ I_J)ᵀ M (X ⊗ I_J),   M = blockdiag(M_1 … M_N),   M_i = diag(p_i) - p_i p_iᵀ  (J × J).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from firthshot.errors import FirthshotError
from firthshot.objective._inputs import Array, check_matrix, log_softmax


def fisher_blocks(logits: ArrayLike) -> Array:
    """Compute M_i (Eq. Midef), shape (..., N, K-1, K-1), of logits (..., N, K).

    log det M_i is Σ_j log p_ij over all K classes (Eq. milogde).
    """
    log_p = log_softmax(logits)[..., 1:]
    p = np.exp(log_p)
    blocks: Array = -p[..., :, None] * p[..., None, :]
    diagonal = np.arange(p.shape[-1])
    blocks[..., diagonal, diagonal] = -p * np.expm1(log_p)  # p (1 - p), with its digits
    return blocks


def fisher_information(X: ArrayLike, logits: ArrayLike, *, intercept: bool = True) -> Array:
    """Compute F (Eq. firthblocks), shape (..., J d, J d), of X (N, d) and logits (..., N, K).

    Block (j, k), 1 ≤ j, k ≤ J, is Σ_i (M_i)_jk x_i x_iᵀ: classes outside, features inside. With
    an intercept a column of ones is appended to X, and d counts it. For small problems: the matrix
    has (d J)² entries. Its smallest eigenvalues are rounding once probabilities are tiny.
    """
    features, M = check_matrix(X, intercept=intercept), fisher_blocks(logits)
    if M.shape[-3] != len(features):
        raise FirthshotError(
            f"X has {len(features)} samples but the logits have {M.shape[-3]}; "
            "give one row of each per sample."
        )
    F: Array = np.einsum("...ijk,ia,ib->...jakb", M, features, features)
    side = F.shape[-1] * F.shape[-2]
    return F.reshape(*F.shape[:-4], side, side)


@dataclass(frozen=True)
class TheoryCoefficient:
    """The tuning-free coefficient λ = K · rank(X) / (2N) and whether it is exact.

    It is exact, and K/2, where rank X = N: λ KL(U‖p) is then Firth's penalty for all weights, not
    only where all samples share one p.
    """

    value: float  # the λ of Eq. klobj
    exact: bool
    rank: int  # of X, intercept column included
    n_samples: int


def theory_coefficient(
    X: ArrayLike, n_classes: int, *, intercept: bool = True
) -> TheoryCoefficient:
    r"""Return the coefficient that Firth's theory prescribes for a linear head on X.

    ½ log det(F\|r) is -N λ KL(U‖p) up to a constant with λ = K rank(X) / (2N) in two cases:
    everywhere if rank X = N, and wherever all samples share one p (only the bias has moved)
    for any X. Elsewhere it is a rule of thumb. Around zero weights -log det(F\|r) has the
    curvature Σ_i h_ii ‖z_i‖² (2/K) + Σ_ij h_ij² z_i·z_j (1 - 2/K), h the hat matrix of X and z the
    centred logits: never above that of a coefficient K max h_ii / 2, and below that of this one
    for more than two classes and equal leverages, unless the samples move together.

    Parameters
    ----------
    X : array of shape (N, d)
    n_classes : int
    intercept : bool
        Whether the head has a bias: X then counts with a column of ones.
    """
    rank, N = sample_rank(X, intercept=intercept), len(np.asarray(X))
    return TheoryCoefficient(theory_lambda(n_classes, rank, N), rank == N, rank, N)


def theory_lambda(n_classes: int, rank: int, n_samples: int) -> float:
    """Return λ = K · rank / (2N)."""
    if n_classes < 2:
        raise FirthshotError(f"n_classes is {n_classes}; give two classes or more.")
    return n_classes * rank / (2 * n_samples)


def sample_rank(X: ArrayLike, *, intercept: bool = True) -> int:
    """Count the independent samples, with a column of ones appended if there is an intercept.

    Singular values below max(N, d) · 2.2e-16 · (the largest) count as zero, as in
    `numpy.linalg.matrix_rank`: identical rows are always found, rows that are dependent only up to
    float32 rounding are not.
    """
    rank = int(np.linalg.matrix_rank(check_matrix(X, intercept=intercept)))
    if rank == 0:
        raise FirthshotError("every entry of X is zero; give features.")
    return rank


def cosine_scale(n_classes: int) -> float:
    """Return the published factor of the cosine head's cosines: 2, and 10 above 200 classes."""
    return 2.0 if n_classes <= 200 else 10.0
