"""Newton's method with conjugate gradients for the linear head, on the Gram matrix of its rows.

With W = ν S^½ X (S the sample weights, X the rows, centred where the intercept is free), all that
a solver needs of the rows is G = S^½ X X' S^½. The gradient by W is ρ S^½ X and the Hessian takes
ν to the coefficients A(ν G + β √s') + decay ν, A acting on each sample's classes: one product with
an (n, n) matrix per step of conjugate gradients, and none that knows the number of features.

Classes lie along the rows, (C, n). Gradients and values are float64; what only has to point
downhill is float32.
"""

from __future__ import annotations

import numpy as np

from firthshot.engine._kernels.converged import MOST_PRODUCTS, search, total_of_products
from firthshot.kernels import kernel
from firthshot.kernels.mean_loss import bend, likeliest, objective

# A direction is good enough when its residual is this small; smaller near the optimum.
LOOSEST, TIGHTEST = 0.1, 1e-3
MOST_RESTARTS = 3


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
def centre(rows, mean, unit, out):
    """Write (rows − mean) / unit to ``out``, of any precision."""
    share = 1.0 / unit
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            out[i, j] = (rows[i, j] - mean[j]) * share


@kernel(fastmath={"reassoc", "contract"})
def bent_direction(g_toward, toward_b, root, ones, p, best, probability, toward, decay, v):
    """Write A(G d + √s b) to ``v`` and return the curvature along the direction (d, b)."""
    for c in range(v.shape[0]):
        for i in range(v.shape[1]):
            v[c, i] = g_toward[c, i] + root[i] * toward_b[c]
    bend(p, best, np.empty((0, 0), v.dtype), ones, probability, v.dtype.type(0.0), v)
    value = 0.0
    for c in range(v.shape[0]):
        loss, l2 = v.dtype.type(0.0), v.dtype.type(0.0)
        for i in range(v.shape[1]):
            loss += (g_toward[c, i] + root[i] * toward_b[c]) * v[c, i]
            l2 += toward[c, i] * g_toward[c, i]
        value += loss + decay * l2
    return value


@kernel(fastmath={"reassoc", "contract"})
def advance(
    step, size, v, root, decay, free, toward, g_toward, toward_b, rest, rest_b, d, g_d, d_b
):  # fmt: skip
    """Move the solution along the direction, and take its image off the residual.

    Centred rows have G √s = 0: what lies along √s belongs to the intercept, and would only come
    back as rounding.
    """
    for c in range(v.shape[0]):
        total = v.dtype.type(0.0)
        for i in range(v.shape[1]):
            d[c, i] += step * size * toward[c, i]
            g_d[c, i] += step * size * g_toward[c, i]
            rest[c, i] -= step * (v[c, i] + decay * toward[c, i])
            total += root[i] * v[c, i]
        if free:
            d_b[c] += step * size * toward_b[c]
            rest_b[c] -= step * total
            for i in range(v.shape[1]):
                rest[c, i] += step * total * root[i]


@kernel
def precondition(matrix, level, curvature, ridge, rest, image, g_image):
    """Write to ``image`` what the preconditioner makes of a residual, and its product with G.

    Without a ridge ``matrix`` is G, and the Hessian is taken as ``level`` times the identity. Else
    ``matrix`` is (G + ridge)⁻¹ and the Hessian is taken as curvature (G + ridge), whose product
    with G comes free: G (G + ridge)⁻¹ = 1 − ridge (G + ridge)⁻¹.
    """
    if ridge > 0.0:
        np.dot(rest, matrix, image)
        for c in range(rest.shape[0]):
            for i in range(rest.shape[1]):
                g_image[c, i] = (rest[c, i] - ridge * image[c, i]) / curvature
                image[c, i] /= curvature
        return
    np.dot(rest, matrix, g_image)
    for c in range(rest.shape[0]):
        for i in range(rest.shape[1]):
            image[c, i] = rest[c, i] / level
            g_image[c, i] /= level


