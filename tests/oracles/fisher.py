"""Amended determinants (products of non-zero eigenvalues) of Fisher informations.

They come from singular values of a root of the information, whose squares are its eigenvalues:
good to many digits for logits of ordinary size, and no more than that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from firthshot.objective import sample_rank, softmax


def covariance_root(p):
    """Return R with RᵀR = diag p - p pᵀ, (..., K, K): a projection times √p."""
    q = np.sqrt(p)
    return (np.eye(p.shape[-1]) - q[..., :, None] * q[..., None, :]) * q[..., None, :]


def log_pdet_of_root(root, rank=None):
    """Return the amended log-determinant of rootᵀ root, and its rank."""
    flat = root.reshape(root.shape[0] * root.shape[1], -1)
    sizes = np.linalg.svd(flat, compute_uv=False)
    rank = rank or int((sizes > 1e-10 * sizes[0]).sum())
    return 2 * np.log(sizes[:rank]).sum(), rank


def amended_log_det(X, logits):
    """Return log det(F|r) of the logistic model with intercept, logits (N, K)."""
    rows = np.column_stack([X, np.ones(len(X))])
    root = covariance_root(softmax(logits))[..., 1:]  # class 0 is the reference
    kron = np.einsum("ija,ib->ijab", root, rows)
    return log_pdet_of_root(kron, sample_rank(X) * root.shape[-1])[0]


class AdditiveFormulaGap(NamedTuple):
    """log det(F_C|r) of the cosine classifier, true and by Appendix B, and the ranks."""

    true: float
    additive: float
    true_rank: int
    logistic_rank: int
    jacobian_rank: int

    @property
    def difference(self):
        return self.additive - self.true


def normalisation_jacobian(beta):
    """Return A_kk = (I - β_k β_kᵀ / ‖β_k‖²) / ‖β_k‖, (K, d, d): that of β ↦ β/‖β‖."""
    length = np.linalg.norm(beta, axis=-1, keepdims=True)
    unit = beta / length
    return (np.eye(beta.shape[-1]) - unit[:, :, None] * unit[:, None, :]) / length[..., None]


def additive_formula_gap(X, beta, *, scale=1.0):
    """Measure how far Appendix B's sum of log-determinants is from log det(F_C|r).

    F_C = A F_L A with F_L the logistic information of the normalised problem, all K classes free.
    For invertible matrices log det F_C = log det F_L + 2 log det A, where amended log det A is
    -(d-1) Σ_k log‖β_k‖; for amended determinants of singular ones it is no identity.
    """
    K, d = beta.shape
    x = X / np.linalg.norm(X, axis=1, keepdims=True)
    length = np.linalg.norm(beta, axis=1)
    root = covariance_root(softmax(scale * (x @ (beta / length[:, None]).T)))
    logistic = scale * np.einsum("ijk,ia->ijka", root, x)
    cosine = np.einsum("ijka,kab->ijkb", logistic, normalisation_jacobian(beta))
    additive, logistic_rank = log_pdet_of_root(logistic)
    true, true_rank = log_pdet_of_root(cosine)
    additive -= 2 * (d - 1) * np.log(length).sum()
    return AdditiveFormulaGap(true, additive, true_rank, logistic_rank, K * (d - 1))
