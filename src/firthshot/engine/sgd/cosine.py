"""The published SGD of the cosine head, with nothing of the features' size left in the loop.

Logits are σ g ⟨v, x⟩ / ‖v‖ with unit x, and both g and v are trained. Per class and coefficient

    v = s v_0 + X'a        e = s_e v_0 + X'velocity        (e: momentum times the velocity of v)

and the scalars ‖v‖², ⟨v, e⟩ and ‖e‖² are carried along. On a batch I, with D = dLoss/dlogits,

    p_v = X_I v,   p_e = X_I e,   q = σ Σ_i D_i p_v,i / ‖v‖
    gradient of g:  q + w g
    gradient of v:  h = α X_I'D + β v   with   α = σ g / ‖v‖,   β = w − g q / ‖v‖²

so h is known through D, α and β alone, and its products with v, e and itself through p_v, p_e and
G[I, I], G = X X'. The scalars then follow from

    velocity = e + k h,   v ← v − η velocity,   e ← μ velocity,

k = 1 − dampening, but 1 at the first step, as in torch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firthshot.arrays import Array, round_up
from firthshot.engine._trial import Fitted, Trial
from firthshot.engine.sgd.linear import SpanStart
from firthshot.engine.sgd.momentum import advance, apply_pending_step, draw_order
from firthshot.engine.sgd.sweep import Swept, sweep_with_velocity
from firthshot.engine.sgd.training import (
    draw_start,
    full_weights,
    make_task,
    squared_norms,
    train_groups,
)
from firthshot.kernels import kernel
from firthshot.kernels.softmax import logit_gradient, to_class_layout, to_row_layout
from firthshot.kernels.vectors import (
    lanes_in,
    lanes_of,
    vadd,
    vdiv,
    vfill,
    vfma,
    vload,
    vmul,
    vsqrt,
    vstore,
    vsub,
)

if TYPE_CHECKING:
    from firthshot.engine.heads.cosine import Cosine
    from firthshot.engine.options import Sgd
    from firthshot.objective import PenaltyTables


class Directions(NamedTuple):
    """What training changes of the directions v and the norms g; all but ``a`` are (columns,)."""

    a: Array  # (blocks, N, lanes), and its velocity
    velocity: Array
    s: Array
    s_velocity: Array
    g: Array
    g_velocity: Array
    decay: Array  # factor of v in its own pending step
    v_v: Array  # ‖v‖², and what rounding dropped of it
    v_v_low: Array
    v_e: Array  # ⟨v, e⟩
    e_e: Array  # ‖e‖²
    l2: Array  # factor of v and g in their own gradients
    gradient_share: Array  # (1,), of the next gradient in the velocity


class _Batch(NamedTuple):
    """Room for a batch in row layout, (batch, columns + lanes)."""

    p_v: Array
    p_e: Array
    d: Array  # logits, then dLoss/dlogits


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

    def __init__(self, start: SpanStart, scale: float, sgd: Sgd, form: PenaltyTables) -> None:
        self.start, self.sgd, self.shape = start, sgd, form.target.shape
        dtype, (n_classes, many) = start.trial.dtype, self.shape
        used, lanes = n_classes * many, lanes_of(dtype)
        columns = round_up(used, lanes)
        self.scale = dtype.type(scale)
        self.task = make_task(start.trial, sgd, form, start.gram, start.columns(many, columns))
        a, velocity = (np.zeros((columns // lanes, len(start.gram), lanes), dtype) for _ in "ab")
        numbers = {name: np.zeros(columns, dtype) for name in Directions._fields[2:-1]}
        # Columns of padding are divided by their norm too: any positive number will do.
        for name in ("s", "g", "v_v"):
            numbers[name][:] = 1
        norms = np.sqrt(np.einsum("dc,dc->c", start.weights, start.weights))
        numbers["g"][:used] = np.repeat(norms, many)
        numbers["v_v"][:used] = np.repeat(norms**2, many)
        numbers["l2"][:used] = np.tile(form.weight_decay, n_classes)
        self.state = Directions(a, velocity, **numbers, gradient_share=np.ones(1))

    def train(self, first: int, last: int) -> None:
        """Run the passes first … last - 1."""
        train_cosine(self.task, self.state, self.scale, first, last)

    def finish(self, keep_weights: bool) -> Fitted:
        """Form query logits σ g ⟨v, x⟩ / ‖v‖, the squared norms and the weights if asked for."""
        start, state, used = self.start, self.state, self.shape[0] * self.shape[1]
        eta = start.trial.dtype.type(self.sgd.learning_rate)
        a = apply_pending_step(state.a, state.velocity, state.decay, 1.0, eta)[:, :used]
        s = (state.s - eta * (state.s_velocity + state.decay * state.s))[:used]
        g = state.g[:used].copy()
        # The squared norms afresh: the carried ones have the loop's rounding in them.
        squares = squared_norms(a, s, start.gram, start.logits, start.weights)
        alpha = self.scale * g / np.sqrt(squares)
        logits = start.projector.logits(alpha * a, alpha * s, np.zeros_like(s))
        weights = {}
        if keep_weights:
            v = full_weights(a, s, start.trial.support, start.weights)
            weights = {"v": v, "g": g.reshape(self.shape).T}
        norms = (squares + g**2).reshape(self.shape).sum(0)
        return Fitted(logits.reshape(*self.shape, -1), norms, weights)


def fit_cosine(
    trial: Trial, head: Cosine, sgd: Sgd, form: PenaltyTables, keep_weights: bool
) -> dict[int, Fitted]:
    """Train the cosine head; return what to score by number of passes."""
    unit = replace(trial, support=unit_rows(trial.support), query=trial.query.unit())
    start = SpanStart(unit, linear_layer_start(trial), len(form.label))
    scale, groups = head.scale_for(trial.n_classes), start.groups(len(form.label))
    return train_groups(
        groups, form, sgd, keep_weights, lambda part: CosineSgd(start, scale, sgd, part)
    )


@kernel
def _project(task, state, scale, rows, work):
    """Complete p_v and p_e by the start's share, and write the batch's logits (row layout)."""
    p_v, p_e, d = work
    start, lanes, wide = task.start, lanes_in(d), d.shape[1]
    for at in range(0, state.s.size, lanes):
        s, s_velocity = vload(state.s, at), vload(state.s_velocity, at)
        norm = vsqrt(vload(state.v_v, at))
        alpha = vdiv(vmul(vfill(d, scale), vload(state.g, at)), norm)
        for i in range(rows.size):
            first = vload(start, rows[i] * start.shape[1] + at)
            along = vfma(s, first, vload(p_v, i * wide + at))
            vstore(p_v, i * wide + at, along)
            vstore(p_e, i * wide + at, vfma(s_velocity, first, vload(p_e, i * wide + at)))
            vstore(d, i * wide + at, vmul(alpha, along))


@kernel
def _correlate(gram, rows, work, at):
    """Return ⟨D, p_v⟩, ⟨D, p_e⟩ and D'G[I, I]D for the columns at ``at``."""
    p_v, p_e, d = work
    wide = d.shape[1]
    with_v, with_e, quadratic = vfill(d, 0.0), vfill(d, 0.0), vfill(d, 0.0)
    for i in range(rows.size):
        mine = vload(d, i * wide + at)
        with_v = vfma(mine, vload(p_v, i * wide + at), with_v)
        with_e = vfma(mine, vload(p_e, i * wide + at), with_e)
        spread = vfill(d, 0.0)
        for j in range(rows.size):
            spread = vfma(vfill(d, gram[rows[i], rows[j]]), vload(d, j * wide + at), spread)
        quadratic = vfma(mine, spread, quadratic)
    return with_v, with_e, quadratic


