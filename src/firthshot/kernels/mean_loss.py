"""The mean loss of all samples at once, its gradient and its Hessian with respect to logits.

Classes lie along the rows, (C, n), so that every lane of a vector is one sample; n is padded to
whole vectors by samples of weight zero. Precision is that of the arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from firthshot.arrays import Array
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

# Below this mean curvature every prediction is certain; it keeps the preconditioner finite. Twice
# the value changes nothing but the first step of a fit that is over anyway.
LEAST_CURVATURE = 1e-12


class MeanLoss(NamedTuple):
    """The mean of −Σ_c T_c log p_c + confidence KL(p‖U): what stays constant during a fit."""

    targets: Array  # (C, n), T; each sample's sum to ``probability``
    weights: Array  # (n,), sum to one, zero for padding
    probability: Any  # a number of the arrays' precision, as the next
    confidence: Any


class LossState(NamedTuple):
    """The loss at one point: the logits, and what `objective` writes there."""

    z: Array  # (C, n)
    p: Array  # (C, n)
    gradient: Array  # (C, n), dLoss/dZ
    top: Array  # (n,), the largest logit
    total: Array  # (n,), Σ exp(z − top)
    centred_log_p: Array  # (C, n), log p − Σ p log p; empty without a confidence penalty


class LogitHessian(NamedTuple):
    """The Hessian with respect to logits at one point."""

    p: Array  # (C, n)
    argmax: Array  # (n,), the class of the largest probability
    centred_log_p: Array
    weights: Array  # (n,)
    probability: Any
    confidence: Any


def loss_state(shape: tuple[int, ...], dtype: Any, *, confidence: bool = False) -> LossState:
    """Return room for the loss of logits (C, n); ``confidence``: for a confidence penalty too."""
    z, p, gradient = (np.empty(shape, dtype) for _ in range(3))
    top, total = np.empty(shape[1], dtype), np.empty(shape[1], dtype)
    return LossState(z, p, gradient, top, total, np.zeros(shape if confidence else (0, 0), dtype))


@kernel
def cross_entropy(loss, state, first, rows):
    """Write P and dLoss/dZ of some samples, and return their part of the mean of −Σ T log p.

    ``first`` and ``rows`` are multiples of the lanes.
    """
    z, p, g, targets, weights = state.z, state.p, state.gradient, loss.targets, loss.weights
    n_classes, n, lanes, crosses = z.shape[0], z.shape[1], lanes_in(z), np.empty(rows, z.dtype)
    scale, value = vfill(z, loss.probability), 0.0
    for q in range(first, first + rows, lanes):
        top = vload(z, q)
        for c in range(1, n_classes):
            top = vmax(vload(z, c * n + q), top)
        total, cross = vfill(z, 0.0), vfill(z, 0.0)
        for c in range(n_classes):
            shifted = vsub(vload(z, c * n + q), top)
            power = vexp(shifted)
            vstore(p, c * n + q, power)
            total = vadd(total, power)
            cross = vfma(vload(targets, c * n + q), shifted, cross)
        vstore(state.top, q, top)
        vstore(state.total, q, total)
        vstore(crosses, q - first, cross)
        inverse, weight = vdiv(vfill(z, 1.0), total), vload(weights, q)
        for c in range(n_classes):
            k = c * n + q
            chance = vmul(vload(p, k), inverse)
            vstore(p, k, chance)
            vstore(g, k, vmul(weight, vsub(vmul(scale, chance), vload(targets, k))))
    for i in range(rows):  # on its own, because a call of log spills all vectors
        log_total = np.log(state.total[first + i])
        value += weights[first + i] * (loss.probability * log_total - crosses[i])
    return value


@kernel
def add_confidence(loss, state):
    """Add the gradient of confidence · KL(p‖U), write log p − Σ p log p, return its mean."""
    n_classes, n = state.z.shape
    value = 0.0
    for i in range(n):
        log_total, mean = np.log(state.total[i]), 0.0
        for c in range(n_classes):
            state.centred_log_p[c, i] = state.z[c, i] - state.top[i] - log_total
            mean += state.p[c, i] * state.centred_log_p[c, i]
        for c in range(n_classes):
            state.centred_log_p[c, i] -= mean
            factor = loss.weights[i] * loss.confidence * state.p[c, i]
            state.gradient[c, i] += factor * state.centred_log_p[c, i]
        value += loss.weights[i] * (mean + np.log(n_classes))
    return loss.confidence * value


@kernel
def objective(loss, state):
    """Write all of ``state`` that belongs to its logits; return the mean loss there."""
    value = cross_entropy(loss, state, 0, state.z.shape[1])
    if loss.confidence != 0.0:
        value += add_confidence(loss, state)
    return value


@kernel
def argmax_classes(p):
    """Return the class of the largest probability of every sample, (n,)."""
    best = np.zeros(p.shape[1], np.int32)
    for c in range(1, p.shape[0]):
        for i in range(p.shape[1]):
            if p[c, i] > p[best[i], i]:
                best[i] = c
    return best


@kernel
def hessian_at(loss, state, weights):
    """Return the Hessian by logits at a point, in float32, with weights (n,) of float32."""
    p = state.p.astype(np.float32)
    return LogitHessian(
        p, argmax_classes(p), state.centred_log_p.astype(np.float32), weights,
        np.float32(loss.probability), np.float32(loss.confidence),
    )  # fmt: skip


@kernel
def hessian_product(hessian, v):
    """Replace v (C, n) by the Hessian with respect to logits times v.

    That is probability · p_c (v_c − Σ p v), and the confidence penalty's part. Where a prediction
    is nearly certain, v_c − Σ p v would lose all its digits for the certain class; v is therefore
    taken relative to that class, which changes nothing else.
    """
    n_classes, n = v.shape
    p, weights, probability = hessian.p, hessian.weights, hessian.probability
    mean, origin = np.zeros(n, v.dtype), np.empty(n, v.dtype)
    for i in range(n):
        origin[i] = v[hessian.argmax[i], i]
    for c in range(n_classes):
        for i in range(n):
            v[c, i] -= origin[i]
            mean[i] += p[c, i] * v[c, i]
    if hessian.confidence == 0.0:
        for c in range(n_classes):
            for i in range(n):
                v[c, i] = probability * weights[i] * p[c, i] * (v[c, i] - mean[i])
        return
    centred, confidence, pull = hessian.centred_log_p, hessian.confidence, np.zeros(n, v.dtype)
    for c in range(n_classes):
        for i in range(n):
            v[c, i] = p[c, i] * (v[c, i] - mean[i])
            pull[i] += v[c, i] * centred[c, i]
    for c in range(n_classes):
        for i in range(n):
            factor = probability + confidence * (centred[c, i] + np.float32(1.0))
            v[c, i] = weights[i] * (factor * v[c, i] - confidence * p[c, i] * pull[i])


@kernel
def mean_curvature(p, weights):
    """Return the weighted mean of (1 − Σ_c p²)/(C − 1): the mean eigenvalue of diag p − pp'."""
    value = 0.0
    for c in range(p.shape[0]):
        for i in range(p.shape[1]):
            value += weights[i] * p[c, i] * (1.0 - p[c, i])
    return max(value / (p.shape[0] - 1), LEAST_CURVATURE)
