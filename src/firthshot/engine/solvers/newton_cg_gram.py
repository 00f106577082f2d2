"""Truncated Newton for the linear head in dual variables: kernel logistic regression, G its kernel.

By the representer theorem W = ν S^½ X, with S = diag(s) the sample weights and X the rows (centred
if the intercept has no L2). All that a solver needs of the rows is then G = S^½ X X' S^½. The
gradient by W is ρ S^½ X, and the Hessian takes (ν, b) to A(ν G + b √s') + decay ν, A the Hessian by
logits: one product with an (n, n) matrix per step of conjugate gradients, and none that depends on
the number of features. Inner products are those of W, ⟨ν, μ⟩ = Σ ν (μ G), so that the method is
the same as on W, and ``image`` stands for ν G throughout.

Classes lie along the rows, (C, n). Gradients and values are float64; directions are float32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from firthshot.arrays import Array
from firthshot.engine.solvers.line_search import Line, dot, line_search
from firthshot.engine.solvers.newton_cg import MOST_PRODUCTS, forcing_term
from firthshot.kernels import kernel
from firthshot.kernels.mean_loss import LossState, MeanLoss, hessian_at, hessian_product, objective

# As in `newton_cg`; products are cheaper beside the rest of a Newton step here, so that tighter
# directions pay off.
LOOSEST, TIGHTEST, OVERSHOOT = 0.1, 1e-3, 0.3
# Restarts at ν − ρ/decay (see `newton_cg_gram`); one is enough but for rounding.
MOST_RESTARTS = 3


class GramData(NamedTuple):
    """The rows of a problem: constant during a fit, for all coefficients of a path.

    Rows are padded to whole vectors by zeros.
    """

    gram: Array  # (n, n), G
    gram_single: Array  # in float32
    root_single: Array  # (n,), √s in float32
    inverse_root: Array  # (n,), 1/√s, zero for padding
    ones: Array  # (n,), in float32
    free: bool  # whether there is an intercept without L2; the rows are then centred
    shift: float  # norm of the mean of the rows, where they are centred


class GramPreconditioner(NamedTuple):
    """An approximate inverse Hessian, in float32.

    Without a ridge the Hessian is taken as ``level`` times the identity, and ``matrix`` is G. Else
    ``matrix`` is (G + ridge)⁻¹ and the Hessian is taken as curvature (G + ridge). ``curvature`` is
    that by the intercept.
    """

    matrix: Array  # (n, n)
    level: float
    curvature: float
    ridge: float


class GramVector(NamedTuple):
    """Parameters, a direction or a gradient: dual variables, and the intercept."""

    nu: Array  # (C, n)
    b: Array  # (C,)
    image: Array  # (C, n), ν G


@kernel(fastmath={"reassoc", "contract"})
def weigh(products, along, constant, root, gram, single):
    """Write √s (products − along − along' + constant) √s' in both precisions; return its norm."""
    square = 0.0
    for i in range(len(products)):
        offset = along[i] - constant
        for j in range(len(products)):
            value = ((products[i, j] - along[j]) - offset) * root[i] * root[j]
            gram[i, j] = value
            single[i, j] = value
            square += value * value
    return np.sqrt(square)


@kernel
def mirror(upper):
    """Write the transpose of an upper triangle below it."""
    for i in range(len(upper)):
        for j in range(i):
            upper[i, j] = upper[j, i]


@kernel
def centre(rows, mean, unit, out):
    """Write (rows − mean) / unit to ``out``, of any precision."""
    inverse = 1.0 / unit
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            out[i, j] = (rows[i, j] - mean[j]) * inverse


@kernel(fastmath={"reassoc", "contract"})
def curvature_along(hessian, root, decay, direction, v):
    """Write A(d G + b √s') of a direction (d, b) to ``v``; return the objective's curvature."""
    d, b, image = direction
    for c in range(v.shape[0]):
        for i in range(v.shape[1]):
            v[c, i] = image[c, i] + root[i] * b[c]
    hessian_product(hessian, v)
    value = 0.0
    for c in range(v.shape[0]):
        loss, l2 = v.dtype.type(0.0), v.dtype.type(0.0)
        for i in range(v.shape[1]):
            loss += (image[c, i] + root[i] * b[c]) * v[c, i]
            l2 += d[c, i] * image[c, i]
        value += loss + decay * l2
    return value


@kernel(fastmath={"reassoc", "contract"})
def take_step(root, free, decay, step, size, direction, v, residual, solution):
    """Move the solution along the direction, and take its Hessian product off the residual.

    Centred rows have G √s = 0, so the residual's component along √s has no effect on W. It is
    projected out, or its rounding would grow.
    """
    (d, b, image), (nu, nu_b, nu_image) = direction, solution
    left, left_b = residual
    for c in range(v.shape[0]):
        total = v.dtype.type(0.0)
        for i in range(v.shape[1]):
            nu[c, i] += step * size * d[c, i]
            nu_image[c, i] += step * size * image[c, i]
            left[c, i] -= step * (v[c, i] + decay * d[c, i])
            total += root[i] * v[c, i]
        if free:
            nu_b[c] += step * size * b[c]
            left_b[c] -= step * total
            for i in range(v.shape[1]):
                left[c, i] += step * total * root[i]


@kernel
def precondition(preconditioner, residual, out):
    """Write to ``out`` the preconditioned residual, and its product with G.

    With a ridge the latter needs no product: G (G + ridge)⁻¹ = 1 − ridge (G + ridge)⁻¹.
    """
    matrix, level, curvature, ridge = preconditioner
    (rho, rho_b), (nu, b, image) = residual, out
    for c in range(len(b)):
        b[c] = rho_b[c] / curvature
    if ridge > 0.0:
        np.dot(rho, matrix, nu)
        for c in range(nu.shape[0]):
            for i in range(nu.shape[1]):
                image[c, i] = (rho[c, i] - ridge * nu[c, i]) / curvature
                nu[c, i] /= curvature
        return
    np.dot(rho, matrix, image)
    for c in range(nu.shape[0]):
        for i in range(nu.shape[1]):
            nu[c, i] = rho[c, i] / level
            image[c, i] /= level


@kernel
def inner_product(left, right):
    """Return the inner product of two vectors: that of weights, and that of intercepts."""
    value = dot(left.nu, right.image)
    for c in range(len(left.b)):
        value += left.b[c] * right.b[c]
    return value


@kernel
def squared_norm(residual, scaled, curvature):
    """Return the square of a residual in the norm of the preconditioner."""
    rho, rho_b = residual
    value = dot(rho, scaled.image)
    for c in range(len(rho_b)):
        value += rho_b[c] * rho_b[c] / curvature
    return value


@kernel
def update_direction(direction, ratio, scaled):
    """Replace a direction by the scaled residual plus ``ratio`` times the direction."""
    (d, b, image), (r, r_b, r_image) = direction, scaled
    for c in range(len(b)):
        b[c] = r_b[c] + ratio * b[c]
        for i in range(d.shape[1]):
            d[c, i] = r[c, i] + ratio * d[c, i]
            image[c, i] = r_image[c, i] + ratio * image[c, i]


@kernel
def newton_direction(data, hessian, decay, preconditioner, enough, gradient, solution):
    """Write to ``solution`` an approximate Newton step by preconditioned conjugate gradients.

    ``hessian`` is that by logits, and ``enough`` a lower bound on the forcing term.
    """
    solution.nu[:], solution.image[:], solution.b[:] = 0.0, 0.0, 0.0
    # float32 squares of a small gradient would vanish
    size = np.sqrt(dot(gradient.nu, gradient.nu) + np.sum(gradient.b * gradient.b))
    if not size > 0.0:
        return
    rho, rho_b = (gradient.nu / -size).astype(np.float32), (gradient.b / -size).astype(np.float32)
    residual, (_, level, curvature, ridge) = (rho, rho_b), preconditioner
    # The first product with G is that of the gradient, which is known.
    scaled = GramVector(rho / level, rho_b / curvature, gradient.image / np.float32(-size * level))
    if ridge > 0.0:
        precondition(preconditioner, residual, scaled)
    square = squared_norm(residual, scaled, curvature)
    if not square > 0.0:
        return
    direction = GramVector(scaled.nu.copy(), scaled.b.copy(), scaled.image.copy())
    v, root = np.empty_like(direction.nu), data.root_single
    goal = forcing_term(size * np.sqrt(square), LOOSEST, TIGHTEST, enough) ** 2 * square
    for _ in range(MOST_PRODUCTS):
        along = curvature_along(hessian, root, decay, direction, v)
        if not along > 0.0:
            return
        step = np.float32(square / along)
        take_step(root, data.free, decay, step, size, direction, v, residual, solution)
        precondition(preconditioner, residual, scaled)
        before = square
        square = squared_norm(residual, scaled, curvature)
        if not square > goal:
            return
        ratio = np.float32(square / before)
        update_direction(direction, ratio, scaled)


@kernel
def write_logits(data, vector, z):
    """Write the logits of parameters or of a direction."""
    inverse_root, b, image = data.inverse_root, vector.b, vector.image
    for c in range(z.shape[0]):
        for i in range(z.shape[1]):
            z[c, i] = image[c, i] * inverse_root[i] + b[c]


@kernel
def write_gradient(data, decay, by_logits, nu, gradient):
    """Write the gradient by W, as dual variables (see :func:`take_step`) and by the intercept."""
    root, inverse_root, rho = data.root_single, data.inverse_root, gradient.nu
    for c in range(nu.shape[0]):
        total, along = 0.0, 0.0
        for i in range(nu.shape[1]):
            rho[c, i] = by_logits[c, i] * inverse_root[i] + decay * nu[c, i]
            total += by_logits[c, i]
            along += rho[c, i] * root[i]
        gradient.b[c] = total if data.free else 0.0
        if data.free:
            for i in range(nu.shape[1]):
                rho[c, i] -= along * root[i]
    np.dot(rho.astype(np.float32), data.gram_single, gradient.image)


@kernel
def gradient_bound(gradient, shift):
    """Return a bound on the largest entry of the gradient by W and b.

    No entry exceeds the norm of its row, (ρ G ρ')_cc; the rows are centred by a mean of norm
    ``shift``, which a gradient by the intercept puts back.
    """
    worst, (rho, b, image) = 0.0, gradient
    for c in range(len(b)):
        square, bias = 0.0, abs(b[c])
        for i in range(rho.shape[1]):
            square += rho[c, i] * image[c, i]
        worst = max(worst, np.sqrt(max(square, 0.0)) + shift * bias, bias)
    return worst


@kernel
def advance(point, step, newton):
    """Move a point along a Newton step."""
    (nu, b, image), (d, d_b, d_image) = point, newton
    for c in range(len(b)):
        b[c] += step * d_b[c]
        for i in range(nu.shape[1]):
            nu[c, i] += step * d[c, i]
            image[c, i] += step * d_image[c, i]


@kernel
def newton_steps(data, loss, decay, preconditioner, limits, point, state, gradient, newton):
    """Take Newton steps from a point, in place, until its gradient is small or no step helps.

    Logits and ν G are updated by float32 steps, so that rounding adds up in them until
    `newton_cg_gram` computes them afresh. ``gradient`` and ``newton`` receive the last gradient and
    step. Returns the number of steps, the bound on the gradient and the value.
    """
    tolerance, max_iterations = limits
    z, step_z, iteration = np.empty_like(state.z), np.empty_like(state.z), 0
    write_logits(data, point, state.z)
    l2 = 0.5 * decay * dot(point.nu, point.image)
    value = objective(loss, state) + l2
    while True:
        write_gradient(data, decay, state.gradient, point.nu, gradient)
        bound = gradient_bound(gradient, data.shift)
        if bound <= tolerance or iteration >= max_iterations or not np.isfinite(bound):
            return iteration, bound, value
        hessian = hessian_at(loss, state, data.ones)
        enough = min(LOOSEST, OVERSHOOT * tolerance / bound)
        newton_direction(data, hessian, np.float32(decay), preconditioner, enough, gradient, newton)
        slope = inner_product(gradient, newton)
        if not slope < 0.0:
            return iteration, bound, value
        write_logits(data, newton, step_z)
        l2_slope, l2_curvature = (
            decay * dot(point.nu, newton.image), decay * dot(newton.nu, newton.image),
        )  # fmt: skip
        z[:] = state.z
        line = Line(z, step_z, value, slope, (l2, l2_slope, l2_curvature))
        step, value = line_search(loss, line, state)
        if step == 0.0:
            return iteration, bound, value
        l2 += step * (l2_slope + 0.5 * step * l2_curvature)
        advance(point, step, newton)
        iteration += 1


@kernel
def newton_cg_gram(data, loss, decay, preconditioner, limits, point, state):
    """Minimise from a point, in place; ``state`` is the state of the loss at the end.

    Newton steps end when the gradient is small or no step helps. The logits are then computed
    afresh in float64, and steps go on until there is none to take from exact logits.

    Linearly dependent rows give G a null space. What ρ has there (ρ G = 0) has no effect on W, but
    its rounding can hide the rest of ρ. If no step helps, ν restarts at ν − ρ/decay, which is
    −S^-½ dLoss/dZ / decay. At the optimum that is the ν for which ρ has no such part.

    Parameters
    ----------
    data, loss, preconditioner, point, state
        A `GramData`, a `MeanLoss` and so on, each as a plain tuple: numba takes twice as long to
        find the types of named tuples in a call, which matters in fits of few rows.
    limits : tolerance, error of the gradient from float32 rounding, most iterations

    Returns
    -------
    iterations, bound on the largest entry of the gradient by W and b, value
    """
    data, loss, state = GramData(*data), MeanLoss(*loss), LossState(*state)
    preconditioner, point = GramPreconditioner(*preconditioner), GramVector(*point)
    tolerance, drift, max_iterations = limits
    rho, q, image = (
        np.empty_like(state.z),
        np.empty_like(point.b),
        np.empty(state.z.shape, np.float32),
    )
    gradient = GramVector(rho, q, image)
    newton = GramVector(np.empty_like(state.z), np.empty_like(point.b), np.empty_like(state.z))
    iterations, restarts = 0, 0
    while True:
        steps, bound, value = newton_steps(
            data, loss, decay, preconditioner, (tolerance, max_iterations - iterations), point,
            state, gradient, newton,
        )  # fmt: skip
        iterations += steps
        if (steps > 0 and bound + drift <= tolerance) or not np.isfinite(bound):
            break
        if steps == 0:  # the logits are exact
            if bound <= tolerance or iterations >= max_iterations or restarts == MOST_RESTARTS:
                break
            point.nu[:] -= gradient.nu / decay
            restarts += 1
        np.dot(point.nu, data.gram, point.image)
    return iterations, bound, value
