"""The penalised log-likelihood with its first and exact second derivatives, in NumPy.

For one point or for many: all arrays may have leading axes, so that one call serves many climbs.
A small problem spends its time on calls, not on numbers.

With κ3 and κ4 the third and fourth cumulants of a row's classes, ``M_jk`` being the second, the
slopes of M along the linear predictors are κ3 and those of κ3 are κ4::

    ∂ log det F / ∂η_l      = w Σ_jk V_jk κ3_jkl
    ∂² log det F / ∂θ_a ∂θ_b = Σ w Σ_jk V_jk κ4_jklm z z' - tr(F⁻¹ ∂F/∂θ_a F⁻¹ ∂F/∂θ_b)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri, dtrtrs
from scipy.special import expit, log_expit

from firthshot.jeffreys._kernels.memory import Data, FloatArray

LEAST_EXPONENT = -707.0  # exp of it is a normal number still, as in the compiled kernels


class Points(NamedTuple):
    """What is known at some points, which lie along the leading axes."""

    theta: FloatArray  # (..., q)
    lp: FloatArray  # (...), minus infinity where F is not positive definite
    score: FloatArray  # (..., q), of the penalised log-likelihood
    F: FloatArray  # (..., q, q)
    A: FloatArray  # (..., q, q), curvature of the penalty, minus its Hessian
    L: FloatArray  # (..., q, q), Cholesky factor of F
    P: FloatArray  # (..., J, n)
    P0: FloatArray  # (..., n)
    V: FloatArray  # (..., J, J, n)
    hat: FloatArray  # (..., n)


def evaluate(data: Data, theta: FloatArray) -> Points:
    """Compute l*, its gradient and its curvature at each point of ``theta``."""
    Z, w, tau, J = data.Z, data.w, data.tau, len(data.offset)
    q = theta.shape[-1]
    eta = theta.reshape(*theta.shape[:-1], J, len(Z)) @ Z + data.offset
    loglik, P, P0 = (_two_classes if J == 1 else _more_classes)(data, eta)
    M = _second_cumulants(P, P0)
    F = _gram(data, w * M)
    L = factors(F)
    sound = np.isfinite(loglik + eta.sum(axis=(-2, -1)) + L[..., -1, -1])
    if not sound.all():
        L = np.where(sound[..., None, None], L, np.eye(q))
    lp = loglik + 2.0 * tau * np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(axis=-1)
    G = lower_inverses(L).reshape(*theta.shape[:-1], q, J, len(Z)) @ Z
    V, slopes, second, D = (_two_penalty if J == 1 else _more_penalty)(data, G, P, M)
    own = (data.y == np.arange(1, J + 1)[:, None]) - P
    score = ((w * own + tau * slopes) @ Z.T).reshape(theta.shape)
    D = D.reshape(*theta.shape[:-1], q * q, q)
    A = tau * (np.swapaxes(D, -1, -2) @ D - _gram(data, second))
    hat = w * (V * M).sum(axis=(-3, -2))
    return Points(theta, np.where(sound, lp, -np.inf), score, F, A, L, P, P0, V, hat)


def evaluate_one(data: Data, theta: FloatArray) -> Points:
    """Do what `evaluate` does for one point of a binary model, in half the time."""
    Z, w, tau = data.Z, data.w, data.tau
    q = theta.size
    eta = theta @ Z + data.offset[0]
    p, p0 = expit(eta), expit(-eta)
    variance = p * p0
    weight = w * variance
    F = (Z * weight) @ Z.T
    L, failed = dpotrf(F, lower=1)
    lp = float(log_expit(np.where(data.y == 1, eta, -eta)) @ w)
    if failed or not np.isfinite(lp):
        L, lp = np.eye(q), -np.inf
    G, _ = dtrtrs(L, Z, lower=1)
    V = np.einsum("sn,sn->n", G, G)
    spread = p0 - p
    third = weight * spread
    D = (G[:, None] * (third * G)).reshape(q * q, -1) @ Z.T
    fourth = third * spread - 2.0 * weight * variance
    A = tau * (D.T @ D - (Z * (V * fourth)) @ Z.T)
    score = Z @ (w * (data.y - p) + tau * V * third)
    lp += 2.0 * tau * float(np.log(L.diagonal()).sum())
    reached = np.asarray(lp)
    return Points(theta, reached, score, F, A, L, p[None], p0, V[None, None], weight * V)


def _two_classes(data: Data, eta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the log-likelihood and the probabilities of both classes."""
    predictors = eta[..., 0, :]
    signed = np.where(data.y == 1, predictors, -predictors)
    return log_expit(signed) @ data.w, expit(eta), expit(-predictors)


