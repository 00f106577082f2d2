"""The mean loss of all samples at once, its gradient and its curvature with respect to logits.

Classes lie along the rows, (C, n), so that every lane of a vector is one sample; n is padded to
whole vectors by samples of weight zero.
"""

from __future__ import annotations

import numpy as np

from firthshot.kernels import kernel
from firthshot.kernels.vectors import (
    lanes_in,
    vadd,
    vdiv,
    vexp,
    vfill,
    vfma,
    vload,
    vmax,
    vmul,
    vstore,
    vsub,
)

# Below this mean curvature every prediction is certain; it keeps the preconditioner finite.
LEAST_CURVATURE = 1e-12


@kernel
def evaluate(z, targets, weights, probability, p, g, top, total):
    """Write probabilities P and dLoss/dZ, and return the mean of probability·lse(z) − Σ target·z.

    Parameters
    ----------
    z, targets, p, g : (C, n), n a multiple of the lanes; targets of a sample sum to ``probability``
    weights : (n,) that sum to one, zero for padding
    top, total : (n,), written: the largest logit and Σ exp(z − top)
    """
    n_classes, n = z.shape
    cross = np.empty_like(top)
    for q in range(0, n, lanes_in(z)):
        high = vload(z, q)
        for c in range(1, n_classes):
            high = vmax(vload(z, c * n + q), high)
        mass, inner = vfill(z, 0.0), vfill(z, 0.0)
        for c in range(n_classes):
            shifted = vsub(vload(z, c * n + q), high)
            power = vexp(shifted)
            vstore(p, c * n + q, power)
            mass = vadd(mass, power)
            inner = vfma(vload(targets, c * n + q), shifted, inner)
        vstore(top, q, high)
        vstore(total, q, mass)
        vstore(cross, q, inner)
        share, weight, scale = vdiv(vfill(z, 1.0), mass), vload(weights, q), vfill(z, probability)
        for c in range(n_classes):
            at = c * n + q
            chance = vmul(vload(p, at), share)
            vstore(p, at, chance)
            vstore(g, at, vmul(weight, vsub(vmul(scale, chance), vload(targets, at))))
    value = 0.0
    for i in range(n):
        value += weights[i] * (probability * np.log(total[i]) - cross[i])
    return value


@kernel
def add_confidence(z, weights, confidence, p, top, total, g, surprise):
    """Add the gradient of confidence · KL(p‖U), write log p − Σ p log p, return its mean."""
    n_classes, n = z.shape
    value = 0.0
    for i in range(n):
        log_total, mean = np.log(total[i]), 0.0
        for c in range(n_classes):
            surprise[c, i] = z[c, i] - top[i] - log_total
            mean += p[c, i] * surprise[c, i]
        for c in range(n_classes):
            surprise[c, i] -= mean
            g[c, i] += weights[i] * confidence * p[c, i] * surprise[c, i]
        value += weights[i] * (mean + np.log(n_classes))
    return confidence * value


@kernel
def objective(z, targets, weights, probability, confidence, p, grad_z, surprise, top, total):
    """Write P, dLoss/dZ and, with a confidence penalty, its ``surprise``; return the mean loss."""
    value = evaluate(z, targets, weights, probability, p, grad_z, top, total)
    if confidence != 0.0:
        value += add_confidence(z, weights, confidence, p, top, total, grad_z, surprise)
    return value


@kernel
def likeliest(p):
    """Return the class of the largest probability of every sample, (n,)."""
    best = np.zeros(p.shape[1], np.int32)
    for c in range(1, p.shape[0]):
        for i in range(p.shape[1]):
            if p[c, i] > p[best[i], i]:
                best[i] = c
    return best


@kernel
def bend(p, best, surprise, weights, probability, confidence, v):
    """Replace v (C, n) by the weighted Hessian with respect to logits times v.

    That is probability · p_c (v_c − Σ p v), and the confidence penalty's part. Where a prediction
    is nearly certain, v_c − Σ p v would lose all its digits for the certain class, ``best``; v is
    therefore taken relative to that class, which changes nothing else.
    """
    n_classes, n = v.shape
    mean, origin = np.zeros(n, v.dtype), np.empty(n, v.dtype)
    for i in range(n):
        origin[i] = v[best[i], i]
    for c in range(n_classes):
        for i in range(n):
            v[c, i] -= origin[i]
            mean[i] += p[c, i] * v[c, i]
    if not surprise.size:
        for c in range(n_classes):
            for i in range(n):
                v[c, i] = probability * weights[i] * p[c, i] * (v[c, i] - mean[i])
        return
    pull = np.zeros(n, v.dtype)
    for c in range(n_classes):
        for i in range(n):
            v[c, i] = p[c, i] * (v[c, i] - mean[i])
            pull[i] += v[c, i] * surprise[c, i]
    for c in range(n_classes):
        for i in range(n):
            factor = probability + confidence * (surprise[c, i] + np.float32(1.0))
            v[c, i] = weights[i] * (factor * v[c, i] - confidence * p[c, i] * pull[i])


@kernel
def mean_curvature(p, weights):
    """Return the weighted mean of (1 − Σ_c p²)/(C − 1): the mean eigenvalue of diag p − pp'."""
    value = 0.0
    for c in range(p.shape[0]):
        for i in range(p.shape[1]):
            value += weights[i] * p[c, i] * (1.0 - p[c, i])
    return max(value / (p.shape[0] - 1), LEAST_CURVATURE)
