"""Passes over the rows of a task, block by block that fits the cache."""

from __future__ import annotations

import numpy as np

from firthshot.calibration._kernels.products import gather, project
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

BLOCK = 128  # rows; 128 × 640 float32 are a third of a megabyte


@kernel
def logits(x, weights, out):
    """Write weights @ x' (C, n) to ``out``."""
    for first in range(0, x.shape[0], BLOCK):
        rows = min(BLOCK, x.shape[0] - first)
        _fetch(x, first, rows)
        project(x, first, rows, weights, out, first)


@kernel
def pull_back(x, by_logits, out):
    """Write by_logits @ x (C, d) to ``out``."""
    out[:] = 0.0
    for first in range(0, x.shape[0], BLOCK):
        rows = min(BLOCK, x.shape[0] - first)
        _fetch(x, first, rows)
        gather(x, first, rows, by_logits, first, out)


@kernel
def _fetch(x, first, rows):
    """Read rows in their order, which the memory foresees; tiles then find them in the cache."""
    lanes, d, seen = lanes_in(x), x.shape[1], np.empty(lanes_in(x), x.dtype)
    total = vfill(x, 0.0)
    for q in range(first * d, (first + rows) * d, lanes):
        total = vadd(total, vload(x, q))
    vstore(seen, 0, total)
    return seen[0]


@kernel
def step_along(z, step_z, step, out):
    """Write z + step · step_z."""
    lanes, factor = lanes_in(z), vfill(z, step)
    for q in range(0, z.size, lanes):
        vstore(out, q, vfma(factor, vload(step_z, q), vload(z, q)))


@kernel
def inner(left, right):
    """Return Σ left · right of two matrices (C, n), added up in float64 by blocks."""
    total, lanes, n = 0.0, lanes_in(left), left.size
    work = np.empty(lanes, left.dtype)
    for start in range(0, n, 64 * lanes):
        part = vfill(left, 0.0)
        for q in range(start, min(n, start + 64 * lanes), lanes):
            part = vfma(vload(left, q), vload(right, q), part)
        vstore(work, 0, part)
        for lane in range(lanes):
            total += work[lane]
    return total


@kernel
def _soften(z, first, rows, targets, count, probability, p, by_logits):
    """Write P and dLoss/dZ of some rows; return the sum of their losses.

    As `firthshot.kernels.mean_loss.evaluate`, for a block and rows of equal weight.
    """
    n_classes, n, lanes = z.shape[0], z.shape[1], lanes_in(z)
    total, cross = np.empty(lanes, z.dtype), np.empty(lanes, z.dtype)
    weight, scale, value = vfill(z, 1.0 / count), vfill(z, probability), 0.0
    for q in range(first, first + rows, lanes):
        high = vload(z, q)
        for c in range(1, n_classes):
            high = vmax(vload(z, c * n + q), high)
        mass, part = vfill(z, 0.0), vfill(z, 0.0)
        for c in range(n_classes):
            shifted = vsub(vload(z, c * n + q), high)
            power = vexp(shifted)
            vstore(p, c * n + q, power)
            mass = vadd(mass, power)
            part = vfma(vload(targets, c * n + q), shifted, part)
        vstore(total, 0, mass)
        vstore(cross, 0, part)
        share = vdiv(vfill(z, 1.0), mass)
        for c in range(n_classes):
            at = c * n + q
            chance = vmul(vload(p, at), share)
            vstore(p, at, chance)
            vstore(by_logits, at, vmul(weight, vsub(vmul(scale, chance), vload(targets, at))))
        for lane in range(min(lanes, count - q)):
            value += probability * np.log(total[lane]) - cross[lane]
    return value


@kernel
def advance(x, direction, z, targets, count, probability, step_z, moved, p, by_logits, gradient):
    """Go one whole step along a direction and look around, reading the rows once.

    Writes the logits' step (C, n) and where it leads, P and dLoss/dZ there and the gradient of the
    mean loss (C, width); returns that loss and its slope along the direction.
    """
    gradient[:] = 0.0
    n_classes, n, lanes = z.shape[0], z.shape[1], lanes_in(z)
    loss = 0.0
    for first in range(0, n, BLOCK):
        rows = min(BLOCK, n - first)
        _fetch(x, first, rows)
        project(x, first, rows, direction, step_z, first)
        for c in range(n_classes):
            for q in range(c * n + first, c * n + first + rows, lanes):
                vstore(moved, q, vadd(vload(z, q), vload(step_z, q)))
        loss += _soften(moved, first, rows, targets, count, probability, p, by_logits)
        gather(x, first, rows, by_logits, first, gradient)
    return loss / count, inner(by_logits, step_z)


@kernel
def curvatures(p, labels, sums):
    """Write the sum of diag p − pp' over the rows of every class to ``sums`` (C, C, C)."""
    n_classes, row = p.shape[0], np.empty(p.shape[0], np.float64)
    sums[:] = 0.0
    for i in range(len(labels)):
        for c in range(n_classes):
            row[c] = p[c, i]
        mine = sums[labels[i]]
        for c in range(n_classes):
            for k in range(c):
                mine[c, k] -= row[c] * row[k]
    for mine in sums:
        for c in range(n_classes):
            for k in range(c):
                mine[k, c] = mine[c, k]
        # p sums to one: p_c − p_c² is the sum of p_c p_k over the others
        for c in range(n_classes):
            mine[c, c] = -mine[c].sum()