@kernel
def descend(
    matrix, level, curvature, ridge, root, ones, p, probability, decay, free, ease, rho, g_rho, q,
    d, g_d, d_b,
):  # fmt: skip
    """Write to (d, d_b) an approximate Newton step from the gradient (ρ, q), and G d to g_d.

    Parameters
    ----------
    matrix : (n, n); root, ones : (n,); p, g_rho : (C, n); numbers : all of them float32
    level, curvature, ridge : the Hessian's typical size, see :func:`precondition`; ``curvature``
        is that by the intercept
    free : whether there is an intercept
    ease : share of the residual that may remain whatever else is asked for
    rho, d, g_d : (C, n) and q, d_b : (C,) in float64
    """
    n_classes, n = rho.shape
    d[:], g_d[:], d_b[:] = 0.0, 0.0, 0.0
    # float32 squares of a small gradient would vanish
    scale = np.sqrt(total_of_products(rho, rho) + np.sum(q * q))
    if not scale > 0.0:
        return
    rest, rest_b = (rho / -scale).astype(np.float32), (q / -scale).astype(np.float32)
    image, g_image = rest / level, g_rho / np.float32(-scale * level)
    if ridge > 0.0:
        precondition(matrix, level, curvature, ridge, rest, image, g_image)
    energy = total_of_products(rest, g_image) + np.sum(rest_b * rest_b) / curvature
    if not energy > 0.0:
        return
    toward, g_toward, toward_b = image.copy(), g_image.copy(), rest_b / curvature
    v, best = np.empty_like(p), likeliest(p)
    goal = max(TIGHTEST, ease, min(LOOSEST, np.sqrt(scale * np.sqrt(energy)))) ** 2 * energy
    for _ in range(MOST_PRODUCTS):
        bending = bent_direction(
            g_toward, toward_b, root, ones, p, best, probability, toward, decay, v
        )
        if not bending > 0.0:
            return
        step = np.float32(energy / bending)
        advance(
            step, scale, v, root, decay, free, toward, g_toward, toward_b, rest, rest_b, d, g_d,
            d_b,
        )  # fmt: skip
        precondition(matrix, level, curvature, ridge, rest, image, g_image)
        before = energy
        energy = total_of_products(rest, g_image)
        for c in range(n_classes):
            energy += rest_b[c] * rest_b[c] / curvature
        if not energy > goal:
            return
        ratio = np.float32(energy / before)
        for c in range(n_classes):
            for i in range(n):
                toward[c, i] = image[c, i] + ratio * toward[c, i]
                g_toward[c, i] = g_image[c, i] + ratio * g_toward[c, i]
            toward_b[c] = rest_b[c] / curvature + ratio * toward_b[c]


@kernel
def to_logits(scaled, back, b, z):
    """Write the logits of scaled ones (ν G) and an intercept."""
    for c in range(z.shape[0]):
        for i in range(z.shape[1]):
            z[c, i] = scaled[c, i] * back[i] + b[c]


@kernel
def gradient(grad_z, back, root, nu, decay, free, rho, q):
    """Write the gradient's coefficients ρ by W, and q by the intercept; see :func:`advance`."""
    for c in range(nu.shape[0]):
        total, along = 0.0, 0.0
        for i in range(nu.shape[1]):
            rho[c, i] = grad_z[c, i] * back[i] + decay * nu[c, i]
            total += grad_z[c, i]
            along += rho[c, i] * root[i]
        q[c] = total if free else 0.0
        if free:
            for i in range(nu.shape[1]):
                rho[c, i] -= along * root[i]


@kernel
def largest_entry_bound(rho, g_rho, q, shift):
    """Return a bound on the largest entry of the gradient by W and b.

    No entry exceeds the norm of its row, (ρ G ρ')_cc; the rows are centred by a mean of norm
    ``shift``, which a gradient by the intercept puts back.
    """
    worst = 0.0
    for c in range(rho.shape[0]):
        square = 0.0
        for i in range(rho.shape[1]):
            square += rho[c, i] * g_rho[c, i]
        worst = max(worst, np.sqrt(max(square, 0.0)) + shift * abs(q[c]), abs(q[c]))
    return worst