def _more_classes(data: Data, eta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    top = np.maximum(eta.max(axis=-2), 0.0)
    P = np.exp(np.maximum(eta - top[..., None, :], LEAST_EXPONENT))
    P0 = np.exp(np.maximum(-top, LEAST_EXPONENT))
    odds = P0 + P.sum(axis=-2)
    hits = data.y == np.arange(1, eta.shape[-2] + 1)[:, None]
    loglik = (np.where(hits, eta, 0.0).sum(axis=-2) - top - np.log(odds)) @ data.w
    return loglik, P / odds[..., None, :], P0 / odds


def _second_cumulants(P: FloatArray, P0: FloatArray) -> FloatArray:
    """Return M = diag(p) - p p', shape (..., J, J, n)."""
    J = P.shape[-2]
    if J == 1:
        return np.asarray(P * P0[..., None, :])[..., None, :]
    M = -P[..., :, None, :] * P[..., None, :, :]
    for j in range(J):
        # 1 - p_j as a sum: no cancellation when p_j is nearly 1
        rest = P0 + P[..., :j, :].sum(axis=-2) + P[..., j + 1 :, :].sum(axis=-2)
        M[..., j, j, :] = P[..., j, :] * rest
    return np.asarray(M)


def _gram(data: Data, weights: FloatArray) -> FloatArray:
    """Return Σ weights_i ⊗ z_i z_i' for weights of shape (..., J, J, n)."""
    blocks = (weights[..., None, :] * data.Z) @ data.Z.T
    q = weights.shape[-2] * len(data.Z)
    return np.asarray(np.swapaxes(blocks, -3, -2).reshape(*weights.shape[:-3], q, q))


Penalty = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


def _two_penalty(data: Data, G: FloatArray, P: FloatArray, M: FloatArray) -> Penalty:
    """Return V, the slopes, the part of the second derivatives with κ4, and ∂(L⁻¹ F L⁻ᵀ)/∂θ."""
    G, spread = G[..., 0, :], 1.0 - 2.0 * P
    third = data.w * M[..., 0, :, :] * spread
    fourth = third * spread - 2.0 * data.w * M[..., 0, :, :] ** 2
    V = (G * G).sum(axis=-2)[..., None, :]
    D = (G[..., :, None, :] * (third * G)[..., None, :, :]) @ data.Z.T
    return V[..., None, :], V * third, (V * fourth)[..., None, :], D


def _more_penalty(data: Data, G: FloatArray, P: FloatArray, M: FloatArray) -> Penalty:
    V = np.einsum("...sjn,...skn->...jkn", G, G)
    same = np.eye(P.shape[-2])[:, :, None, None]
    p, pp = P[..., :, None, None, :], P[..., None, :, None, :]
    third = same * M[..., :, None, :, :] - M[..., :, None, :, :] * pp - p * M[..., None, :, :, :]
    fourth = (
        same[..., None] * third[..., :, None, :, :, :]
        - third[..., :, None, :, :, :] * pp[..., None, :]
        - M[..., :, None, :, None, :] * M[..., None, :, None, :, :]
        - M[..., :, None, None, :, :] * M[..., None, :, :, None, :]
        - p[..., None, :] * third[..., None, :, :, :, :]
    )
    slopes = data.w * np.einsum("...jkn,...jkln->...ln", V, third)
    second = data.w * np.einsum("...jkn,...jklmn->...lmn", V, fourth)
    D = np.einsum("...sjn,...tkn,...jkln->...stln", G, G, data.w * third) @ data.Z.T
    return V, slopes, second, D


def factors(F: FloatArray) -> FloatArray:
    """Return the Cholesky factors L with F = L L'; NaN at the end of those that have none."""
    if F.ndim == 2:
        L, failed = dpotrf(F, lower=1)
        if failed:
            L[-1, -1] = np.nan
        return np.asarray(L)
    try:
        return np.asarray(np.linalg.cholesky(F), dtype=np.float64)
    except np.linalg.LinAlgError:
        return _factors_where_possible(F)


def _factors_where_possible(F: FloatArray) -> FloatArray:
    L = np.zeros_like(F)
    for k in range(F.shape[-1]):
        column = F[..., k:, k] - np.einsum("...ik,...k->...i", L[..., k:, :k], L[..., k, :k])
        L[..., k:, k] = column / np.sqrt(column[..., :1])  # NaN or infinite unless positive
    return L


def lower_inverses(L: FloatArray) -> FloatArray:
    """Return the inverses of lower triangles."""
    return np.asarray(dtrtri(L, lower=1)[0] if L.ndim == 2 else np.linalg.inv(L))
