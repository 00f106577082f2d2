"""Passes over the rows of a task, block by block that fits the cache."""

from __future__ import annotations

import numpy as np
from numba import njit

from firthshot.calibration._kernels.products import gather, project
from firthshot.engine._kernels.simd import lanes_in, vadd, vfill, vfma, vload, vstore

BLOCK = 128  # rows; 128 × 640 float32 are a third of a megabyte


@njit(nogil=True, cache=True)
def logits(x, weights, out):
    """Write weights @ x' (C, n) to ``out``."""
    project(x, 0, x.shape[0], weights, out, 0)


@njit(nogil=True, cache=True)
def pull_back(x, by_logits, out):
    """Write by_logits @ x (C, d) to ``out``."""
    out[:] = 0.0
    for first in range(0, x.shape[0], BLOCK):
        rows = min(BLOCK, x.shape[0] - first)
        _fetch(x, first, rows)
        gather(x, first, rows, by_logits, first, out)


@njit(nogil=True, cache=True)
def _fetch(x, first, rows):
    """Read rows in their order, which the memory foresees; tiles then find them in the cache."""
    lanes, d, seen = lanes_in(x), x.shape[1], np.empty(lanes_in(x), x.dtype)
    total = vfill(x, 0.0)
    for q in range(first * d, (first + rows) * d, lanes):
        total = vadd(total, vload(x, q))
    vstore(seen, 0, total)
    return seen[0]


@njit(nogil=True, cache=True)
def step_along(z, step_z, step, out):
    """Write z + step · step_z."""
    lanes, factor = lanes_in(z), vfill(z, step)
    for q in range(0, z.size, lanes):
        vstore(out, q, vfma(factor, vload(step_z, q), vload(z, q)))


@njit(nogil=True, cache=True)
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
