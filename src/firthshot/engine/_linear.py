"""The linear head under the published SGD: prepare a trial, run the kernel, form query logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._kernels.linear import train_linear
from firthshot.engine._kernels.momentum import Layer, settle
from firthshot.engine._queries import Projector, round_up
from firthshot.engine._sgd import (
    KernelForm,
    coefficient_groups,
    full_weights,
    must_decay,
    schedule_of,
    squared_norms,
    train_groups,
    xavier_uniform,
)
from firthshot.engine._trial import Fitted, Trial, pad_columns
from firthshot.engine.options import Linear, Sgd
from firthshot.kernels.vectors import lanes_of
from firthshot.objective import PenaltyTables

Array = npt.NDArray[Any]


class LinearSgd:
    """State of all coefficients of one group during training."""

    def __init__(self, trial: Trial, sgd: Sgd, form: PenaltyTables, gram: Array, z0: Array) -> None:
        self.trial, self.sgd, self.form = trial, sgd, form
        self.n_coefficients = len(form.label)
        self.decays = must_decay(form, sgd)
        dtype, lanes = trial.dtype, lanes_of(trial.dtype)
        self.used = trial.n_classes * self.n_coefficients
        columns = round_up(self.used, lanes)
        self.gram, self.z0 = gram, pad_columns(np.repeat(z0, self.n_coefficients, axis=1), columns)
        self.kernel_form = KernelForm.lay_out(form, sgd.batch_size, dtype)
        self.weight_decay = self._per_column(form.weight_decay, columns)
        self.bias_decay = self._per_column(form.bias_decay, columns)
        self.a, self.e = (np.zeros((columns // lanes, len(gram), lanes), dtype) for _ in range(2))
        self.bias, self.bias_e, self.s_e = (np.zeros(columns, dtype) for _ in range(3))
        self.s, self.clock = np.ones(columns, dtype), np.array([0.0, 1.0, 1.0])

    def _per_column(self, values: Array, columns: int) -> Array:
        return pad_columns(np.tile(values, self.trial.n_classes).astype(self.trial.dtype), columns)

    def train(self, first: int, last: int) -> None:
        """Run the passes first … last - 1."""
        trial = self.trial
        layer = Layer(
            self.a, self.e, self.bias, self.bias_e, self.s, self.s_e,
            self.weight_decay, self.bias_decay,
        )  # fmt: skip
        train_linear(
            self.gram, self.z0, trial.labels, trial.n_classes, self.n_coefficients,
            self.kernel_form, self.decays, layer, schedule_of(trial, self.sgd, self.form),
            self.clock, first, last,
        )  # fmt: skip

    def settled(self) -> tuple[Array, Array, Array]:
        """Return coefficients (N, C·L), bias (C·L,) and s (C·L,) after the pending step."""
        share, factor = self.clock[0], self.clock[2]  # the factor is 1 where anything decays
        eta, used = self.trial.dtype.type(factor * self.sgd.learning_rate), self.used
        a = settle(self.a, self.e, self.weight_decay, share, eta)[:, :used]
        bias = self.bias - eta * (self.bias_e + share * self.bias_decay * self.bias)
        s = self.s - eta * (self.s_e + share * self.weight_decay * self.s)
        return a, bias[:used].astype(a.dtype), s[:used].astype(a.dtype)


def fit_linear(
    trial: Trial, head: Linear, sgd: Sgd, form: PenaltyTables, keep_weights: bool
) -> dict[int, Fitted]:
    """Train the linear head; return what to score by number of passes."""
    n, d = trial.support.shape
    if head.start == "zero":
        start = np.zeros((d, trial.n_classes), trial.dtype)
    else:
        start = xavier_uniform(trial, 0, d, trial.n_classes)
    projector = Projector(trial.query, trial.support, start, len(form.label))
    gram, z0 = trial.support @ trial.support.T, trial.support @ start
    state_bytes = 2 * n * trial.n_classes * trial.dtype.itemsize
    return train_groups(
        coefficient_groups(len(form.label), state_bytes),
        form,
        sgd,
        lambda part: LinearSgd(trial, sgd, part, gram, z0),
        lambda state: _finish(trial, state, z0, start, projector, keep_weights),
    )


def _finish(
    trial: Trial,
    state: LinearSgd,
    z0: Array,
    start: Array,
    projector: Projector,
    keep_weights: bool,
) -> Fitted:
    """Form query logits, the squared norms and, if asked for, the weights."""
    a, bias, s = state.settled()
    shape = (trial.n_classes, state.n_coefficients)
    squares = squared_norms(a, s, state.gram, z0, start) + bias**2
    weights = {}
    if keep_weights:
        coef = full_weights(a, s, trial.support, start)
        weights = {"coef": coef, "intercept": bias.reshape(shape).T}
    logits = projector.logits(a, s, bias).reshape(*shape, -1)
    return Fitted(logits, squares.reshape(shape).sum(0), weights)
