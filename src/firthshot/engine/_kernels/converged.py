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

from firthshot.kernels import kernel
from firthshot.kernels.mean_loss import (
    bend,
    likeliest,
    mean_curvature,
    objective,
)

# A direction is good enough when its residual is this small; smaller near the optimum.
LOOSEST, TIGHTEST = 0.25, 1e-3
MOST_PRODUCTS = 100
MOST_TRIALS = 30


@kernel(fastmath={"reassoc", "contract"})
def total_of_products(left, right):
    """Return Σ left · right over two matrices of the same shape, summed in float64 by rows."""
    value = 0.0
    for c in range(left.shape[0]):
        row = left.dtype.type(0.0)
        for j in range(left.shape[1]):
            row += left[c, j] * right[c, j]
        value += row
    return value


@kernel(fastmath={"reassoc", "contract"})
def descend(f, f_t, p, surprise, weights, probability, confidence, decay, inverse, ease, g, d):
    """Write to ``d`` an approximate solution of H d = −g by preconditioned conjugate gradients.

    Parameters
    ----------
    f : (r, n) and its transpose; p, surprise : (C, n); weights : (n,); decay, inverse : (r,)
        All of them float32.
        ``surprise`` is empty without a confidence penalty; ``inverse`` is the preconditioner.
    ease : share of the residual that may remain whatever else is asked for
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
    bent, v, best = np.empty_like(toward), np.empty_like(p), likeliest(p)
    goal = max(TIGHTEST, ease, min(LOOSEST, np.sqrt(size))) ** 2
    energy = total_of_products(rest, toward)
    goal *= energy
    for number in range(MOST_PRODUCTS):
        np.dot(toward, f, v)
        bend(p, best, surprise, weights, probability, confidence, v)
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


@kernel
def next_step(low, high, slope_low, slope_high):
    """Return a step between two, by the secant of the slopes where they differ in sign."""
    share = 0.5
    if slope_high > 0.0:
        share = min(0.9, max(0.1, -slope_low / (slope_high - slope_low)))
    return low + share * (high - low)


@kernel
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


@kernel
def l2_along(theta, d, decay):
    """Return value, slope and curvature of the L2 terms at θ along the direction d."""
    value, slope, curvature = 0.0, 0.0, 0.0
    for c in range(d.shape[0]):
        for j in range(d.shape[1]):
            value += 0.5 * decay[j] * theta[c, j] ** 2
            slope += decay[j] * theta[c, j] * d[c, j]
            curvature += decay[j] * d[c, j] ** 2
    return value, slope, curvature


@kernel
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


@kernel
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
            np.float32(probability), np.float32(confidence), decay_single, inverse,
            min(LOOSEST, 0.1 * tolerance / bound), g, d,
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
