"""The published mini-batch SGD of the linear head, in coefficients of the support rows.

    W_t = s_t W_0 + X' A_t,    velocity likewise,    logits of a batch = s Z_0[I] + K[I, :] A + bias

(`docs/engine.md` derives it). The feature dimension has vanished from the loop, and a gradient step
only adds to the batch's rows of the velocity.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from firthshot.engine._kernels.drift import drift
from firthshot.engine._kernels.simd import lanes_in, vadd, vfill, vfma, vload, vmul, vstore
from firthshot.engine._kernels.softmax import logit_gradient, to_class_layout, to_row_layout
from firthshot.engine._kernels.sweep import sweep
from firthshot.streams import SHUFFLE, random_words, shuffle_first

# Drifting velocities are brought back to scale when their common factor has fallen below this.
SMALLEST_FACTOR = 1e-4


@njit(nogil=True, cache=True)
def draw_order(key, trial, epoch, shuffle, order, words):
    """Write the order in which an epoch visits the support rows."""
    n = order.size
    for i in range(n):
        order[i] = i
    if shuffle:
        random_words(key, epoch * ((n + 3) // 4), n, 0, trial, SHUFFLE, words)
        shuffle_first(order, n, n, words)


@njit(nogil=True, cache=True)
def advance(value, pending, decay, factor, eta, mu):
    """Move a vector of parameters (one per column) by the momentum step that is pending."""
    step, momentum, share = vfill(value, -eta), vfill(value, mu), vfill(value, factor)
    for at in range(0, value.size, lanes_in(value)):
        velocity = vfma(vmul(share, vload(decay, at)), vload(value, at), vload(pending, at))
        vstore(value, at, vfma(step, velocity, vload(value, at)))
        vstore(pending, at, vmul(momentum, velocity))


@njit(nogil=True, cache=True)
def scatter(gradient, rows, n_rows, e):
    """Add the batch's gradient, in row layout, to its rows of ``e`` (blocks, N, lanes)."""
    lanes, wide, blocks, n = lanes_in(e), gradient.shape[1], e.shape[0], e.shape[1]
    for i in range(n_rows):
        for block in range(blocks):
            at = (block * n + rows[i]) * lanes
            vstore(e, at, vadd(vload(e, at), vload(gradient, i * wide + block * lanes)))


@njit(nogil=True, cache=True)
def add_rows(gradient, n_rows, total):
    """Add the sum of the batch's gradient over rows to ``total`` (one entry per column)."""
    lanes, wide = lanes_in(total), gradient.shape[1]
    for at in range(0, total.size, lanes):
        value = vload(total, at)
        for i in range(n_rows):
            value = vadd(value, vload(gradient, i * wide + at))
        vstore(total, at, value)


@njit(nogil=True, cache=True)
def rescale(values, factor):
    """Multiply a flat array of any size by ``factor``."""
    all_lanes, lanes = vfill(values, factor), lanes_in(values)
    whole = values.size // lanes * lanes
    for at in range(0, whole, lanes):
        vstore(values, at, vmul(all_lanes, vload(values, at)))
    for at in range(whole, values.size):
        values[at] *= factor


@njit(nogil=True, cache=True)
def glide(value, velocity, step):
    """Move a vector of parameters against their velocities, which stay as they are."""
    back = vfill(value, -step)
    for at in range(0, value.size, lanes_in(value)):
        vstore(value, at, vfma(back, vload(velocity, at), vload(value, at)))


@njit(nogil=True, cache=True)
def add_start(z, rows, n_rows, z0, s, bias):
    """Add ``s · Z_0[I] + bias`` to the batch's product ``z``, all in row layout."""
    lanes, wide, wide0 = lanes_in(z), z.shape[1], z0.shape[1]
    for i in range(n_rows):
        for at in range(0, s.size, lanes):
            value = vfma(vload(s, at), vload(z0, rows[i] * wide0 + at), vload(bias, at))
            vstore(z, i * wide + at, vadd(vload(z, i * wide + at), value))


@njit(nogil=True, cache=True)
def train_linear(
    gram,
    z0,
    labels,
    n_classes,
    n_coefficients,
    probability,
    target,
    label,
    confidence,
    scratch,
    decays,
    weight_decay,
    bias_decay,
    decay_with_batch,
    key,
    trial,
    shuffle,
    batch,
    first_epoch,
    last_epoch,
    eta,
    mu,
    dampening,
    scale_partial,
    a,
    e,
    bias,
    bias_e,
    s,
    s_e,
    clock,
):
    """Train all coefficients of one trial over some epochs, going on from the state given.

    Parameters
    ----------
    gram : (N, N), K = X X'
    z0 : (N, columns), X W_0 with each class repeated for every coefficient
    probability … scratch : see :func:`logit_gradient`
    decays : whether anything decays; where nothing does, velocities drift (:mod:`.drift`)
    weight_decay, bias_decay : (columns,) factor of the weights in their own gradient
    decay_with_batch : whether a partial batch scales the decay too (it is part of the loss)
    a, e : (blocks, N, lanes); bias, bias_e, s, s_e : (columns,)
        The state: each pair is a value and its pending step (:mod:`.sweep`). The last gradient is
        still pending at the end: see :func:`settle`.
    clock : (3,), the share of the decay in the pending step, the share of the next gradient, and
        the common factor of drifting velocities
    """
    n, wide = gram.shape[0], z0.shape[1]
    decay = np.zeros_like(weight_decay)
    z = np.zeros((batch, wide + lanes_in(a)), a.dtype)
    logits = np.zeros_like(target)
    order, words = np.empty(n, np.int64), np.empty(n + 4, np.uint64)
    batch_labels = np.empty(batch, np.int64)
    for epoch in range(first_epoch, last_epoch):
        draw_order(key, trial, epoch, shuffle, order, words)
        for start in range(0, n, batch):
            n_rows = min(batch, n - start)
            rows = order[start : start + n_rows]
            if decays:
                for at in range(0, decay.size, lanes_in(decay)):
                    vstore(decay, at, vmul(vfill(decay, clock[0]), vload(weight_decay, at)))
                sweep(gram, rows, n_rows, a, e, decay, eta, mu, z, z)
                advance(s, s_e, weight_decay, clock[0], eta, mu)
                advance(bias, bias_e, bias_decay, clock[0], eta, mu)
            else:
                drift(gram, rows, n_rows, a, e, a.dtype.type(eta * clock[2]), z)
                glide(bias, bias_e, eta * clock[2])
                clock[2] *= mu
                if clock[2] < SMALLEST_FACTOR:
                    rescale(e.ravel(), clock[2])
                    rescale(bias_e, clock[2])
                    clock[2] = 1.0
            add_start(z, rows, n_rows, z0, s, bias)
            to_class_layout(z, n_rows, n_classes, n_coefficients, logits)
            for i in range(n_rows):
                batch_labels[i] = labels[rows[i]]
            logit_gradient(
                logits,
                batch_labels,
                n_rows,
                n_coefficients,
                probability,
                target,
                label,
                confidence,
                scratch,
            )
            scale = clock[1] / (clock[2] * (batch if scale_partial else n_rows))
            to_row_layout(logits, n_rows, n_classes, n_coefficients, scale, z)
            scatter(z, rows, n_rows, e)
            add_rows(z, n_rows, bias_e)
            clock[0] = clock[1] * (n_rows / batch if decay_with_batch else 1.0)
            # torch's first gradient enters the velocity undampened.
            clock[1] = 1.0 - dampening


@njit(nogil=True, cache=True)
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
