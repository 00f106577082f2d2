"""The published mini-batch SGD of the 3-layer head; only its first layer touches features.

    hidden pre-activations of a batch = s Z_0[I] + K[I, :] A + bias        (as in the linear head)

The two small layers above are dense; their matrices hold eight coefficients in every entry
(:mod:`.dense`). Their biases are weights of an input that is always one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from firthshot.engine._kernels.dense import (
    OCTET,
    descend,
    gate,
    matrix,
    octet_fma,
    octet_load,
    octet_store,
    product,
    rectify,
)
from firthshot.engine._kernels.drift import drift
from firthshot.engine._kernels.momentum import (
    SMALLEST_FACTOR,
    add_rows,
    advance,
    draw_order,
    rescale,
    scatter,
)
from firthshot.engine._kernels.sweep import sweep
from firthshot.kernels import kernel
from firthshot.kernels.softmax import logit_gradient
from firthshot.kernels.vectors import lanes_in, vadd, vfill, vload, vmul, vstore

Array = npt.NDArray[Any]


class Small(NamedTuple):
    """The layers above the first, flat octets; nothing is pending, the last input is the bias."""

    w2: Array  # (h0 + 1, h1), and its velocity
    v2: Array
    decay_2: Array  # (h0 + 1,)
    w3: Array  # (h1 + 1, C), and its velocity
    v3: Array
    decay_3: Array  # (h1 + 1,)


class Work(NamedTuple):
    """Room for a batch: the first layer's columns as vectors, the others as flat octets."""

    z: Array  # (batch, columns + lanes), product with the coefficients, then the gradient there
    hidden_1: Array  # (batch, h0 + 1), the last column one
    hidden_2: Array  # (batch, h1 + 1), the last column one
    gradient_2: Array  # like hidden_2
    gradient_1: Array  # like hidden_1
    logits: Array  # (C, batch · 8 + lanes), then their gradient


@kernel
def train_mlp(
    gram, z0, labels, n_coefficients, form, decays, layer, small, schedule, clock, work,
    first, last,
):  # fmt: skip
    """Train up to eight coefficients over the epochs first … last - 1, from the state given.

    Parameters
    ----------
    gram : (N, N), K = X X'
    z0 : (N, h0), X W_0 of the first layer
    form : probability … scratch for eight coefficients, see :func:`logit_gradient`
    decays : whether anything decays; where nothing does, velocities drift (:mod:`.drift`)
    layer, schedule : :class:`.momentum.Layer` and :class:`.momentum.Schedule`
        The first layer's columns are unit by unit, each for all coefficients; all but ``a`` and
        ``e`` end in one vector of padding.
    clock : (3,), the share of the decay in the pending step, that of the next gradient, and the
        factor of drifting velocities
    """
    n, lanes, number, z = gram.shape[0], lanes_in(z0), z0.dtype.type, work.z
    a, e, bias, bias_e, s, s_e, weight_decay, bias_decay = layer
    batch, eta, mu = schedule.batch, schedule.eta, schedule.mu
    decay = np.zeros_like(weight_decay)
    order, words = np.empty(n, np.int64), np.empty(n + 4, np.uint64)
    batch_labels = np.empty(batch, np.int64)
    for epoch in range(first, last):
        draw_order(schedule.key, schedule.trial, epoch, schedule.shuffle, order, words)
        for start in range(0, n, batch):
            n_rows = min(batch, n - start)
            rows = order[start : start + n_rows]
            for i in range(n_rows):
                batch_labels[i] = labels[rows[i]]
            step, momentum = eta * number(clock[2]), mu if decays else number(1.0)
            if decays:
                for at in range(0, decay.size, lanes):
                    vstore(decay, at, vmul(vfill(decay, clock[0]), vload(weight_decay, at)))
                sweep(gram, rows, n_rows, a, e, decay, step, momentum, z, z)
                advance(s, s_e, weight_decay, clock[0], step, momentum)
            else:
                drift(gram, rows, n_rows, a, e, step, z)
                clock[2] *= mu
            advance(bias, bias_e, bias_decay, clock[0], step, momentum)
            _activate(rows, n_rows, z0, s, bias, n_coefficients, work)
            _forward(n_rows, z0.shape[1], small, work)
            logit_gradient(
                work.logits, batch_labels, n_rows, OCTET,
                form.probability, form.target, form.label, form.confidence, form.scratch,
            )  # fmt: skip
            scale = clock[1] / ((batch if schedule.scale_partial else n_rows) * clock[2])
            share = clock[1] * (n_rows / batch if schedule.decay_with_batch else 1.0)
            rescale(work.logits.ravel(), scale)
            step = eta * number(clock[2])
            _backward(n_rows, z0.shape[1], small, work, decays, share, step, mu)
            _gate_first(n_rows, z0.shape[1], n_coefficients, work)
            scatter(z, rows, n_rows, e)
            add_rows(z, n_rows, bias_e)
            clock[0] = share
            # torch's first gradient enters the velocity undampened.
            clock[1] = 1.0 - schedule.dampening
            if clock[2] < SMALLEST_FACTOR:
                for velocity in (e.ravel(), bias_e, small.v2, small.v3):
                    rescale(velocity, clock[2])
                clock[2] = 1.0


