"""The published mini-batch SGD of the 3-layer head; only its first layer touches features.

    hidden pre-activations of a batch = s Z_0[I] + G[I, :] A + bias        (as in the linear head)

The two small layers above are dense; their matrices hold eight coefficients in every entry
(:mod:`.dense`). Their biases are weights of an input that is always one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from firthshot.arrays import Array
from firthshot.engine._trial import Fitted, Trial
from firthshot.engine.sgd.dense import (
    OCTET,
    Descent,
    OctetMatrix,
    descend,
    gate,
    octet_fma,
    octet_load,
    product,
    rectify,
    transposed,
)
from firthshot.engine.sgd.momentum import (
    DECAY_SHARE,
    FACTOR,
    SMALLEST_FACTOR,
    add_gradient,
    draw_order,
    rescale,
    restore_scale,
    take_step,
    tick,
)
from firthshot.engine.sgd.stability import ended
from firthshot.engine.sgd.sweep import Swept
from firthshot.engine.sgd.training import (
    aligned_zeros,
    even_groups,
    full_weights,
    loss_form,
    make_layer,
    make_task,
    must_decay,
    settled,
    squared_norms,
    train_groups,
    xavier_uniform,
)
from firthshot.kernels import kernel
from firthshot.kernels.softmax import logit_gradient
from firthshot.kernels.vectors import lanes_of, vadd, vstore

if TYPE_CHECKING:
    from firthshot.engine.heads.mlp import Mlp
    from firthshot.engine.options import Sgd
    from firthshot.objective import PenaltyTables


class UpperLayer(NamedTuple):
    """A layer above the first, in octets: steps are taken at once, the last input is the bias."""

    inputs: int  # the bias included
    outputs: int
    weights: OctetMatrix
    velocity: OctetMatrix
    decay: OctetMatrix  # one number per input


class Activations(NamedTuple):
    """Room for a batch: the first layer's columns as vectors, the others as octets."""

    z: Array  # (batch, columns + lanes), product with the dual variables, then the gradient there
    hidden_1: OctetMatrix  # (batch, h0 + 1), the last column one
    hidden_2: OctetMatrix  # (batch, h1 + 1), the last column one
    gradient_1: OctetMatrix  # like hidden_1
    gradient_2: OctetMatrix  # like hidden_2
    logits: Array  # (C, batch · 8 + lanes), then their gradient
    scores: OctetMatrix  # (batch, C), the logits once more


@dataclass(frozen=True)
class MlpStart:
    """The start of a trial, shared by its coefficients, and the products that all of them need."""

    weights: tuple[Array, Array, Array]  # (d, h0), (h0, h1), (h1, C)
    gram: Array  # (N, N)
    z0: Array  # (N, h0), support rows times the first layer
    query_gram: Array | None  # (Q + padding, N), None where the way through weights is shorter
    query_z0: Array | None  # (Q + padding, h0)

    @classmethod
    def draw(cls, trial: Trial, head: Mlp, n_coefficients: int) -> MlpStart:
        """Draw the weights from the trial's stream, one substream per layer."""
        (n, d), q, support = trial.support.shape, len(trial.query), trial.support
        widths = (d, *head.hidden, trial.n_classes)
        shapes = enumerate(pairwise(widths))
        first, second, third = (xavier_uniform(trial, layer, *shape) for layer, shape in shapes)
        weights, gram, z0 = (first, second, third), support @ support.T, support @ first
        columns = head.hidden[0] * n_coefficients
        if q * (n * (d + columns) + d * head.hidden[0]) > columns * d * (n + q):
            return cls(weights, gram, z0, None, None)
        both = trial.query.project(np.concatenate([support, first.T]))
        query_gram, query_z0 = np.ascontiguousarray(both[:, :n]), np.ascontiguousarray(both[:, n:])
        return cls(weights, gram, z0, query_gram, query_z0)


