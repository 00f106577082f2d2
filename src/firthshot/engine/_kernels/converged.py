"""Newton's method with conjugate gradients for the linear head, on features rotated to their span.

Everything is laid out with classes along the rows, (C, N) for logits and (C, r) for parameters, so
that every lane of a vector is one sample. The features F (r, N) have orthogonal rows (under the
sample weights), so that the Hessian

    H V = F (s ∘ probability (P ∘ V F − P (P'VF))) + decay V

is nearly diagonal in them: where all samples are equally curved it equals
``probability · curvature · F² + decay``, which preconditions the conjugate gradients. Gradients
and values are float64; Hessian products, which only have to point downhill, are float32.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from firthshot.engine._kernels.simd import (
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

# A direction is good enough when its residual is this small; smaller near the optimum.
LOOSEST, TIGHTEST = 0.25, 1e-3
MOST_PRODUCTS = 100
MOST_TRIALS = 30
# Below this mean curvature every prediction is certain; it keeps the preconditioner finite.
LEAST_CURVATURE = 1e-12


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def bend(p, surprise, weights, probability, confidence, v):
    """Replace v (C, n) by the weighted Hessian with respect to logits times v."""
    n_classes, n = v.shape
    mean = np.zeros(n, v.dtype)
    for c in range(n_classes):
        for i in range(n):
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


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def total_of_products(left, right):
    """Return Σ left · right over two matrices of the same shape, summed in float64 by rows."""
    value = 0.0
    for c in range(left.shape[0]):
        row = left.dtype.type(0.0)
        for j in range(left.shape[1]):
            row += left[c, j] * right[c, j]
        value += row
    return value


@njit(nogil=True, cache=True)
def mean_curvature(p, weights):
    """Return the weighted mean of (1 − Σ_c p²)/(C − 1): the mean eigenvalue of diag p − pp'."""
    value = 0.0
    for c in range(p.shape[0]):
        for i in range(p.shape[1]):
            value += weights[i] * p[c, i] * (1.0 - p[c, i])
    return max(value / (p.shape[0] - 1), LEAST_CURVATURE)


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def descend(f, f_t, p, surprise, weights, probability, confidence, decay, inverse, g, d):
    """Write to ``d`` an approximate solution of H d = −g by preconditioned conjugate gradients.

    Parameters
    ----------
    f : (r, n) and its transpose; p, surprise : (C, n); weights : (n,); decay, inverse : (r,)
        All of them float32.
        ``surprise`` is empty without a confidence penalty; ``inverse`` is the preconditioner.
    g, d : (C, r) in float64
    """
    n_classes, rank = g.shape
    size = 0.0
    for c in range(n_classes):
        for j in range(rank):
            size += g[c, j] * g[c, j] * inverse[j]
    size = np.sqrt(size)
    rest, toward = np.empty((n_classes, rank), f.dtype), np.empty((n_classes, rank), f.dtype)
    for c in range(n_classes):
        for j in range(rank):
            rest[c, j] = -g[c, j] / size
            toward[c, j] = inverse[j] * rest[c, j]
            d[c, j] = 0.0
    bent, v = np.empty_like(toward), np.empty_like(p)
    goal = max(TIGHTEST, min(LOOSEST, np.sqrt(size))) ** 2
    energy = total_of_products(rest, toward)
    goal *= energy
    for number in range(MOST_PRODUCTS):
        np.dot(toward, f, v)
        bend(p, surprise, weights, probability, confidence, v)
        np.dot(v, f_t, bent)
        for c in range(n_classes):
            for j in range(rank):
                bent[c, j] += decay[j] * toward[c, j]
        curvature = total_of_products(toward, bent)
        if not curvature > 0.0:  # only the confidence penalty can bend down
            if number == 0:
                d += size * toward
            return
        step, energy_before = energy / curvature, energy
        energy = 0.0
        for c in range(n_classes):
            for j in range(rank):
                d[c, j] += step * size * toward[c, j]
                rest[c, j] -= step * bent[c, j]
                energy += rest[c, j] * rest[c, j] * inverse[j]
        if energy <= goal:
            return
        ratio = energy / energy_before
        for c in range(n_classes):
            for j in range(rank):
                toward[c, j] = inverse[j] * rest[c, j] + ratio * toward[c, j]


@njit(nogil=True, cache=True)
def next_step(low, high, slope_low, slope_high):
    """Return a step between two, by the secant of the slopes where they differ in sign."""
    share = 0.5
    if slope_high > 0.0:
        share = min(0.9, max(0.1, -slope_low / (slope_high - slope_low)))
    return low + share * (high - low)


@njit(nogil=True, cache=True)
def largest_entry_bound(g, free, shift):
    """Return a bound on the largest entry of the gradient with respect to the original W and b.

    W = θ V' with orthonormal V, so no entry of its gradient exceeds the norm of a row of g. With a
    free intercept (the last column) the features are centred by a mean of norm ``shift``.
    """
    worst, last = 0.0, g.shape[1] - 1 if free else g.shape[1]
    for c in range(g.shape[0]):
        square = 0.0
        for j in range(last):
            square += g[c, j] * g[c, j]
        bias = abs(g[c, last]) if free else 0.0
        worst = max(worst, np.sqrt(square) + shift * bias, bias)
    return worst


