"""The cosine head under the published SGD: prepare a trial, run the kernel, form query logits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._kernels import cosine as kernel
from firthshot.engine._kernels.momentum import settle
from firthshot.engine._queries import Projector, round_up
from firthshot.engine._sgd import (
    KernelForm,
    coefficient_groups,
    draw_start,
    full_weights,
    schedule_of,
    squared_norms,
    train_groups,
)
from firthshot.engine._trial import Fitted, Trial, pad_columns
from firthshot.engine.options import Cosine, Sgd
from firthshot.kernels.vectors import lanes_of
from firthshot.objective import PenaltyTables, cosine_scale

Array = npt.NDArray[Any]


def scale_of(head: Cosine, n_classes: int) -> float:
    """Return the factor of the cosines: the head's own, or the published one."""
    return head.scale if head.scale is not None else cosine_scale(n_classes)


def unit_rows(rows: Array) -> Array:
    """Return x / (‖x‖ + 1e-5) for every row."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows)) + rows.dtype.type(1e-5)
    return np.asarray(rows / norms[:, None])


def linear_layer_start(trial: Trial) -> Array:
    """Draw v_0 (d, C) like a linear layer's default, uniform ± 1/√d."""
    d = trial.support.shape[1]
    return draw_start(trial, 0, d, trial.n_classes, 1 / np.sqrt(d))


class CosineSgd:
    """State of all coefficients of one group during training."""

    def __init__(
        self,
        trial: Trial,
        head: Cosine,
        sgd: Sgd,
        form: PenaltyTables,
        gram: Array,
        p0: Array,
        norms: Array,
    ) -> None:
        self.trial, self.sgd, self.form, self.gram = trial, sgd, form, gram
        self.n_coefficients = len(form.label)
        self.used = trial.n_classes * self.n_coefficients
        dtype, lanes = trial.dtype, lanes_of(trial.dtype)
        columns = round_up(self.used, lanes)
        self.scale = dtype.type(scale_of(head, trial.n_classes))
        self.p0 = pad_columns(np.repeat(p0, self.n_coefficients, axis=1), columns)
        self.kernel_form = KernelForm.lay_out(form, sgd.batch_size, dtype)
        self.a, self.e = (np.zeros((columns // lanes, len(gram), lanes), dtype) for _ in range(2))
        self.table = np.zeros((kernel.COLUMN_NUMBERS, columns), dtype)
        self.table[kernel.S] = 1
        # Columns of padding are divided by their norm too: any positive number will do.
        self.table[[kernel.G, kernel.V_V]] = 1
        self.table[kernel.G, : self.used] = np.repeat(norms, self.n_coefficients)
        self.table[kernel.V_V, : self.used] = np.repeat(norms**2, self.n_coefficients)
        self.table[kernel.L2, : self.used] = np.tile(form.weight_decay, trial.n_classes)
        self.clock = np.ones(1)

    def train(self, first: int, last: int) -> None:
        """Run the passes first … last - 1."""
        trial = self.trial
        kernel.train_cosine(
            self.gram, self.p0, trial.labels, trial.n_classes, self.n_coefficients, self.scale,
            self.kernel_form, self.a, self.e, self.table, schedule_of(trial, self.sgd, self.form),
            self.clock, first, last,
        )  # fmt: skip

    def settled(self) -> tuple[Array, Array, Array]:
        """Return coefficients (N, C·L), s (C·L,) and g (C·L,) after the pending step."""
        eta, used, table = self.trial.dtype.type(self.sgd.learning_rate), self.used, self.table
        a = settle(self.a, self.e, table[kernel.DECAY], 1.0, eta)[:, :used]
        velocity = table[kernel.S_PENDING] + table[kernel.DECAY] * table[kernel.S]
        return a, (table[kernel.S] - eta * velocity)[:used], table[kernel.G, :used].copy()


def fit_cosine(
    trial: Trial, head: Cosine, sgd: Sgd, form: PenaltyTables, keep_weights: bool
) -> dict[int, Fitted]:
    """Train the cosine head; return what to score by number of passes."""
    support, start = unit_rows(trial.support), linear_layer_start(trial)
    unit = replace(trial, support=support, query=trial.query.unit())
    projector = Projector(unit.query, support, start, len(form.label))
    n, gram, p0 = len(support), support @ support.T, support @ start
    norms = np.sqrt(np.einsum("dc,dc->c", start, start))
    state_bytes = 2 * n * trial.n_classes * trial.dtype.itemsize
    return train_groups(
        coefficient_groups(len(form.label), state_bytes),
        form,
        sgd,
        lambda part: CosineSgd(unit, head, sgd, part, gram, p0, norms),
        lambda state: _finish(unit, state, p0, start, projector, keep_weights),
    )


def _finish(
    trial: Trial,
    state: CosineSgd,
    p0: Array,
    start: Array,
    projector: Projector,
    keep_weights: bool,
) -> Fitted:
    """Form query logits σ g ⟨v, x⟩ / ‖v‖, the squared norms and, if asked for, the weights."""
    shape = (trial.n_classes, state.n_coefficients)
    a, s, g = state.settled()
    # The squared norms afresh: the carried ones have the loop's rounding in them.
    squares = squared_norms(a, s, state.gram, p0, start)
    alpha = state.scale * g / np.sqrt(squares)
    logits = projector.logits(alpha * a, alpha * s, np.zeros_like(s)).reshape(*shape, -1)
    weights = {}
    if keep_weights:
        v = full_weights(a, s, trial.support, start)
        weights = {"v": v, "g": g.reshape(shape).T}
    return Fitted(logits, (squares + g**2).reshape(shape).sum(0), weights)
