"""The published SGD of the cosine head, with nothing of the features' size left in the loop.

Logits are σ g ⟨v, x⟩ / ‖v‖ with unit x, and both g and v are trained. Per class and coefficient

    v = s v_0 + X'a        e = s_e v_0 + X'e_coefficients        (e: momentum times velocity)

and the scalars ‖v‖², ⟨v, e⟩ and ‖e‖² are carried along. On a batch I, with D = dLoss/dlogits,

    p_v = X_I v,   p_e = X_I e,   q = σ Σ_i D_i p_v,i / ‖v‖
    gradient of g:  q + w g
    gradient of v:  h = α X_I'D + β v   with   α = σ g / ‖v‖,   β = w − g q / ‖v‖²

so h is known through D, α and β alone, and its products with v, e and itself through p_v, p_e and
K[I, I]. The scalars then follow from  velocity = e + k h,  v ← v − η velocity,  e ← μ velocity
(k = 1 − dampening, but 1 at the first step, as in torch).
"""

from __future__ import annotations

import numpy as np

from firthshot.engine._kernels.momentum import advance, draw_order
from firthshot.engine._kernels.sweep import sweep_with_velocity
from firthshot.kernels import kernel
from firthshot.kernels.softmax import logit_gradient, to_class_layout, to_row_layout
from firthshot.kernels.vectors import (
    lanes_in,
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

# Rows of the table of per-column numbers.
G, G_PENDING, S, S_PENDING, DECAY, V_V, V_V_LOW, V_E, E_E, L2 = range(10)
COLUMN_NUMBERS = 10


@kernel
def _project(z, ze, rows, n_rows, p0, table, scale, logits):
    """Complete p_v and p_e by the start's share, and write the batch's logits (row layout)."""
    lanes, wide = lanes_in(z), z.shape[1]
    for at in range(0, table.shape[1], lanes):
        s, s_pending = vload(table[S], at), vload(table[S_PENDING], at)
        norm = vsqrt(vload(table[V_V], at))
        alpha = vdiv(vmul(vfill(z, scale), vload(table[G], at)), norm)
        for i in range(n_rows):
            start = vload(p0, rows[i] * p0.shape[1] + at)
            along = vfma(s, start, vload(z, i * wide + at))
            vstore(z, i * wide + at, along)
            vstore(ze, i * wide + at, vfma(s_pending, start, vload(ze, i * wide + at)))
            vstore(logits, i * wide + at, vmul(alpha, along))


@kernel
def _correlate(gram, rows, n_rows, d, z, ze, at):
    """Return ⟨D, p_v⟩, ⟨D, p_e⟩ and D'K[I, I]D for the columns at ``at``."""
    wide = d.shape[1]
    with_v, with_e, quadratic = vfill(d, 0.0), vfill(d, 0.0), vfill(d, 0.0)
    for i in range(n_rows):
        mine = vload(d, i * wide + at)
        with_v = vfma(mine, vload(z, i * wide + at), with_v)
        with_e = vfma(mine, vload(ze, i * wide + at), with_e)
        spread = vfill(d, 0.0)
        for j in range(n_rows):
            spread = vfma(vfill(d, gram[rows[i], rows[j]]), vload(d, j * wide + at), spread)
        quadratic = vfma(mine, spread, quadratic)
    return with_v, with_e, quadratic


@kernel
def _step(gram, rows, n_rows, d, z, ze, table, scale, keep, l2_share, eta, mu, e):
    """Take the step of g, hand the step of v over to the next sweep, and update the scalars."""
    lanes, n, wide = lanes_in(d), e.shape[1], d.shape[1]
    k, rate, momentum = vfill(d, keep), vfill(d, eta), vfill(d, mu)
    two = vfill(d, 2.0)
    for at in range(0, table.shape[1], lanes):
        with_v, with_e, quadratic = _correlate(gram, rows, n_rows, d, z, ze, at)
        vv, ve, ee = vload(table[V_V], at), vload(table[V_E], at), vload(table[E_E], at)
        norm, g = vsqrt(vv), vload(table[G], at)
        l2 = vmul(vfill(d, l2_share), vload(table[L2], at))
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
        change = vadd(change, vload(table[V_V_LOW], at))
        total = vadd(vv, change)
        vstore(table[V_V_LOW], at, vsub(change, vsub(total, vv)))
        vstore(table[V_V], at, total)
        vstore(table[V_E], at, vmul(momentum, vsub(v_speed, vmul(rate, speed2))))
        vstore(table[E_E], at, vmul(vmul(momentum, momentum), speed2))
        vstore(table[DECAY], at, vmul(k, beta))
        g_speed = vfma(k, vfma(l2, g, q), vload(table[G_PENDING], at))
        vstore(table[G], at, vsub(g, vmul(rate, g_speed)))
        vstore(table[G_PENDING], at, vmul(momentum, g_speed))
        weight = vmul(k, alpha)
        for i in range(n_rows):
            cell = (at // lanes * n + rows[i]) * lanes
            vstore(e, cell, vfma(weight, vload(d, i * wide + at), vload(e, cell)))


@kernel
def train_cosine(
    gram, p0, labels, n_classes, n_coefficients, scale, form, a, e, table, schedule, clock,
    first, last,
):  # fmt: skip
    """Train all coefficients of one trial over the epochs first … last - 1, from the state given.

    Parameters
    ----------
    gram : (N, N) of unit support rows; p0 : (N, columns), X v_0 repeated for every coefficient
    form : probability … scratch, see :func:`logit_gradient`
    a, e : (blocks, N, lanes); table : (COLUMN_NUMBERS, columns), the state
        As for the linear head, the last step of v is still pending at the end; g and the scalars
        are those after it.
    schedule : :class:`.momentum.Schedule`
    clock : (1,), the share of the next gradient in the velocity
    """
    n, wide, batch = gram.shape[0], p0.shape[1], schedule.batch
    eta, mu = schedule.eta, schedule.mu
    z = np.zeros((batch, wide + lanes_in(a)), a.dtype)
    ze, d = np.zeros_like(z), np.zeros_like(z)
    logits = np.zeros_like(form.target)
    order, words = np.empty(n, np.int64), np.empty(n + 4, np.uint64)
    batch_labels = np.empty(batch, np.int64)
    for epoch in range(first, last):
        draw_order(schedule.key, schedule.trial, epoch, schedule.shuffle, order, words)
        for start in range(0, n, batch):
            n_rows = min(batch, n - start)
            rows = order[start : start + n_rows]
            sweep_with_velocity(gram, rows, n_rows, a, e, table[DECAY], eta, mu, z, ze)
            advance(table[S], table[S_PENDING], table[DECAY], 1.0, eta, mu)
            _project(z, ze, rows, n_rows, p0, table, scale, d)
            to_class_layout(d, n_rows, n_classes, n_coefficients, logits)
            for i in range(n_rows):
                batch_labels[i] = labels[rows[i]]
            logit_gradient(
                logits, batch_labels, n_rows, n_coefficients,
                form.probability, form.target, form.label, form.confidence, form.scratch,
            )  # fmt: skip
            divisor = batch if schedule.scale_partial else n_rows
            to_row_layout(logits, n_rows, n_classes, n_coefficients, 1.0 / divisor, d)
            share = n_rows / batch if schedule.decay_with_batch else 1.0
            _step(gram, rows, n_rows, d, z, ze, table, scale, clock[0], share, eta, mu, e)
            clock[0] = 1.0 - schedule.dampening