@njit(nogil=True, cache=True)
def objective(z, targets, weights, probability, confidence, p, grad_z, surprise, top, total):
    """Write P, dLoss/dZ and, with a confidence penalty, its ``surprise``; return the mean loss."""
    value = evaluate(z, targets, weights, probability, p, grad_z, top, total)
    if confidence != 0.0:
        value += add_confidence(z, weights, confidence, p, top, total, grad_z, surprise)
    return value


@njit(nogil=True, cache=True)
def l2_along(theta, d, decay):
    """Return value, slope and curvature of the L2 terms at θ along the direction d."""
    value, slope, curvature = 0.0, 0.0, 0.0
    for c in range(d.shape[0]):
        for j in range(d.shape[1]):
            value += 0.5 * decay[j] * theta[c, j] ** 2
            slope += decay[j] * theta[c, j] * d[c, j]
            curvature += decay[j] * d[c, j] ** 2
    return value, slope, curvature


@njit(nogil=True, cache=True)
def search(z, step_z, l2, targets, weights, probability, confidence, value, slope, work):
    """Look for a step along ``step_z`` that lowers the value and flattens the slope.

    Logits move along a line and the L2 terms are a parabola, so that no step costs a product.
    Returns the step (zero: none was found) and the value; the arrays of ``work`` (logits tried,
    P, dLoss/dZ, surprise, top, total) hold what belongs to the step.
    """
    tried, p, grad_z, surprise, top, total = work
    low, high, slope_low, slope_high, step = 0.0, -1.0, slope, 0.0, 1.0
    for trial in range(MOST_TRIALS):
        for c in range(z.shape[0]):
            for i in range(z.shape[1]):
                tried[c, i] = z[c, i] + step * step_z[c, i]
        new = objective(
            tried, targets, weights, probability, confidence, p, grad_z, surprise, top, total
        )
        new += l2[0] + step * (l2[1] + 0.5 * step * l2[2])
        here = total_of_products(grad_z, step_z) + l2[1] + step * l2[2]
        lower = new <= value + 1e-4 * step * slope
        flat = abs(here) <= 0.5 * abs(slope)
        if lower and (flat or trial >= 10 or (here < 0.0 and high < 0.0)):
            return step, new
        # Near the optimum the value is only known to rounding; the slope still tells.
        if flat and new <= value + 1e-13 * (1.0 + abs(value)):
            return step, new
        if lower and here < 0.0:
            low, slope_low = step, here
        else:
            high, slope_high = step, here
        step = next_step(low, high, slope_low, slope_high)
    return 0.0, value


@njit(nogil=True, cache=True)
def minimise(
    f, f_t, f_single, f_t_single, squares, decay, free, shift, targets, weights, probability,
    confidence, tolerance, max_iterations, theta, grad_z,
):  # fmt: skip
    """Minimise the objective from ``theta`` (C, r), in place, and return how it ended.

    ``grad_z`` (C, n) receives dLoss/dZ there.

    Parameters
    ----------
    f, f_t, f_single, f_t_single
        Features (r, n) and their transpose, in float64 and float32; both are laid out in memory
        because BLAS multiplies a few rows by a transposed matrix much more slowly.
    squares : (r,) weighted mean squares of the rows of ``f``
    decay : (r,) L2 factor of each row
    free, shift : see :func:`largest_entry_bound`
    targets, weights, probability : see :func:`evaluate`
    confidence : coefficient of KL(p‖U)

    Returns
    -------
    iterations, bound on the largest entry of the gradient, value
    """
    n_classes, n, rank = targets.shape[0], f.shape[1], f.shape[0]
    z, step_z, tried = np.dot(theta, f), np.empty((n_classes, n)), np.empty((n_classes, n))
    p = np.empty_like(z)
    surprise = np.empty((n_classes, n) if confidence != 0.0 else (0, 0))
    top, total, inverse = np.empty(n), np.empty(n), np.empty(rank, np.float32)
    g, d = np.empty((n_classes, rank)), np.empty((n_classes, rank))
    weights_single, decay_single = weights.astype(np.float32), decay.astype(np.float32)
    value = objective(z, targets, weights, probability, confidence, p, grad_z, surprise, top, total)
    value += l2_along(theta, theta, decay)[0]
    for iteration in range(max_iterations + 1):
        np.dot(grad_z, f_t, g)
        g += decay * theta
        bound = largest_entry_bound(g, free, shift)
        if bound <= tolerance or iteration == max_iterations or not np.isfinite(bound):
            break
        curvature = (probability + confidence) * mean_curvature(p, weights)
        for j in range(rank):
            inverse[j] = 1.0 / (curvature * squares[j] + decay[j])
        descend(
            f_single, f_t_single, p.astype(np.float32), surprise.astype(np.float32), weights_single,
            np.float32(probability), np.float32(confidence), decay_single, inverse, g, d,
        )  # fmt: skip
        np.dot(d, f, step_z)
        slope = total_of_products(g, d)
        if not slope < 0.0:
            break
        step, value = search(
            z, step_z, l2_along(theta, d, decay), targets, weights, probability, confidence,
            value, slope, (tried, p, grad_z, surprise, top, total),
        )  # fmt: skip
        if step == 0.0:
            objective(z, targets, weights, probability, confidence, p, grad_z, surprise, top, total)
            break
        theta += step * d
        z, tried = tried, z
    return iteration, bound, value
