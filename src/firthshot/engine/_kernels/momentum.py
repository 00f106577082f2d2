"""What the heads' training loops share: the order of rows, steps of momentum, their state.

State of a layer: a value and its pending step, the velocity times the momentum plus the gradients
that arrived since (:mod:`.sweep`); where nothing decays, a velocity that drifts (:mod:`.drift`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from firthshot.kernels import kernel
from firthshot.kernels.streams import SHUFFLE, random_words, shuffle_first
from firthshot.kernels.vectors import lanes_in, vadd, vfill, vfma, vload, vmul, vstore

Array = npt.NDArray[Any]

# Drifting velocities are brought back to scale when their common factor has fallen below this.
SMALLEST_FACTOR = 1e-4


class Layer(NamedTuple):
    """A layer W = s W_0 + X'A with a bias: values, pending steps (``_e``) and decays.

    The last gradient is still pending when training ends: see :func:`settle`.
    """

    a: Array  # (blocks, N, lanes)
    e: Array
    bias: Array  # (columns,), as all that follow
    bias_e: Array
    s: Array
    s_e: Array
    weight_decay: Array  # factor of the weights in their own gradient
    bias_decay: Array


class Schedule(NamedTuple):
    """The published SGD of one trial; numbers that enter vectors have the features' type."""

    key: np.uint64
    trial: int
    shuffle: bool
    batch: int
    eta: Any
    mu: Any
    dampening: float
    scale_partial: bool
    decay_with_batch: bool  # a partial batch scales the decay too: it is part of the loss


@kernel
def draw_order(key, trial, epoch, shuffle, order, words):
    """Write the order in which an epoch visits the support rows."""
    n = order.size
    for i in range(n):
        order[i] = i
    if shuffle:
        random_words(key, epoch * ((n + 3) // 4), n, 0, trial, SHUFFLE, words)
        shuffle_first(order, n, n, words)


@kernel
def advance(value, pending, decay, factor, eta, mu):
    """Move a vector of parameters (one per column) by the momentum step that is pending."""
    step, momentum, share = vfill(value, -eta), vfill(value, mu), vfill(value, factor)
    for at in range(0, value.size, lanes_in(value)):
        velocity = vfma(vmul(share, vload(decay, at)), vload(value, at), vload(pending, at))
        vstore(value, at, vfma(step, velocity, vload(value, at)))
        vstore(pending, at, vmul(momentum, velocity))


@kernel
def glide(value, velocity, step):
    """Move a vector of parameters against their velocities, which stay as they are."""
    back = vfill(value, -step)
    for at in range(0, value.size, lanes_in(value)):
        vstore(value, at, vfma(back, vload(velocity, at), vload(value, at)))


@kernel
def scatter(gradient, rows, n_rows, e):
    """Add the batch's gradient, in row layout, to its rows of ``e`` (blocks, N, lanes)."""
    lanes, wide, blocks, n = lanes_in(e), gradient.shape[1], e.shape[0], e.shape[1]
    for i in range(n_rows):
        for block in range(blocks):
            at = (block * n + rows[i]) * lanes
            vstore(e, at, vadd(vload(e, at), vload(gradient, i * wide + block * lanes)))


@kernel
def add_rows(gradient, n_rows, total):
    """Add the sum of the batch's gradient over rows to ``total`` (one entry per column)."""
    lanes, wide = lanes_in(total), gradient.shape[1]
    for at in range(0, total.size, lanes):
        value = vload(total, at)
        for i in range(n_rows):
            value = vadd(value, vload(gradient, i * wide + at))
        vstore(total, at, value)


@kernel
def rescale(values, factor):
    """Multiply a flat array of any size by ``factor``."""
    all_lanes, lanes = vfill(values, factor), lanes_in(values)
    whole = values.size // lanes * lanes
    for at in range(0, whole, lanes):
        vstore(values, at, vmul(all_lanes, vload(values, at)))
    for at in range(whole, values.size):
        values[at] *= factor


@kernel
def settle(a, e, decay, share, eta):
    """Return the coefficients (N, columns) after the pending step, and leave the state alone."""
    blocks, n, lanes = a.shape
    settled = np.empty((n, blocks * lanes), a.dtype)
    for block in range(blocks):
        for j in range(n):
            for lane in range(lanes):
                column = block * lanes + lane
                velocity = e[block, j, lane] + share * decay[column] * a[block, j, lane]
                settled[j, column] = a[block, j, lane] - eta * velocity
    return settled