@kernel
def _step(task, state, scale, rows, work, l2_share):
    """Take the step of g, hand the step of v over to the next sweep, and update the scalars."""
    d, velocity, schedule = work.d, state.velocity, task.schedule
    lanes, n, wide = lanes_in(d), velocity.shape[1], d.shape[1]
    k, two = vfill(d, state.gradient_share[0]), vfill(d, 2.0)
    rate, momentum = vfill(d, schedule.learning_rate), vfill(d, schedule.momentum)
    for at in range(0, state.s.size, lanes):
        with_v, with_e, quadratic = _correlate(task.gram, rows, work, at)
        vv, ve, ee = vload(state.v_v, at), vload(state.v_e, at), vload(state.e_e, at)
        norm, g = vsqrt(vv), vload(state.g, at)
        l2 = vmul(vfill(d, l2_share), vload(state.l2, at))
        q = vdiv(vmul(vfill(d, scale), with_v), norm)
        alpha = vdiv(vmul(vfill(d, scale), g), norm)
        beta = vsub(l2, vdiv(vmul(g, q), vv))
        hv = vfma(alpha, with_v, vmul(beta, vv))
        he = vfma(alpha, with_e, vmul(beta, ve))
        hh = vmul(vmul(alpha, alpha), quadratic)
        hh = vadd(hh, vmul(beta, vfma(vmul(two, alpha), with_v, vmul(beta, vv))))
        speed2 = vfma(vmul(k, k), hh, vfma(vmul(two, k), he, ee))
        v_speed = vfma(k, hv, ve)
        change = vmul(rate, vsub(vmul(rate, speed2), vmul(two, v_speed)))
        # ‖v‖² is a long sum of small changes: keep what rounding drops (Kahan).
        change = vadd(change, vload(state.v_v_low, at))
        total = vadd(vv, change)
        vstore(state.v_v_low, at, vsub(change, vsub(total, vv)))
        vstore(state.v_v, at, total)
        vstore(state.v_e, at, vmul(momentum, vsub(v_speed, vmul(rate, speed2))))
        vstore(state.e_e, at, vmul(vmul(momentum, momentum), speed2))
        vstore(state.decay, at, vmul(k, beta))
        g_speed = vfma(k, vfma(l2, g, q), vload(state.g_velocity, at))
        vstore(state.g, at, vsub(g, vmul(rate, g_speed)))
        vstore(state.g_velocity, at, vmul(momentum, g_speed))
        weight = vmul(k, alpha)
        for i in range(rows.size):
            cell = (at // lanes * n + rows[i]) * lanes
            vstore(velocity, cell, vfma(weight, vload(d, i * wide + at), vload(velocity, cell)))


@kernel
def train_cosine(task, state, scale, first, last):
    """Train a group of coefficients over the epochs first … last - 1, from the state given.

    Parameters
    ----------
    task : :class:`.momentum.Task` of unit rows; its start is X v_0, repeated for every coefficient
    state : Directions
        As for the linear head, the last step of v is still pending at the end; g and the scalars
        are those after it.
    scale : σ
    """
    schedule, n, many = task.schedule, task.labels.size, task.n_coefficients
    batch, rate, momentum = schedule.batch_size, schedule.learning_rate, schedule.momentum
    p_v = np.zeros((batch, state.s.size + lanes_in(state.s)), state.s.dtype)
    p_e, d, logits = np.zeros_like(p_v), np.zeros_like(p_v), np.zeros_like(task.loss.target)
    work = _Batch(p_v, p_e, d)
    swept = Swept(task.gram, state.a, state.velocity, state.decay, p_v, p_e)
    order, words = np.empty(n, np.int64), np.empty(n + 4, np.uint64)
    for epoch in range(first, last):
        draw_order(schedule.key, schedule.trial, epoch, schedule.shuffle, order, words)
        for begin in range(0, n, batch):
            rows = order[begin : begin + batch]
            sweep_with_velocity(swept, rows, rate, momentum)
            advance(state.s, state.s_velocity, state.decay, 1.0, rate, momentum)
            _project(task, state, scale, rows, work)
            to_class_layout(d, rows.size, many, logits)
            logit_gradient(logits, task.labels, rows, many, task.loss)
            divisor = batch if schedule.scale_partial else rows.size
            to_row_layout(logits, rows.size, many, 1.0 / divisor, d)
            l2_share = rows.size / batch if schedule.decay_with_batch else 1.0
            _step(task, state, scale, rows, work, l2_share)
            state.gradient_share[0] = 1.0 - schedule.dampening
