"""The published mini-batch SGD of the 3-layer head; only its first layer touches features.

    hidden pre-activations of a batch = s Z_0[I] + K[I, :] A + bias        (as in the linear head)

The two small layers above are dense, one pair per coefficient. Their products never transpose a
weight matrix: with the batch in the lanes of a vector a weight is broadcast, with units in the
lanes it is loaded.

=============================  ============  =====================================
product                        lanes         broadcast
=============================  ============  =====================================
second layer, forward          batch         W_2
third layer, forward and back  batch         W_3
second layer, back             first hidden  gradient at the second hidden layer
gradient of W_2 (out, in)      first hidden  gradient at the second hidden layer
gradient of W_3 (in, out)      classes       second hidden layer
=============================  ============  =====================================

The biases of the small layers are weights of an input that is always one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from firthshot.engine._kernels.dense import descend, factor, gate, matrix, product, transpose
from firthshot.engine._kernels.drift import drift
from firthshot.engine._kernels.linear import add_rows, advance, draw_order, scatter
from firthshot.engine._kernels.simd import lanes_in, vadd, vfill, vfma, vload, vmax, vmul, vstore
from firthshot.engine._kernels.softmax import logit_gradient
from firthshot.engine._kernels.sweep import sweep

Array = npt.NDArray[Any]

# Drifting velocities are brought back to scale when their common factor has fallen below this.
_SMALLEST_FACTOR = 1e-9


class Sizes(NamedTuple):
    """Widths; ``span`` (first hidden layer and bias), ``classes`` and ``tall`` (batch) are padded.

    The first layer has ``width`` columns per coefficient, in half vectors: its last vector may
    reach into the next coefficient's columns; what is computed there is overwritten or never read.
    """

    hidden_1: int
    hidden_2: int
    n_classes: int
    width: int
    span: int
    classes: int
    tall: int


class Small(NamedTuple):
    """The layers above the first, flat: nothing is pending, and the last input is the bias."""

    w2: Array  # (L, hidden_2, span), and its velocity
    v2: Array
    decay_2: Array  # (L, span)
    w3: Array  # (L, hidden_2 + 1, classes), its velocity and its decay
    v3: Array
    decay_3: Array


class Work(NamedTuple):
    """Room for a batch: the first layer of all coefficients, and the others of one."""

    z: Array  # (tall, columns + lanes), product with the coefficients, then the gradient there
    hidden: Array  # like z, the first hidden layer
    hidden_1: Array  # (span, tall) flat, the same of one coefficient, batch in the lanes
    hidden_2: Array  # (hidden_2 + 1, tall) flat, the last row one
    logits: Array  # (n_classes, tall + lanes), then their gradient
    padded_logits: Array  # (classes, tall + lanes) flat, the same memory and rows of zeros
    by_class: Array  # (tall, classes) flat, their gradient with classes in the lanes
    gradient_2: Array  # (hidden_2, tall) flat
    gradient_1: Array  # (tall, span) flat


@njit(nogil=True, cache=True)
def train_mlp(
    gram, z0, labels, sizes, probability, target, label, confidence, scratch,
    decays, weight_decay, bias_decay, decay_with_batch,
    key, trial, shuffle, batch, first_epoch, last_epoch, eta, mu, dampening, scale_partial,
    a, e, bias, bias_e, s, s_e, small, clock, work,
):  # fmt: skip
    """Train all coefficients of a group over some epochs, going on from the state given.

    Parameters
    ----------
    gram : (N, N), K = X X'
    z0 : (N, span), X W_0 of the first layer
    probability, confidence : (L, tall + lanes); target : (L, C, tall + lanes); label : (L, 1)
        See :func:`logit_gradient`: one softmax problem per lane, coefficient by coefficient.
    decays : whether anything decays; where nothing does, velocities drift (:mod:`.drift`)
    weight_decay, bias_decay : (columns + lanes,), of the first layer
    decay_with_batch : whether a partial batch scales the decay too (it is part of the loss)
    a, e : (columns / lanes, N, lanes); bias, bias_e, s, s_e : (columns + lanes,)
        First layer: values and pending steps (:mod:`.sweep`).
    clock : (3,), the share of the decay in the pending step, that of the next gradient, and the
        factor of drifting velocities
    """
    n, lanes, number, z = gram.shape[0], lanes_in(a), a.dtype.type, work.z
    decay = np.zeros_like(weight_decay)
    order, words = np.empty(n, np.int64), np.empty(n + 4, np.uint64)
    batch_labels = np.empty(batch, np.int64)
    for epoch in range(first_epoch, last_epoch):
        draw_order(key, trial, epoch, shuffle, order, words)
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
            scale = clock[1] / ((batch if scale_partial else n_rows) * clock[2])
            share = clock[1] * (n_rows / batch if decay_with_batch else 1.0)
            step = eta * number(clock[2])
            for l in range(label.shape[0]):
                _activate(l, rows, n_rows, z0, s, bias, sizes, work)
            for l in range(label.shape[0]):
                _forward(l, n_rows, sizes, small, work)
                logit_gradient(
                    work.logits, batch_labels, n_rows, 1,
                    probability[l], target[l], label[l], confidence[l], scratch,
                )  # fmt: skip
                _rescale(work.padded_logits, scale)
                _backward(l, n_rows, sizes, small, work, decays, share, step, mu)
            scatter(z, rows, n_rows, e)
            add_rows(z, n_rows, bias_e)
            clock[0] = share
            # torch's first gradient enters the velocity undampened.
            clock[1] = 1.0 - dampening
            if clock[2] < _SMALLEST_FACTOR:
                for velocity in (e.ravel(), bias_e, small.v2, small.v3):
                    _rescale(velocity, clock[2])
                clock[2] = 1.0


@njit(nogil=True, cache=True)
def _activate(l, rows, n_rows, z0, s, bias, sizes, work):
    """Write the first hidden layer, a constant one included, from the product with coefficients."""
    z, hidden = work.z, work.hidden
    wide, first, zero = z.shape[1], l * sizes.width, vfill(z, 0.0)
    for i in range(n_rows):
        for at in range(0, sizes.span, lanes_in(z)):
            start = vload(z0, rows[i] * sizes.span + at)
            start = vfma(vload(s, first + at), start, vload(bias, first + at))
            value = vadd(vload(z, i * wide + first + at), start)
            # In this order a NaN stays one.
            vstore(hidden, i * wide + first + at, vmax(zero, value))
        hidden[i, first + sizes.hidden_1] = 1.0


@njit(nogil=True, cache=True)
def _forward(l, n_rows, sizes, small, work):
    """Write the batch's logits, batch in the lanes (the class layout of one coefficient)."""
    lanes, tall, wide = lanes_in(work.z), sizes.tall, work.z.shape[1]
    padded = -(-n_rows // lanes) * lanes
    hidden_1, hidden_2 = matrix(work.hidden_1, 0, tall), matrix(work.hidden_2, 0, tall)
    transpose(matrix(work.hidden.ravel(), l * sizes.width, wide), padded, sizes.span, hidden_1)
    second = factor(small.w2, l * sizes.hidden_2 * sizes.span, sizes.span, 1)
    product(second, hidden_1, hidden_2, sizes.hidden_2, padded, sizes.hidden_1 + 1)
    zero = vfill(work.z, 0.0)
    for at in range(0, sizes.hidden_2 * tall, lanes):
        vstore(work.hidden_2, at, vmax(zero, vload(work.hidden_2, at)))
    third = factor(small.w3, l * (sizes.hidden_2 + 1) * sizes.classes, 1, sizes.classes)
    logits = matrix(work.padded_logits, 0, tall + lanes)
    product(third, hidden_2, logits, sizes.n_classes, padded, sizes.hidden_2 + 1)


@njit(nogil=True, cache=True)
def _backward(l, n_rows, sizes, small, work, decays, share, eta, mu):
    """Take a step of the layers above; write the gradient at the first one's pre-activations."""
    lanes, tall, span, classes = lanes_in(work.z), sizes.tall, sizes.span, sizes.classes
    padded = -(-n_rows // lanes) * lanes
    at_2, at_3 = l * sizes.hidden_2 * span, l * (sizes.hidden_2 + 1) * classes
    gradient_3 = matrix(work.padded_logits, 0, tall + lanes)
    by_class = matrix(work.by_class, 0, classes)
    transpose(gradient_3, classes, padded, by_class)

    # Gradients go down through the weights of this step's forward pass, before these move.
    back_3, gradient_2 = factor(small.w3, at_3, classes, 1), matrix(work.gradient_2, 0, tall)
    product(back_3, gradient_3, gradient_2, sizes.hidden_2, padded, sizes.n_classes)
    for at in range(0, sizes.hidden_2 * tall, lanes):
        value = gate(vload(work.hidden_2, at), vload(work.gradient_2, at))
        vstore(work.gradient_2, at, value)
    back_2, w2 = factor(work.gradient_2, 0, 1, tall), matrix(small.w2, at_2, span)
    product(back_2, w2, matrix(work.gradient_1, 0, span), n_rows, span, sizes.hidden_2)
    _gate_first(l, n_rows, sizes, work)

    descend(
        factor(work.hidden_2, 0, tall, 1), by_class, matrix(small.w3, at_3, classes), small.v3,
        sizes.hidden_2 + 1, classes, n_rows, decays, matrix(small.decay_3, at_3, classes),
        share, eta, mu,
    )  # fmt: skip
    hidden = matrix(work.hidden.ravel(), l * sizes.width, work.hidden.shape[1])
    descend(
        factor(work.gradient_2, 0, tall, 1), hidden, w2, small.v2, sizes.hidden_2, span,
        n_rows, decays, matrix(small.decay_2, l * span, 0), share, eta, mu,
    )  # fmt: skip


@njit(nogil=True, cache=True)
def _gate_first(l, n_rows, sizes, work):
    """Write the gradient at the first layer's pre-activations over its product."""
    z, wide, first = work.z, work.z.shape[1], l * sizes.width
    for i in range(n_rows):
        for at in range(0, sizes.span, lanes_in(z)):
            here = i * wide + first + at
            value = gate(vload(work.hidden, here), vload(work.gradient_1, i * sizes.span + at))
            vstore(z, here, value)
        z[i, first + sizes.hidden_1] = 0.0


@njit(nogil=True, cache=True)
def _rescale(values, scale):
    all_lanes = vfill(values, scale)
    for at in range(0, values.size, lanes_in(values)):
        vstore(values, at, vmul(all_lanes, vload(values, at)))
