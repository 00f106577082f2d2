"""The published mini-batch SGD of the linear head, in coefficients of the support rows.

    W_t = s_t W_0 + X' A_t,    velocity likewise,    logits of a batch = s Z_0[I] + K[I, :] A + bias

(`docs/engine.md` derives it). The feature dimension has vanished from the loop, and a gradient step
only adds to the batch's rows of the velocity.
"""

from __future__ import annotations

import numpy as np

from firthshot.engine._kernels.drift import drift
from firthshot.engine._kernels.momentum import (
    SMALLEST_FACTOR,
    add_rows,
    advance,
    draw_order,
    glide,
    rescale,
    scatter,
)
from firthshot.engine._kernels.sweep import sweep
from firthshot.kernels import kernel
from firthshot.kernels.softmax import logit_gradient, to_class_layout, to_row_layout
from firthshot.kernels.vectors import lanes_in, vadd, vfill, vfma, vload, vmul, vstore


@kernel
def add_start(z, rows, n_rows, z0, s, bias):
    """Add ``s · Z_0[I] + bias`` to the batch's product ``z``, all in row layout."""
    lanes, wide, wide0 = lanes_in(z), z.shape[1], z0.shape[1]
    for i in range(n_rows):
        for at in range(0, s.size, lanes):
            value = vfma(vload(s, at), vload(z0, rows[i] * wide0 + at), vload(bias, at))
            vstore(z, i * wide + at, vadd(vload(z, i * wide + at), value))


@kernel
def _move_on(gram, rows, n_rows, layer, decays, decay, eta, mu, clock, z):
    """Take the pending step and write the batch's product with the coefficients to ``z``."""
    if decays:
        for at in range(0, decay.size, lanes_in(decay)):
            vstore(decay, at, vmul(vfill(decay, clock[0]), vload(layer.weight_decay, at)))
        sweep(gram, rows, n_rows, layer.a, layer.e, decay, eta, mu, z, z)
        advance(layer.s, layer.s_e, layer.weight_decay, clock[0], eta, mu)
        advance(layer.bias, layer.bias_e, layer.bias_decay, clock[0], eta, mu)
        return
    drift(gram, rows, n_rows, layer.a, layer.e, layer.a.dtype.type(eta * clock[2]), z)
    glide(layer.bias, layer.bias_e, eta * clock[2])
    clock[2] *= mu
    if clock[2] < SMALLEST_FACTOR:
        rescale(layer.e.ravel(), clock[2])
        rescale(layer.bias_e, clock[2])
        clock[2] = 1.0


@kernel
def train_linear(
    gram, z0, labels, n_classes, n_coefficients, form, decays, layer, schedule, clock, first, last
):
    """Train all coefficients of one trial over the epochs first … last - 1, from the state given.

    Parameters
    ----------
    gram : (N, N), K = X X'
    z0 : (N, columns), X W_0 with each class repeated for every coefficient
    form : probability … scratch, see :func:`logit_gradient`
    decays : whether anything decays; where nothing does, velocities drift (:mod:`.drift`)
    layer, schedule : :class:`.momentum.Layer` and :class:`.momentum.Schedule`
    clock : (3,), the share of the decay in the pending step, the share of the next gradient, and
        the common factor of drifting velocities
    """
    n, wide, batch = gram.shape[0], z0.shape[1], schedule.batch
    decay = np.zeros_like(layer.weight_decay)
    z = np.zeros((batch, wide + lanes_in(z0)), z0.dtype)
    logits = np.zeros_like(form.target)
    order, words = np.empty(n, np.int64), np.empty(n + 4, np.uint64)
    batch_labels = np.empty(batch, np.int64)
    for epoch in range(first, last):
        draw_order(schedule.key, schedule.trial, epoch, schedule.shuffle, order, words)
        for start in range(0, n, batch):
            n_rows = min(batch, n - start)
            rows = order[start : start + n_rows]
            _move_on(gram, rows, n_rows, layer, decays, decay, schedule.eta, schedule.mu, clock, z)
            add_start(z, rows, n_rows, z0, layer.s, layer.bias)
            to_class_layout(z, n_rows, n_classes, n_coefficients, logits)
            for i in range(n_rows):
                batch_labels[i] = labels[rows[i]]
            logit_gradient(
                logits, batch_labels, n_rows, n_coefficients,
                form.probability, form.target, form.label, form.confidence, form.scratch,
            )  # fmt: skip
            scale = clock[1] / (clock[2] * (batch if schedule.scale_partial else n_rows))
            to_row_layout(logits, n_rows, n_classes, n_coefficients, scale, z)
            scatter(z, rows, n_rows, layer.e)
            add_rows(z, n_rows, layer.bias_e)
            clock[0] = clock[1] * (n_rows / batch if schedule.decay_with_batch else 1.0)
            # torch's first gradient enters the velocity undampened.
            clock[1] = 1.0 - schedule.dampening
