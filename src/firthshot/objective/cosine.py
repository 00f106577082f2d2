"""The Fisher information of the cosine classifier (Appendix B of the paper), measured.

Logits are scale · ⟨β_j/‖β_j‖, x_i/‖x_i‖⟩. All K vectors β_j are parameters, so the logistic
information F_L of the normalised problem is taken with all K classes: (K d) × (K d). By the chain
rule F_C = A F_L A with A = blockdiag(A_jj). The appendix then adds log-determinants,

    log det F_C = log det F_L + 2 Σ_j log det A_jj,

which holds for invertible matrices; for amended determinants of singular ones it is no identity.
`additive_formula_gap` measures by how much it fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.objective._checks import check_matrix
from firthshot.objective._gram import multinomial_factor, rank_of_sizes, weighted_gram
from firthshot.objective._softmax import Array, log_softmax

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def cosine_scale(n_classes: int) -> float:
    """Return the published factor of the cosines: 2, and 10 above 200 classes."""
    return 2.0 if n_classes <= 200 else 10.0


def normalisation_jacobian(beta: ArrayLike) -> Array:
    """Compute A_jj = (I - β_j β_jᵀ / ‖β_j‖²) / ‖β_j‖, the Jacobian of β_j ↦ β_j/‖β_j‖.

    Parameters
    ----------
    beta : array of shape (..., K, d)

    Returns
    -------
    array of shape (..., K, d, d)
    """
    unit, length = _normalised(beta, "beta")
    projector = np.eye(unit.shape[-1]) - unit[..., :, None] * unit[..., None, :]
    jacobian: Array = projector / length[..., None, None]
    return jacobian


def normalisation_log_det(beta: ArrayLike) -> Array:
    """Compute the amended log-determinant of A_jj: -(d-1) log‖β_j‖, shape (..., K)."""
    unit, length = _normalised(beta, "beta")
    log_det: Array = -(unit.shape[-1] - 1) * np.log(length)
    return log_det


@dataclass(frozen=True)
class AdditiveFormulaGap:
    """The amended log-determinant of the cosine classifier, true and by Appendix B.

    Attributes
    ----------
    true : float
        log of the product of the non-zero eigenvalues of F_C = A F_L A.
    additive : float
        log det(F_L | r) - 2 (d-1) Σ_j log‖β_j‖, the appendix's formula.
    true_rank, logistic_rank, jacobian_rank : int
        Ranks of F_C, of F_L and of A, which is K (d-1).
    """

    true: float
    additive: float
    true_rank: int
    logistic_rank: int
    jacobian_rank: int

    @property
    def difference(self) -> float:
        """By how much the additive formula exceeds the truth."""
        return self.additive - self.true


def additive_formula_gap(
    X: ArrayLike, beta: ArrayLike, *, scale: float = 1.0
) -> AdditiveFormulaGap:
    """Measure how far Appendix B's additive formula is from the true amended determinant.

    The formula would be harmless if it were off by a constant. It is not: the projections cut
    away a part of F_L that depends on the directions of β, and the power of ‖β_j‖ is the rank of
    F_C, not of A. Both are computed from factors, never from eigenvalues of F_C.

    Parameters
    ----------
    X : array of shape (N, d)
        Samples; their lengths do not matter.
    beta : array of shape (K, d)
        One vector per class.
    scale : float
        Factor of the cosines.
    """
    x, _ = _normalised(check_matrix(X, intercept=False), "X")
    unit, _ = _normalised(beta, "beta")
    if unit.ndim != 2 or unit.shape[1] != x.shape[1]:
        raise FirthshotError(f"beta has shape {unit.shape}; give (classes, {x.shape[1]}).")
    log_weights, rows = multinomial_factor(log_softmax(scale * (x @ unit.T)))
    logistic = scale * np.einsum("ia,ijk->ijka", x, rows)
    cosine = np.einsum("ijka,kab->ijkb", logistic, normalisation_jacobian(beta))
    additive, logistic_rank = _log_pdet(log_weights, logistic)
    true, true_rank = _log_pdet(log_weights, cosine)
    additive += 2.0 * float(normalisation_log_det(beta).sum())
    K, d = unit.shape
    return AdditiveFormulaGap(true, additive, true_rank, logistic_rank, K * (d - 1))


def _log_pdet(log_weights: Array, rows: Array) -> tuple[float, int]:
    """Return the amended log-determinant and rank of Σ w² y yᵀ over the rows y (N, J, K, d)."""
    flat = rows.reshape(log_weights.size, -1)
    left, sizes, _ = np.linalg.svd(flat, full_matrices=False)
    rank = rank_of_sizes(sizes, flat.shape)
    gram = weighted_gram(log_weights.ravel(), left[:, :rank])
    return gram.log_det + 2.0 * float(np.log(sizes[:rank]).sum()), rank


def _normalised(vectors: ArrayLike, name: str) -> tuple[Array, Array]:
    v = np.asarray(vectors, dtype=np.float64)
    if v.ndim < 2 or not np.isfinite(v).all():
        raise FirthshotError(f"{name} has shape {v.shape}; give finite vectors, one per row.")
    length: Array = np.linalg.norm(v, axis=-1)
    if (length == 0).any():
        raise FirthshotError(f"{name} holds a vector of length zero, which has no direction.")
    return v / length[..., None], length