@kernel
def _activate(rows, n_rows, z0, s, bias, n_coefficients, work):
    """Write the first hidden layer from the product with the coefficients.

    Units lie ``n_coefficients`` apart: an octet's numbers past them belong to the next unit, and
    nothing that is read comes of them.
    """
    z, hidden, wide, width = work.z, work.hidden_1, work.z.shape[1], z0.shape[1]
    for i in range(n_rows):
        for j in range(width):
            at = j * n_coefficients
            start = octet_fma(octet_load(s, at), z0[rows[i], j], octet_load(bias, at))
            value = rectify(vadd(octet_load(z, i * wide + at), start))
            octet_store(hidden, (i * (width + 1) + j) * OCTET, value)


@kernel
def _forward(n_rows, width, small, work):
    """Write the second hidden layer and the logits (class layout) of the batch."""
    n_classes, columns = work.logits.shape[0], work.logits.shape[1] // OCTET
    inputs_3 = small.decay_3.size // OCTET
    hidden_1, hidden_2 = matrix(work.hidden_1, width + 1, 1), matrix(work.hidden_2, inputs_3, 1)
    product(hidden_1, matrix(small.w2, inputs_3 - 1, 1), hidden_2, n_rows, inputs_3 - 1, width + 1)
    # The constant input is one before and after.
    for at in range(0, n_rows * inputs_3 * OCTET, OCTET):
        octet_store(work.hidden_2, at, rectify(octet_load(work.hidden_2, at)))
    logits = matrix(work.logits.ravel(), 1, columns)
    product(hidden_2, matrix(small.w3, n_classes, 1), logits, n_rows, n_classes, inputs_3)


@kernel
def _backward(n_rows, width, small, work, decays, share, eta, mu):
    """Write the gradient at the first hidden layer and take a step of the layers above."""
    n_classes, columns = work.logits.shape[0], work.logits.shape[1] // OCTET
    inputs_3 = small.decay_3.size // OCTET
    gradient_3 = matrix(work.logits.ravel(), 1, columns)
    gradient_2 = matrix(work.gradient_2, inputs_3, 1)
    # Gradients go down through the weights of this step's forward pass, before these move.
    back_3, back_2 = matrix(small.w3, 1, n_classes), matrix(small.w2, 1, inputs_3 - 1)
    product(gradient_3, back_3, gradient_2, n_rows, inputs_3 - 1, n_classes)
    for at in range(0, n_rows * inputs_3 * OCTET, OCTET):
        value = gate(octet_load(work.hidden_2, at), octet_load(work.gradient_2, at))
        octet_store(work.gradient_2, at, value)
    gradient_1 = matrix(work.gradient_1, width + 1, 1)
    product(gradient_2, back_2, gradient_1, n_rows, width, inputs_3 - 1)
    descend(
        matrix(work.hidden_2, 1, inputs_3), gradient_3,
        matrix(small.w3, n_classes, 1), small.v3, inputs_3, n_classes, n_rows,
        decays, matrix(small.decay_3, 1, 0), share, eta, mu,
    )  # fmt: skip
    descend(
        matrix(work.hidden_1, 1, width + 1), gradient_2,
        matrix(small.w2, inputs_3 - 1, 1), small.v2, width + 1, inputs_3 - 1, n_rows,
        decays, matrix(small.decay_2, 1, 0), share, eta, mu,
    )  # fmt: skip


@kernel
def _gate_first(n_rows, width, n_coefficients, work):
    """Write the gradient at the first layer's pre-activations over its product.

    What an octet writes past its unit's columns is the next unit's, which is written later.
    """
    z, wide = work.z, work.z.shape[1]
    for i in range(n_rows):
        for j in range(width):
            at = (i * (width + 1) + j) * OCTET
            value = gate(octet_load(work.hidden_1, at), octet_load(work.gradient_1, at))
            octet_store(z, i * wide + j * n_coefficients, value)