class MlpSgd:
    """State of up to eight coefficients of a trial during training."""

    def __init__(
        self, trial: Trial, start: MlpStart, sgd: Sgd, form: PenaltyTables, decays: bool
    ) -> None:
        self.trial, self.sgd, self.start, self.form = trial, sgd, start, form
        lanes, width = lanes_of(trial.dtype), start.z0.shape[1]
        self.layer = make_layer(trial, form, width, padding=lanes)
        # Fewer than eight coefficients are repeated to fill the octet; nobody reads the copies.
        octet = form.take(np.arange(OCTET) % len(form.label))
        task = make_task(trial, sgd, form, start.gram, start.z0, decays)
        self.task = task._replace(loss=loss_form(octet, sgd.batch_size, trial.dtype))
        self.upper = [_lay_out(weights, octet) for weights in start.weights[1:]]
        self.work = _make_work(self.task.loss.target.shape, start, sgd, len(self.layer.s))

    def train(self, first: int, last: int) -> None:
        """Run the passes first … last - 1."""
        train_mlp(self.task, self.layer, tuple(self.upper), self.work, first, last)

    def finish(self, keep_weights: bool) -> Fitted:
        """Form query logits, squared norms and, if asked for, the weights."""
        # A coefficient that diverged overflows here; its status will say so.
        with np.errstate(over="ignore", invalid="ignore"):
            each = self.settled()
            logits = np.stack([one.query_logits(self.trial, self.start) for one in each])
            norms = np.array([one.squared_norm(self.start) for one in each])
            own = np.stack([one.support_logits(self.start) for one in each], -1)  # (N, C, L)
            status = ended(own, self.trial.labels, self.form, self.sgd)
            weights: dict[str, Array] = {}
            if keep_weights:
                full = [one.full(self.trial, self.start) for one in each]
                weights = {name: np.stack([one[name] for one in full]) for name in full[0]}
        return Fitted(np.ascontiguousarray(logits.transpose(2, 0, 1)), norms, weights, status)

    def settled(self) -> list[MlpParameters]:
        """Return every coefficient's parameters after the pending step of the first layer."""
        size = self.task.n_coefficients
        share = self.trial.dtype.type(self.layer.clock[DECAY_SHARE])
        a, bias, s = settled(self.layer, self.sgd, share)
        dense = [one.weights.flat.reshape(one.inputs, one.outputs, OCTET) for one in self.upper]
        parameters = []
        for l in range(size):
            mine = slice(l, self.start.z0.shape[1] * size, size)
            upper = [part for w in dense for part in (w[:-1, :, l], w[-1, :, l])]
            # Contiguous, because BLAS would copy them in every product.
            own = [np.ascontiguousarray(w) for w in (s[mine], a[:, mine], bias[mine], *upper)]
            parameters.append(MlpParameters(own[0], own[1], own[2], own[3:]))
        return parameters


def _octets(values: Array) -> OctetMatrix:
    """Return an array (rows, columns, 8) as a matrix."""
    return OctetMatrix(values.ravel(), values.shape[1] * OCTET, OCTET)


def _lay_out(weights: Array, octet: PenaltyTables) -> UpperLayer:
    """Put eight copies of a layer's weights side by side, with its bias as the last input."""
    inputs, outputs = weights.shape[0] + 1, weights.shape[1]
    w, v = (aligned_zeros((inputs, outputs, OCTET), weights.dtype) for _ in range(2))
    w[:-1] = weights[:, :, None]
    decay = aligned_zeros((inputs, 1, OCTET), weights.dtype)
    decay[:-1, 0], decay[-1, 0] = octet.weight_decay, octet.bias_decay
    per_input = _octets(decay)._replace(column=0)
    return UpperLayer(inputs, outputs, _octets(w), _octets(v), per_input)


def _make_work(shape: tuple[int, ...], start: MlpStart, sgd: Sgd, columns: int) -> Activations:
    dtype, batch = start.gram.dtype, sgd.batch_size
    widths = [width + 1 for width in start.weights[1].shape]
    hidden = [aligned_zeros((batch, width, OCTET), dtype) for width in (*widths, *widths)]
    for values in hidden[:2]:
        values[:, -1] = 1
    logits = aligned_zeros(shape, dtype)
    z, scores = aligned_zeros((batch, columns), dtype), OctetMatrix(logits.ravel(), OCTET, shape[1])
    hidden_1, hidden_2, gradient_1, gradient_2 = (_octets(values) for values in hidden)
    return Activations(z, hidden_1, hidden_2, gradient_1, gradient_2, logits, scores)


