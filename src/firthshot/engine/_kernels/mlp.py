"""The published mini-batch SGD of the 3-layer head; only its first layer touches features.

    hidden pre-activations of a batch = s Z_0[I] + K[I, :] A + bias        (as in the linear head)

The two small layers above are dense, one pair per coefficient. Their products never transpose a
weight matrix: with the batch in the lanes of a vector a weight is broadcast, with units in the lanes
it is loaded.

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

import numpy as np
from numba import njit

from firthshot.engine._kernels.dense import descend, gate, product, transpose
from firthshot.engine._kernels.drift import drift
from firthshot.engine._kernels.linear import add_rows, advance, draw_order, scatter
from firthshot.engine._kernels.simd import lanes_in, vadd, vfill, vfma, vload, vmax, vmul, vstore
from firthshot.engine._kernels.softmax import logit_gradient
from firthshot.engine._kernels.sweep import sweep

# Drifting velocities are brought back to scale when their common factor has fallen below this.
_SMALLEST_FACTOR = 1e-9


@njit(nogil=True, cache=True)
def train_mlp(
    gram, z0, labels, n_hidden, width, probability, target, label, confidence, scratch,
    decays, weight_decay, bias_decay, decay_2, decay_3, decay_with_batch,
    key, trial, shuffle, batch, first_epoch, last_epoch, eta, mu, dampening, scale_partial,
    a, e, bias, bias_e, s, s_e, w2, v2, w3, v3, clock,
):  # fmt: skip
    """Train all coefficients of a group over some epochs, going on from the state given.

    The first layer has ``width`` columns per coefficient; its last vector may reach into the next
    coefficient's columns. What is computed there is overwritten or never read.

    Parameters
    ----------
    gram : (N, N), K = X X'
    z0 : (N, span), X W_0 of the first layer; span is n_hidden[0] + 1 rounded up to whole vectors
    n_hidden : widths of the two hidden layers
    probability, confidence : (L, tall); target : (L, C, tall); label : (L, 1); scratch
        See :func:`logit_gradient`: one softmax problem per lane, coefficient by coefficient.
    decays : whether anything decays; where nothing does, velocities drift (:mod:`.drift`)
    weight_decay, bias_decay : (columns + lanes,), of the first layer
    decay_2 : (L, span) and decay_3 : (L, n_hidden[1] + 1, classes), of the layers above
    decay_with_batch : whether a partial batch scales the decay too (it is part of the loss)
    a, e : (columns / lanes, N, lanes); bias, bias_e, s, s_e : (columns + lanes,)
        First layer: values and pending steps (:mod:`.sweep`).
    w2, v2 : (L, n_hidden[1], span), w3, v3 : (L, n_hidden[1] + 1, classes)
        Weights and velocities, nothing pending; the last input is the bias. ``classes`` is padded.
    clock : (3,), the share of the decay in the pending step, that of the next gradient, and the
        factor of drifting velocities
    """
    n, lanes, number = gram.shape[0], lanes_in(a), a.dtype.type
    tall = -(-batch // lanes) * lanes
    decay = np.zeros_like(weight_decay)
    z, hidden = np.zeros((2, tall, bias.size), a.dtype)
    buffers = _buffers(a, w2.shape[2], tall, w3.shape[1], w3.shape[2], target.shape[2])
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
            _activate(z, rows, n_rows, z0, s, bias, n_hidden[0], width, w2.shape[0], hidden)
            scale = clock[1] / ((batch if scale_partial else n_rows) * clock[2])
            share = clock[1] * (n_rows / batch if decay_with_batch else 1.0)
            step = eta * number(clock[2])
            for l in range(w2.shape[0]):
                logits = _forward(hidden, l * width, n_rows, n_hidden, w2, w3, l, target, buffers)
                logit_gradient(
                    logits, batch_labels, n_rows, 1,
                    probability[l], target[l], label[l], confidence[l], scratch,
                )  # fmt: skip
                _backward(
                    hidden, l * width, n_rows, n_hidden, w2, v2, w3, v3, l, target.shape[1], scale,
                    decays, decay_2, decay_3, share, step, mu, buffers, z,
                )  # fmt: skip
            scatter(z, rows, n_rows, e)
            add_rows(z, n_rows, bias_e)
            clock[0] = share
            # torch's first gradient enters the velocity undampened.
            clock[1] = 1.0 - dampening
            if clock[2] < _SMALLEST_FACTOR:
                for velocity in (e.ravel(), bias_e, v2.ravel(), v3.ravel()):
                    _rescale(velocity, clock[2])
                clock[2] = 1.0


@njit(nogil=True, cache=True)
def _buffers(like, span, tall, inputs_3, classes, logit_columns):
    """Return room for one coefficient's activations and gradients, flat."""
    dtype = like.dtype
    hidden_2 = np.zeros((inputs_3, tall), dtype)
    hidden_2[inputs_3 - 1] = 1.0
    return (
        np.zeros(span * tall, dtype),  # first hidden layer, batch in the lanes
        hidden_2.ravel(),  # second hidden layer, batch in the lanes, and the constant input
        np.zeros((classes, logit_columns), dtype),  # logits, then their gradient
        np.zeros(tall * classes, dtype),  # the same gradient, classes in the lanes
        np.zeros(inputs_3 * tall, dtype),  # gradient at the second hidden layer
        np.zeros(tall * span, dtype),  # gradient at the first hidden layer
    )


