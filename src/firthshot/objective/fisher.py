"""The Fisher information of the multinomial logistic model (Appendix A of the paper).

X (N, d) holds the samples, P = softmax(logits) (N, K), J = K-1, class 0 is the reference, and

    F = (X ⊗ I_J)ᵀ M (X ⊗ I_J),   M = blockdiag(M_1 … M_N),   M_i = diag(p_i) - p_i p_iᵀ  (J × J).
"""

from __future__ import annotations

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