@kernel
def minimise(
    gram, gram_single, matrix, level, curvature, ridge, root, back, weights, free, shift, targets,
    probability, decay, tolerance, drift, max_iterations, nu, b, z_scaled, grad_z,
):  # fmt: skip
    """Minimise the objective from (ν, b), in place, and return how it ended.

    Steps in float32 let the logits drift from ν G by their rounding; whenever the gradient seems
    small enough, or no step helps, they are computed afresh in float64. Dependent rows leave ρ a
    part that changes nothing (ρ G = 0) but drowns the rest in its rounding. Where no step helps,
    ν = −dLoss/dZ / decay, which is true at the optimum, takes that part away.

    Parameters
    ----------
    gram, gram_single : (n, n), G in float64 and float32
    matrix, level, curvature, ridge : see :func:`precondition`
    root, back, weights : (n,), √s, 1 / √s (0 for padding) and s
    free : whether there is an intercept; shift : see :func:`largest_entry_bound`
    targets : (C, n), probability, decay : the objective, see :mod:`firthshot.engine._problem`
    drift : what the rounding of float32 may hide of the gradient
    nu : (C, n), b : (C,), z_scaled : (C, n), ν G
    grad_z : (C, n), receives dLoss/dZ

    Returns
    -------
    iterations, bound on the largest entry of the gradient, value
    """
    n_classes, n = targets.shape
    z, step_z, tried = np.empty_like(nu), np.empty_like(nu), np.empty_like(nu)
    p, rho, d, g_d = np.empty_like(nu), np.empty_like(nu), np.empty_like(nu), np.empty_like(nu)
    q, d_b, top, total = np.empty(n_classes), np.empty(n_classes), np.empty(n), np.empty(n)
    none, ones = np.empty((0, 0)), np.ones(n, np.float32)
    g_rho = np.empty((n_classes, n), np.float32)
    l2, value, bound = 0.0, 0.0, np.inf
    iteration, restarts, stale, refresh = 0, 0, False, True
    while True:
        if refresh:
            if stale:
                np.dot(nu, gram, z_scaled)
            to_logits(z_scaled, back, b, z)
            value = objective(z, targets, weights, probability, 0.0, p, grad_z, none, top, total)
            l2 = 0.5 * decay * total_of_products(nu, z_scaled)
            value += l2
            stale = refresh = False
        gradient(grad_z, back, root, nu, decay, free, rho, q)
        np.dot(rho.astype(np.float32), gram_single, g_rho)
        bound = largest_entry_bound(rho, g_rho, q, shift)
        if bound <= tolerance or iteration >= max_iterations or not np.isfinite(bound):
            if not stale or bound + drift <= tolerance or not np.isfinite(bound):
                break
            refresh = True
            continue
        descend(
            matrix, np.float32(level), np.float32(curvature), np.float32(ridge), root, ones,
            p.astype(np.float32), np.float32(probability), np.float32(decay), free,
            min(LOOSEST, 0.3 * tolerance / bound), rho, g_rho, q, d, g_d, d_b,
        )  # fmt: skip
        to_logits(g_d, back, d_b, step_z)
        slope = total_of_products(rho, g_d)
        for c in range(n_classes):
            slope += q[c] * d_b[c]
        bends = decay * total_of_products(d, g_d)
        tilts = decay * total_of_products(nu, g_d)
        step = 0.0
        if slope < 0.0:
            step, value = search(
                z, step_z, (l2, tilts, bends), targets, weights, probability, 0.0, value, slope,
                (tried, p, grad_z, none, top, total),
            )  # fmt: skip
        if step == 0.0:
            if not stale and restarts == MOST_RESTARTS:
                objective(z, targets, weights, probability, 0.0, p, grad_z, none, top, total)
                break
            if not stale:
                nu -= rho / decay
                restarts += 1
            stale = refresh = True
            continue
        l2 += step * (tilts + 0.5 * step * bends)
        for c in range(n_classes):
            b[c] += step * d_b[c]
            for i in range(n):
                nu[c, i] += step * d[c, i]
                z_scaled[c, i] += step * g_d[c, i]
        z, tried = tried, z
        stale = True
        iteration += 1
    return iteration, bound, value