@njit(nogil=True, cache=True)
def _activate(z, rows, n_rows, z0, s, bias, n_hidden, width, n_coefficients, hidden):
    """Write the first hidden layer, a constant one included, from the product with coefficients."""
    lanes, wide, span = lanes_in(z), z.shape[1], z0.shape[1]
    zero = vfill(z, 0.0)
    for i in range(n_rows):
        for first in range(0, n_coefficients * width, width):
            for at in range(0, span, lanes):
                column = first + at
                start = vfma(vload(s, column), vload(z0, rows[i] * span + at), vload(bias, column))
                value = vadd(vload(z, i * wide + column), start)
                # In this order a NaN stays one.
                vstore(hidden, i * wide + column, vmax(zero, value))
            hidden[i, first + n_hidden] = 1.0


@njit(nogil=True, cache=True)
def _forward(hidden, first, n_rows, n_hidden, w2, w3, l, target, buffers):
    """Return the batch's logits, batch in the lanes (class layout of one coefficient)."""
    hidden_1, hidden_2, logits, _, _, _ = buffers
    span, inputs_3, classes = w2.shape[2], w3.shape[1], w3.shape[2]
    tall, columns, n_classes = hidden_1.size // span, logits.shape[1], target.shape[1]
    padded = -(-n_rows // lanes_in(hidden)) * lanes_in(hidden)
    transpose((hidden.ravel(), first, hidden.shape[1]), padded, span, (hidden_1, 0, tall))
    second = (w2.ravel(), l * n_hidden[1] * span, span, 1)
    product(second, (hidden_1, 0, tall), (hidden_2, 0, tall), n_hidden[1], padded, n_hidden[0] + 1)
    zero = vfill(hidden_2, 0.0)
    for at in range(0, n_hidden[1] * tall, lanes_in(hidden)):
        vstore(hidden_2, at, vmax(zero, vload(hidden_2, at)))
    third = (w3.ravel(), l * inputs_3 * classes, 1, classes)
    product(third, (hidden_2, 0, tall), (logits.ravel(), 0, columns), n_classes, padded, inputs_3)
    return logits[:n_classes]


@njit(nogil=True, cache=True)
def _backward(
    hidden, first, n_rows, n_hidden, w2, v2, w3, v3, l, n_classes, scale,
    decays, decay_2, decay_3, share, eta, mu, buffers, gradient,
):  # fmt: skip
    """Take a step of the layers above; write the gradient at the first one's pre-activations."""
    hidden_1, hidden_2, logits, by_class, gradient_2, gradient_1 = buffers
    lanes, span, inputs_3, classes = lanes_in(hidden), w2.shape[2], w3.shape[1], w3.shape[2]
    tall, wide, columns = hidden_1.size // span, hidden.shape[1], logits.shape[1]
    padded = -(-n_rows // lanes) * lanes
    at_2, at_3 = l * n_hidden[1] * span, l * inputs_3 * classes
    _rescale(logits.ravel(), scale)
    transpose((logits.ravel(), 0, columns), classes, padded, (by_class, 0, classes))
    product(
        (w3.ravel(), at_3, classes, 1), (logits.ravel(), 0, columns), (gradient_2, 0, tall),
        n_hidden[1], padded, n_classes,
    )  # fmt: skip
    for at in range(0, n_hidden[1] * tall, lanes):
        vstore(gradient_2, at, gate(vload(hidden_2, at), vload(gradient_2, at)))
    product(
        (gradient_2, 0, 1, tall), (w2.ravel(), at_2, span), (gradient_1, 0, span),
        n_rows, span, n_hidden[1],
    )  # fmt: skip
    descend(
        (hidden_2, 0, tall, 1), (by_class, 0, classes), (w3.ravel(), at_3, classes), v3.ravel(),
        inputs_3, classes, n_rows, decays, (decay_3.ravel(), at_3, classes), share, eta, mu,
    )  # fmt: skip
    descend(
        (gradient_2, 0, tall, 1), (hidden.ravel(), first, wide), (w2.ravel(), at_2, span),
        v2.ravel(), n_hidden[1], span, n_rows, decays, (decay_2.ravel(), l * span, 0),
        share, eta, mu,
    )  # fmt: skip
    for i in range(n_rows):
        for at in range(0, span, lanes):
            here = i * wide + first + at
            vstore(gradient, here, gate(vload(hidden, here), vload(gradient_1, i * span + at)))
        gradient[i, first + n_hidden[0]] = 0.0


@njit(nogil=True, cache=True)
def _rescale(values, scale):
    factor = vfill(values, scale)
    for at in range(0, values.size, lanes_in(values)):
        vstore(values, at, vmul(factor, vload(values, at)))