@dataclass(frozen=True)
class MlpParameters:
    """Parameters of one coefficient; the first layer's weights are W_0 s + X' a."""

    s: Array  # (h0,), all alike
    a: Array  # (N, h0)
    bias_1: Array
    upper: list[Array]  # weights (h0, h1), bias, weights (h1, C), bias

    def query_logits(self, trial: Trial, start: MlpStart) -> Array:
        """Return the logits of the query set, (Q + padding, C)."""
        if start.query_gram is None or start.query_z0 is None:
            weights = start.weights[0] * self.s + trial.support.T @ self.a
            hidden = trial.query.project(weights.T)
            hidden += self.bias_1
        else:
            hidden = start.query_gram @ self.a
            hidden += start.query_z0 * self.s + self.bias_1
        return self._above(hidden)

    def support_logits(self, start: MlpStart) -> Array:
        """Return the logits of the support rows, (N, C)."""
        return self._above(start.gram @ self.a + start.z0 * self.s + self.bias_1)

    def _above(self, hidden: Array) -> Array:
        """Return what the upper layers make of the first layer's values, which are overwritten."""
        for weights, bias in zip(self.upper[::2], self.upper[1::2], strict=True):
            hidden = np.maximum(hidden, 0, out=hidden) @ weights
            hidden += bias
        return hidden

    def squared_norm(self, start: MlpStart) -> Any:
        """Return the sum of squares of all parameters."""
        first = squared_norms(self.a, self.s, start.gram, start.z0, start.weights[0]).sum()
        return first + sum((values**2).sum() for values in (self.bias_1, *self.upper))

    def full(self, trial: Trial, start: MlpStart) -> dict[str, Array]:
        """Return weights as (out, in) and biases of the three layers."""
        first = full_weights(self.a, self.s, trial.support, start.weights[0])[0]
        parts = (first.T, self.bias_1, *self.upper)
        names = (f"{what}_{layer}" for layer in (1, 2, 3) for what in ("coef", "intercept"))
        return {name: part.T for name, part in zip(names, parts, strict=True)}


def fit_mlp(
    trial: Trial, head: Mlp, sgd: Sgd, form: PenaltyTables, keep_weights: bool
) -> dict[int, Fitted]:
    """Train the 3-layer head; return what to score by number of passes."""
    start = MlpStart.draw(trial, head, len(form.label))
    # Asked of all coefficients, so that rounding does not depend on how they are grouped.
    decays, groups = must_decay(form, sgd), even_groups(len(form.label), OCTET)
    return train_groups(
        groups, form, sgd, keep_weights, lambda part: MlpSgd(trial, start, sgd, part, decays)
    )


@kernel
def train_mlp(task, layer, upper, work, first, last):
    """Train up to eight coefficients over the epochs first … last - 1, from the state given.

    Parameters
    ----------
    task : :class:`.momentum.Task` whose loss is that of eight coefficients
    layer : :class:`.momentum.Layer`
        The first layer's columns are unit by unit, each for all coefficients; all but ``a`` and
        its velocity end in one vector of padding.
    """
    schedule, clock, n = task.schedule, layer.clock, task.labels.size
    batch, number = schedule.batch_size, layer.a.dtype.type
    decay = np.zeros_like(layer.weight_decay)
    swept = Swept(task.gram, layer.a, layer.velocity, decay, work.z)
    order, words = np.empty(n, np.int64), np.empty(n + 4, np.uint64)
    for epoch in range(first, last):
        draw_order(schedule.key, schedule.trial, epoch, schedule.shuffle, order, words)
        for begin in range(0, n, batch):
            rows = order[begin : begin + batch]
            step = schedule.learning_rate * number(clock[FACTOR])
            take_step(task, layer, swept, rows, step)
            _activate(task, layer, rows, work)
            _forward(rows.size, upper, work)
            logit_gradient(work.logits, task.labels, rows, OCTET, task.loss)
            rescale(work.scores.flat, tick(schedule, clock, rows.size))
            step = schedule.learning_rate * number(clock[FACTOR])
            steps = (number(clock[DECAY_SHARE]), step, schedule.momentum)
            _backward(rows.size, upper, work, task.decays, steps)
            _gate_first(rows.size, task.n_coefficients, work)
            add_gradient(work.z, rows, layer)
            if clock[FACTOR] < SMALLEST_FACTOR:
                factor = restore_scale(layer)
                for dense in upper:
                    rescale(dense.velocity.flat, factor)


