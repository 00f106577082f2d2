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

k = 1 − dampening, but 1 at the first step, as in torch. The projections X v and X e of all rows are
carried along in blocks of steps (:mod:`.blocks`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firthshot.arrays import Array, round_up
from firthshot.engine._trial import Fitted, Trial
from firthshot.engine.sgd.blocks import (
    BLOCK_ROWS,
    FARTHEST,
    UNROLLED,
    Projections,
    advance,
    begin_block,
    follow,
    new_record,
    read_gram,
    settle,
    take_rows,
)
from firthshot.engine.sgd.linear import SpanStart
from firthshot.engine.sgd.momentum import draw_order
from firthshot.engine.sgd.stability import ended
from firthshot.engine.sgd.training import (
    aligned_zeros,
    coefficient_groups,
    draw_start,
    full_weights,
    make_task,
    squared_norms,
    train_groups,
)
from firthshot.kernels import kernel
from firthshot.kernels.softmax import logit_gradient, to_class_layout, to_row_layout
from firthshot.kernels.vectors import (
    lanes_above,
    lanes_of,
    vadd,
    vdiv,
    vfill,
    vfma,
    vload,
    vmax,
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
    """What training changes of the directions v and the norms g; (columns,) unless told."""

    p_v: Array  # (panels, N, lanes), X v and X e
    p_e: Array
    a: Array  # (panels, N, lanes), and its velocity
    velocity: Array
    s: Array
    s_velocity: Array
    g: Array
    g_velocity: Array
    v_v: Array  # ‖v‖², and what rounding dropped of it
    v_v_low: Array
    v_e: Array  # ⟨v, e⟩
    e_e: Array  # ‖e‖²
    l2: Array  # factor of v and g in their own gradients
    gradient_share: Array  # (1,), of the next gradient in the velocity


class _Batch(NamedTuple):
    """Room for a batch, of whole groups of `UNROLLED` rows; loops over a group have no end."""

    p_v: Array  # (panels, batch, lanes)
    p_e: Array
    d: Array  # (batch, columns + lanes), row layout: logits, then dLoss/dlogits
    gram: Array  # (batch, batch), G[I, I]
    logits: Array  # (C, batch·L + padding), class layout
    words: Array  # (N + 4,) random


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
        self.start, self.sgd, self.form, self.shape = start, sgd, form, form.target.shape
        dtype, (n_classes, many) = start.trial.dtype, self.shape
        n, used, lanes = len(start.gram), n_classes * many, lanes_of(dtype)
        columns = round_up(used, lanes)
        self.scale = dtype.type(scale)
        self.task = make_task(start.trial, sgd, form, start.gram, start.columns(many, columns))
        panels, batch = columns // lanes, round_up(sgd.batch_size, UNROLLED)
        p_v, p_e, a, velocity = (aligned_zeros((panels, n, lanes), dtype) for _ in range(4))
        p_v[:] = self.task.start.reshape(n, panels, lanes).transpose(1, 0, 2)
        self.record = new_record(self.task.schedule, n, columns)
        rooms = (*[(panels, batch, lanes)] * 2, (batch, columns + lanes), (batch, batch))
        rooms = (*rooms, self.task.loss.target.shape)
        words = np.zeros(n + 4, np.uint64)
        self.work = _Batch(*(*(aligned_zeros(room, dtype) for room in rooms), words))
        numbers = {name: np.zeros(columns, dtype) for name in Directions._fields[4:-1]}
        # Columns of padding are divided by their norm too: any positive number will do.
        for name in ("s", "g", "v_v"):
            numbers[name][:] = 1
        norms = np.sqrt(np.einsum("dc,dc->c", start.weights, start.weights))
        numbers["g"][:used] = np.repeat(norms, many)
        numbers["v_v"][:used] = np.repeat(norms**2, many)
        numbers["l2"][:used] = np.tile(form.weight_decay, n_classes)
        self.state = Directions(p_v, p_e, a, velocity, **numbers, gradient_share=np.ones(1))

    def train(self, first: int, last: int) -> None:
        """Run the passes first … last - 1."""
        train_cosine(self.task, self.state, self.record, self.work, self.scale, first, last)

    def finish(self, keep_weights: bool) -> Fitted:
        """Form query logits σ g ⟨v, x⟩ / ‖v‖, the squared norms and the weights if asked for."""
        start, state, used = self.start, self.state, self.shape[0] * self.shape[1]
        a = state.a.transpose(1, 0, 2).reshape(len(start.gram), -1)[:, :used]
        s, g = state.s[:used], state.g[:used].copy()
        # The squared norms afresh: the carried ones have the loop's rounding in them.
        squares = squared_norms(a, s, start.gram, start.logits, start.weights)
        alpha = self.scale * g / np.sqrt(squares)
        logits = start.projector.logits(alpha * a, alpha * s, np.zeros_like(s))
        weights = {}
        if keep_weights:
            v = full_weights(a, s, start.trial.support, start.weights)
            weights = {"v": v, "g": g.reshape(self.shape).T}
        norms = (squares + g**2).reshape(self.shape).sum(0)
        own = alpha * (start.gram @ a + s * start.columns(self.shape[1], used))
        status = ended(own, start.trial.labels, self.form, self.sgd)
        return Fitted(logits, norms, weights, status)


def fit_cosine(
    trial: Trial, head: Cosine, sgd: Sgd, form: PenaltyTables, keep_weights: bool
) -> dict[int, Fitted]:
    """Train the cosine head; return what to score by number of passes."""
    unit = replace(trial, support=unit_rows(trial.support), query=trial.query.unit())
    start = SpanStart(unit, linear_layer_start(trial), len(form.label))
    scale = head.scale_for(trial.n_classes)
    # The gradients of a block are read for every few rows, beside as many projections.
    row_bytes = trial.n_classes * trial.dtype.itemsize
    groups = coefficient_groups(len(form.label), 2 * BLOCK_ROWS * row_bytes)
    return train_groups(
        groups, form, sgd, keep_weights, lambda part: CosineSgd(start, scale, sgd, part)
    )


@kernel(allocates=False)
def _write_logits(state, scale, n_rows, work):
    """Write the batch's logits from its projections."""
    p_v, d = work.p_v, work.d
    (panels, batch, lanes), wide = p_v.shape, d.shape[1]
    for panel in range(panels):
        at = panel * lanes
        norm = vsqrt(vload(state.v_v, at))
        alpha = vdiv(vmul(vfill(d, scale), vload(state.g, at)), norm)
        for first in range(0, n_rows, UNROLLED):
            for i in range(first, first + UNROLLED):
                vstore(d, i * wide + at, vmul(alpha, vload(p_v, (panel * batch + i) * lanes)))


@kernel(allocates=False)
def _clear_rest(gram, rows, work):
    """Write G[I, I], and zeros to the rows of D that a batch leaves of its groups."""
    for i in range(rows.size):
        for j in range(rows.size):
            work.gram[i, j] = gram[rows[i], rows[j]]
    for i in range(rows.size, len(work.d)):
        work.d[i] = 0.0


@kernel(allocates=False, inline="always")
def _correlate(n_rows, work, panel):
    """Return ⟨D, p_v⟩, ⟨D, p_e⟩ and D'G[I, I]D for the columns of a panel."""
    p_v, p_e, d, gram = work.p_v, work.p_e, work.d, work.gram
    (_, batch, lanes), wide = p_v.shape, d.shape[1]
    with_v, with_e, quadratic = vfill(d, 0.0), vfill(d, 0.0), vfill(d, 0.0)
    for first in range(0, n_rows, UNROLLED):
        for i in range(first, first + UNROLLED):
            mine, place = vload(d, i * wide + panel * lanes), (panel * batch + i) * lanes
            with_v = vfma(mine, vload(p_v, place), with_v)
            with_e = vfma(mine, vload(p_e, place), with_e)
            spread = vfill(d, 0.0)
            for other in range(0, n_rows, UNROLLED):
                for j in range(other, other + UNROLLED):
                    weight = vfill(d, gram[i, j])
                    spread = vfma(weight, vload(d, j * wide + panel * lanes), spread)
            quadratic = vfma(mine, spread, quadratic)
    return with_v, with_e, quadratic


@kernel(allocates=False, inline="always")
def _step(task, state, scale, rows, work, record, step, begin, power):
    """Take the step of g, update the scalars, record the step of v.

    Return whether it took φ far from 1, which only the first step of a block may.
    """
    d, gradients = work.d, record.gradients
    schedule, wide, (panels, _, lanes) = task.schedule, d.shape[1], record.decays.shape
    l2_share = rows.size / schedule.batch_size if schedule.decay_with_batch else 1.0
    k, one, two = vfill(d, state.gradient_share[0]), vfill(d, 1.0), vfill(d, 2.0)
    rate, momentum = vfill(d, schedule.learning_rate), vfill(d, schedule.momentum)
    farthest = vfill(d, 0.0)
    for panel in range(panels):
        at = panel * lanes
        with_v, with_e, quadratic = _correlate(rows.size, work, panel)
        vv, ve, ee = vload(state.v_v, at), vload(state.v_e, at), vload(state.e_e, at)
        inverse, g = vdiv(one, vsqrt(vv)), vload(state.g, at)
        l2 = vmul(vfill(d, l2_share), vload(state.l2, at))
        scaled = vmul(vfill(d, scale), inverse)
        q, alpha = vmul(scaled, with_v), vmul(scaled, g)
        beta = vsub(l2, vmul(vmul(g, q), vmul(inverse, inverse)))
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
        g_speed = vfma(k, vfma(l2, g, q), vload(state.g_velocity, at))
        vstore(state.g, at, vsub(g, vmul(rate, g_speed)))
        vstore(state.g_velocity, at, vmul(momentum, g_speed))
        weight, off = follow(schedule, record, panel, step, begin, vmul(k, beta), power)
        farthest, weight = vmax(off, farthest), vmul(weight, vmul(k, alpha))
        place = (panel * record.decays.shape[1] + step) * record.batch * lanes
        for i in range(rows.size):
            vstore(gradients, place + i * lanes, vmul(weight, vload(d, i * wide + at)))
    return lanes_above(farthest, vfill(d, FARTHEST**2)) != 0


@kernel(allocates=False)
def train_cosine(task, state, record, work, scale, first, last):
    """Train a group of coefficients over the epochs first … last - 1, from the state given.

    Parameters
    ----------
    task : :class:`.momentum.Task` of unit rows
    state : Directions
    record : :class:`.blocks.Record`, room for an epoch; work : _Batch
    scale : σ
    """
    gram, schedule, n, many = task.gram, task.schedule, task.labels.size, task.n_coefficients
    batch, n_steps = schedule.batch_size, record.decays.shape[1]
    logits = work.logits
    whole, mine = Projections(state.p_v, state.p_e), Projections(work.p_v, work.p_e)
    for epoch in range(first, last):
        draw_order(schedule.key, schedule.trial, epoch, schedule.shuffle, record.order, work.words)
        begin, power = 0, 1.0
        read_gram(gram, record, begin)
        for step in range(n_steps):
            if step == begin + record.longest:
                advance(record, begin, step - begin, record.gram, n, whole)
                begin, power = step, 1.0
                read_gram(gram, record, begin)
            rows = record.order[step * batch : (step + 1) * batch]
            take_rows(record, rows, step - begin, whole, mine)
            advance(record, begin, step - begin, record.mine, rows.size, mine)
            _write_logits(state, scale, rows.size, work)
            to_class_layout(work.d, rows.size, many, logits)
            logit_gradient(logits, task.labels, rows, many, task.loss)
            divisor = batch if schedule.scale_partial else rows.size
            to_row_layout(logits, rows.size, many, 1.0 / divisor, work.d)
            _clear_rest(gram, rows, work)
            far = _step(task, state, scale, rows, work, record, step, begin, power)
            state.gradient_share[0] = 1.0 - schedule.dampening
            if far and step > begin:
                advance(record, begin, step - begin, record.gram, n, whole)
                begin_block(schedule, record, step, power)
                begin, power = step, 1.0
                read_gram(gram, record, begin)
            record.begins[step] = begin
            power *= schedule.momentum
        advance(record, begin, n_steps - begin, record.gram, n, whole)
        settle(schedule, record, state.a, state.velocity, state.s, state.s_velocity)
