"""Passes over the rows of a task, block by block that fits the cache."""

from __future__ import annotations

import numpy as np

from firthshot.kernels import kernel
from firthshot.kernels.mean_loss import cross_entropy
from firthshot.kernels.narrow import add_mixtures, dots
from firthshot.kernels.vectors import lanes_in, vadd, vfill, vfma, vload, vstore

# Rows of a pass: 128 × 640 float32 are a third of a megabyte, which stays in a cache of the second
# level; half or twice as many take the same time.
BLOCK = 128


@kernel
def logits(x, weights, out):
    """Write weights @ x' (C, n) to ``out``."""
    for first in range(0, x.shape[0], BLOCK):
        rows = min(BLOCK, x.shape[0] - first)
        _fetch(x, first, rows)
        dots(weights, x, first, first + rows, out)


@kernel
def pull_back(x, by_logits, out):
    """Write by_logits @ x (C, d) to ``out``."""
    out[:] = 0.0
    for first in range(0, x.shape[0], BLOCK):
        rows = min(BLOCK, x.shape[0] - first)
        _fetch(x, first, rows)
        add_mixtures(by_logits, x, first, first + rows, out)


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
def whole_step(loss, x, direction, z, step_z, state, gradient):
    """Go one whole step along a direction and look around, reading the rows once.

    Writes the logits' step (C, n), the state of the loss after it, and the gradient of the mean
    loss (C, width); returns that loss and its slope along the direction.
    """
    gradient[:] = 0.0
    n_classes, n, lanes, moved = z.shape[0], z.shape[1], lanes_in(z), state.z
    value = 0.0
    for first in range(0, n, BLOCK):
        rows = min(BLOCK, n - first)
        _fetch(x, first, rows)
        dots(direction, x, first, first + rows, step_z)
        for c in range(n_classes):
            for q in range(c * n + first, c * n + first + rows, lanes):
                vstore(moved, q, vadd(vload(z, q), vload(step_z, q)))
        value += cross_entropy(loss, state, first, rows)
        add_mixtures(state.gradient, x, first, first + rows, gradient)
    return value, inner(state.gradient, step_z)


@kernel
def finish_rows(block, mean, shift):
    """Add the mean and each row's shift to the features, then a one and zeros."""
    d = len(mean)
    for i in range(block.shape[0]):
        for j in range(d):
            block[i, j] += mean[j] + shift[i]
        block[i, d] = 1.0
        for j in range(d + 1, block.shape[1]):
            block[i, j] = 0.0


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