@kernel(allocates=False)
def _activate(task, layer, rows, work):
    """Write the first hidden layer from the product with the dual variables.

    Units lie ``n_coefficients`` apart: an octet's numbers past them belong to the next unit, and
    nothing that is read comes of them.
    """
    z, hidden, z0 = work.z, work.hidden_1.flat, task.start
    wide, width = z.shape[1], z0.shape[1]
    for i in range(rows.size):
        for j in range(width):
            at = j * task.n_coefficients
            start = octet_fma(octet_load(layer.s, at), z0[rows[i], j], octet_load(layer.bias, at))
            value = rectify(vadd(octet_load(z, i * wide + at), start))
            vstore(hidden, (i * (width + 1) + j) * OCTET, value)


@kernel(allocates=False)
def _forward(n_rows, upper, work):
    """Write the second hidden layer and the logits (class layout) of the batch."""
    second, third = upper
    product(work.hidden_1, second.weights, work.hidden_2, n_rows, second.outputs, second.inputs)
    hidden = work.hidden_2.flat
    # The constant input is one before and after.
    for at in range(0, n_rows * third.inputs * OCTET, OCTET):
        vstore(hidden, at, rectify(octet_load(hidden, at)))
    product(work.hidden_2, third.weights, work.scores, n_rows, third.outputs, third.inputs)


@kernel(allocates=False)
def _backward(n_rows, upper, work, decays, steps):
    """Write the gradient at the first hidden layer and take a step of the layers above."""
    second, third = upper
    # Gradients go down through the weights of this step's forward pass, before these move.
    back_3, back_2 = transposed(third.weights), transposed(second.weights)
    product(work.scores, back_3, work.gradient_2, n_rows, third.inputs - 1, third.outputs)
    hidden, gradient = work.hidden_2.flat, work.gradient_2.flat
    for at in range(0, n_rows * third.inputs * OCTET, OCTET):
        vstore(gradient, at, gate(octet_load(hidden, at), octet_load(gradient, at)))
    product(work.gradient_2, back_2, work.gradient_1, n_rows, second.inputs - 1, second.outputs)
    _descend(third, work.hidden_2, work.scores, n_rows, decays, steps)
    _descend(second, work.hidden_1, work.gradient_2, n_rows, decays, steps)


@kernel(allocates=False)
def _descend(layer, hidden, gradient, n_rows, decays, steps):
    """Take a step of a layer from its inputs and the gradient at its outputs."""
    share, learning_rate, momentum = steps
    descent = Descent(
        transposed(hidden), gradient, layer.weights, layer.velocity, layer.decay,
        share, learning_rate, momentum,
    )  # fmt: skip
    descend(descent, layer.inputs, layer.outputs, n_rows, decays)


@kernel(allocates=False)
def _gate_first(n_rows, n_coefficients, work):
    """Write the gradient at the first layer's pre-activations over its product.

    What an octet writes past its unit's columns is the next unit's, which is written later.
    """
    z, hidden, gradient = work.z, work.hidden_1.flat, work.gradient_1.flat
    wide, row = z.shape[1], work.hidden_1.row
    for i in range(n_rows):
        for j in range(row // OCTET - 1):
            at = i * row + j * OCTET
            value = gate(octet_load(hidden, at), octet_load(gradient, at))
            vstore(z, i * wide + j * n_coefficients, value)
