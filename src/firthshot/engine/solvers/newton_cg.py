"""Truncated Newton for the linear head: conjugate gradients, on features rotated to their span.

Everything is laid out with classes along the rows, (C, n) for logits and (C, r) for parameters, so
that every lane of a vector is one sample. The features F (r, n) have orthogonal rows (under the
sample weights), so that the Hessian

    H V = F A(V F) + decay V,      A the Hessian by logits,

is nearly diagonal in them: where all samples are equally curved it equals
``probability · curvature · F² + decay``, the diagonal (Jacobi) preconditioner of the conjugate
gradients. Gradients and values are float64; Hessian products are float32, because a direction only
has to be one of descent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from firthshot.arrays import Array
from firthshot.engine.solvers.line_search import Line, dot, line_search
from firthshot.kernels import kernel
from firthshot.kernels.mean_loss import (
    LossState,
    MeanLoss,
    hessian_at,
    hessian_product,
    mean_curvature,
    objective,
)

# A direction is good enough when its residual is this share of the gradient: √‖g‖ between the two
# (the forcing term of truncated Newton methods, Nocedal & Wright 7.1), so that convergence is
# superlinear. At twice LOOSEST there are more and cheaper Newton steps; TIGHTEST is float32's.
LOOSEST, TIGHTEST = 0.25, 1e-3
# Hessian products for one direction; with a fair preconditioner the residual is small before that.
MOST_PRODUCTS = 100
# The forcing term is never tighter than what brings the gradient to this share of the tolerance:
# the last Newton step would otherwise be solved more exactly than anybody asked for.
OVERSHOOT = 0.1


class SpanData(NamedTuple):
    """The features of a problem in the basis of their span, and its L2: constant during a fit.

    Features are laid out both ways, in both precisions, because BLAS multiplies a few rows by a
    transposed matrix much more slowly.
    """

    features: Array  # (r, n)
    transposed: Array  # (n, r)
    features_single: Array
    transposed_single: Array
    squares: Array  # (r,), weighted mean squares of the features
    weights_single: Array  # (n,), of the samples
    decay: Array  # (r,), L2 factors
    free: bool  # whether the last feature is an intercept of its own
    shift: float  # norm of the mean that such an intercept took off the features


@kernel
def forcing_term(size, loosest, tightest, enough):
    """Return the forcing term: the share of a gradient of this norm that may remain as residual."""
    return max(tightest, enough, min(loosest, np.sqrt(size)))


@kernel(fastmath={"reassoc", "contract"})
def newton_direction(data, hessian, preconditioner, enough, g, d):
    """Write to ``d`` an approximate solution of H d = −g by preconditioned conjugate gradients.

    ``preconditioner`` (r,) is the inverse of H's diagonal in float32, and ``enough`` a lower bound
    on the forcing term (see `OVERSHOOT`); g and d (C, r) are float64.
    """
    n_classes, rank = g.shape
    size = 0.0
    for c in range(n_classes):
        for j in range(rank):
            size += g[c, j] * g[c, j] * preconditioner[j]
    size = np.sqrt(size)  # float32 squares of a small gradient would vanish
    residual, direction = np.empty(g.shape, np.float32), np.empty(g.shape, np.float32)
    for c in range(n_classes):
        for j in range(rank):
            residual[c, j] = -g[c, j] / size
            direction[c, j] = preconditioner[j] * residual[c, j]
            d[c, j] = 0.0
    product, v, decay = np.empty_like(direction), np.empty_like(hessian.p), data.decay
    square = dot(residual, direction)
    goal = forcing_term(size, LOOSEST, TIGHTEST, enough) ** 2 * square
    for number in range(MOST_PRODUCTS):
        np.dot(direction, data.features_single, v)
        hessian_product(hessian, v)
        np.dot(v, data.transposed_single, product)
        for c in range(n_classes):
            for j in range(rank):
                product[c, j] += np.float32(decay[j]) * direction[c, j]
        curvature = dot(direction, product)
        if not curvature > 0.0:  # only the confidence penalty has negative curvature
            if number == 0:
                d += size * direction
            return
        step, square_before = square / curvature, square
        square = 0.0
        for c in range(n_classes):
            for j in range(rank):
                d[c, j] += step * size * direction[c, j]
                residual[c, j] -= step * product[c, j]
                square += residual[c, j] * residual[c, j] * preconditioner[j]
        if square <= goal:
            return
        ratio = square / square_before
        for c in range(n_classes):
            for j in range(rank):
                direction[c, j] = preconditioner[j] * residual[c, j] + ratio * direction[c, j]


@kernel
def gradient_bound(g, free, shift):
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
def newton_cg(data, loss, tolerance, max_iterations, theta, state):
    """Minimise from θ (C, r), in place; ``state`` is the state of the loss at the end.

    ``data``, ``loss`` and ``state`` are plain tuples, whose types numba finds in half the time.
    Returns iterations, a bound on the largest entry of the gradient by W and b, and the value.
    """
    data, loss, state = SpanData(*data), MeanLoss(*loss), LossState(*state)
    g, d, z, step_z = (
        np.empty_like(theta), np.empty_like(theta), np.empty_like(state.z), np.empty_like(state.z),
    )  # fmt: skip
    preconditioner = np.empty(theta.shape[1], np.float32)
    np.dot(theta, data.features, state.z)
    value = objective(loss, state) + l2_along(theta, theta, data.decay)[0]
    for iteration in range(max_iterations + 1):
        np.dot(state.gradient, data.transposed, g)
        g += data.decay * theta
        bound = gradient_bound(g, data.free, data.shift)
        if bound <= tolerance or iteration == max_iterations or not np.isfinite(bound):
            break
        curvature = (loss.probability + loss.confidence) * mean_curvature(state.p, loss.weights)
        for j in range(len(preconditioner)):
            preconditioner[j] = 1.0 / (curvature * data.squares[j] + data.decay[j])
        hessian = hessian_at(loss, state, data.weights_single)
        enough = min(LOOSEST, OVERSHOOT * tolerance / bound)
        newton_direction(data, hessian, preconditioner, enough, g, d)
        slope = dot(g, d)
        if not slope < 0.0:
            break
        np.dot(d, data.features, step_z)
        z[:] = state.z
        line = Line(z, step_z, value, slope, l2_along(theta, d, data.decay))
        step, value = line_search(loss, line, state)
        if step == 0.0:
            break
        theta += step * d
    return iteration, bound, value
