"""The published mini-batch SGD of the linear head, in dual variables A.

    W_t = s_t W_0 + X' A_t,    velocity likewise,    logits of a batch = s Z_0[I] + G[I, :] A + bias

with the Gram matrix G = X X' (`docs/engine.md` derives it). The feature dimension has vanished from
the loop, and a gradient step only adds to the batch's rows of the velocity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array, pad_columns
from firthshot.engine._queries import Projector
from firthshot.engine._trial import Fitted, Trial
from firthshot.engine.sgd.momentum import (
    DECAY_SHARE,
    FACTOR,
    SMALLEST_FACTOR,
    add_gradient,
    draw_order,
    restore_scale,
    take_step,
    tick,
)
from firthshot.engine.sgd.stability import ended
from firthshot.engine.sgd.sweep import Swept
from firthshot.engine.sgd.training import (
    coefficient_groups,
    full_weights,
    make_layer,
    make_task,
    must_decay,
    settled,
    squared_norms,
    train_groups,
    xavier_uniform,
)
from firthshot.kernels import kernel
from firthshot.kernels.softmax import logit_gradient, to_class_layout, to_row_layout
from firthshot.kernels.vectors import lanes_in, vadd, vfma, vload, vstore

if TYPE_CHECKING:
    from firthshot.engine.heads.linear import Linear
    from firthshot.engine.options import Sgd
    from firthshot.objective import PenaltyTables


class SpanStart:
    """A trial's start W_0 (d, C), and the products that all groups of coefficients need."""

    def __init__(self, trial: Trial, weights: Array, n_coefficients: int) -> None:
        self.trial, self.weights = trial, weights
        self.gram, self.logits = trial.support @ trial.support.T, trial.support @ weights
        self.projector = Projector(trial.query, trial.support, weights, n_coefficients)

    def groups(self, n_coefficients: int) -> list[slice]:
        """Return the groups of coefficients that are trained together."""
        values = 2 * len(self.gram) * self.trial.n_classes
        return coefficient_groups(n_coefficients, values * self.trial.dtype.itemsize)

    def columns(self, n_coefficients: int, columns: int) -> Array:
        """Return X W_0 with each class repeated for every coefficient."""
        return pad_columns(np.repeat(self.logits, n_coefficients, axis=1), columns)


class LinearSgd:
    """State of all coefficients of one group during training."""

    def __init__(self, start: SpanStart, sgd: Sgd, form: PenaltyTables) -> None:
        self.start, self.sgd, self.form, self.shape = start, sgd, form, form.target.shape
        self.layer = make_layer(start.trial, form, self.shape[0])
        columns = start.columns(self.shape[1], len(self.layer.s))
        decays = must_decay(form, sgd)
        self.task = make_task(start.trial, sgd, form, start.gram, columns, decays)

    def train(self, first: int, last: int) -> None:
        """Run the passes first … last - 1."""
        train_linear(self.task, self.layer, first, last)

    def finish(self, keep_weights: bool) -> Fitted:
        """Form query logits, the squared norms and, if asked for, the weights."""
        start, used = self.start, self.shape[0] * self.shape[1]
        found = settled(self.layer, self.sgd, self.layer.clock[DECAY_SHARE])
        a, bias, s = (values[..., :used] for values in found)
        squares = squared_norms(a, s, start.gram, start.logits, start.weights) + bias**2
        weights = {}
        if keep_weights:
            coef = full_weights(a, s, start.trial.support, start.weights)
            weights = {"coef": coef, "intercept": bias.reshape(self.shape).T}
        logits = start.projector.logits(a, s, bias)
        own = start.gram @ a + s * start.columns(self.shape[1], used) + bias
        status = ended(own, start.trial.labels, self.form, self.sgd, start.gram)
        return Fitted(logits, squares.reshape(self.shape).sum(0), weights, status)


def begin_linear(trial: Trial, head: Linear, n_coefficients: int) -> SpanStart:
    """Draw the start of a trial."""
    shape = (trial.support.shape[1], trial.n_classes)
    zero = head.start == "zero"
    weights = np.zeros(shape, trial.dtype) if zero else xavier_uniform(trial, 0, *shape)
    return SpanStart(trial, weights, n_coefficients)


def fit_linear(
    trial: Trial, head: Linear, sgd: Sgd, form: PenaltyTables, keep_weights: bool
) -> dict[int, Fitted]:
    """Train the linear head; return what to score by number of passes."""
    start = begin_linear(trial, head, len(form.label))
    groups = start.groups(len(form.label))
    return train_groups(groups, form, sgd, keep_weights, lambda part: LinearSgd(start, sgd, part))


@kernel(allocates=False)
def add_start(z, rows, start, layer):
    """Add ``s · Z_0[I] + bias`` to the batch's product ``z``, all in row layout."""
    lanes, wide, wide0 = lanes_in(z), z.shape[1], start.shape[1]
    for i in range(rows.size):
        for at in range(0, layer.s.size, lanes):
            first = vload(start, rows[i] * wide0 + at)
            value = vfma(vload(layer.s, at), first, vload(layer.bias, at))
            vstore(z, i * wide + at, vadd(vload(z, i * wide + at), value))


@kernel
def train_linear(task, layer, first, last):
    """Train a group of coefficients over the epochs first … last - 1, from the state given.

    Parameters
    ----------
    task : :class:`.momentum.Task`, whose start has each class repeated for every coefficient
    layer : :class:`.momentum.Layer`
    """
    schedule, clock, n, many = task.schedule, layer.clock, task.labels.size, task.n_coefficients
    batch, number = schedule.batch_size, layer.a.dtype.type
    z = np.zeros((batch, layer.s.size + lanes_in(layer.s)), layer.s.dtype)
    logits, decay = np.zeros_like(task.loss.target), np.zeros_like(layer.weight_decay)
    swept = Swept(task.gram, layer.a, layer.velocity, decay, z)
    order, words = np.empty(n, np.int64), np.empty(n + 4, np.uint64)
    for epoch in range(first, last):
        draw_order(schedule.key, schedule.trial, epoch, schedule.shuffle, order, words)
        for begin in range(0, n, batch):
            rows = order[begin : begin + batch]
            take_step(task, layer, swept, rows, number(schedule.learning_rate * clock[FACTOR]))
            if clock[FACTOR] < SMALLEST_FACTOR:
                restore_scale(layer)
            add_start(z, rows, task.start, layer)
            to_class_layout(z, rows.size, many, logits)
            logit_gradient(logits, task.labels, rows, many, task.loss)
            to_row_layout(logits, rows.size, many, tick(schedule, clock, rows.size), z)
            add_gradient(z, rows, layer)
