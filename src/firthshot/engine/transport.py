"""Optimal transport between queries and classes, by Sinkhorn's alternating scalings."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from firthshot.engine.information import by_distance, combine, softmax
from firthshot.engine.rows import take
from firthshot.kernels import kernel
from firthshot.kernels.narrow import gram
from firthshot.kernels.vectors import (
    lanes_in,
    vdiv,
    vfill,
    vfma,
    vload,
    vmax,
    vmul,
    vstore,
    vsub,
)

_LEAST = 1e-12


class TransportOptions(NamedTuple):
    """Steps and rate of the prototypes; the sharpness of a plan; when its scaling ends."""

    steps: Any
    rate: Any
    sharpness: Any
    scalings: Any
    close: Any


@kernel(error_model="numpy")
def transported(rows, members, options, means, logits):
    """Move prototypes towards their queries, as PT-MAP; write logs of the last plan.

    ``members`` (T, K, N) are ones where a support row is of a class, ``means`` (T, K, d) is room,
    and logits have a column for every row; those of the support are not written. Prototypes stay
    combinations c X of the rows. Products c X X' come from the Gram matrix where that takes fewer
    multiplications.
    """
    here, (n_classes, shots), columns = rows.here, members.shape[1:], logits.shape[2]
    (n, d), kind = here.shape, here.dtype.type
    room = np.zeros((4, 1, n_classes, columns), here.dtype)
    c, found, first, plan = room[0], room[1], room[2, 0], room[3, 0]
    totals, counts = np.empty(columns, here.dtype), np.empty(n_classes)
    by_class, by_query = np.empty(n_classes, here.dtype), np.empty(columns, here.dtype)
    paired = n * (d + 2 * options.steps * n_classes) < 4 * options.steps * n_classes * d
    products = np.zeros((n, columns if paired else 0), here.dtype)
    for t in range(len(members)):
        if not take(rows, t):
            return False
        if products.size:
            gram(here, products)
        for k in range(n_classes):
            counts[k] = members[t, k].sum()
            c[0, k, :shots] = members[t, k] / counts[k]
            c[0, k, shots:] = 0
        first[:], by_class[:], by_query[:] = c[0], 1, 1
        for step in range(options.steps + 1):
            combine(c, here, products, means[t : t + 1], found)
            _costs(c[0], found[0], options.sharpness)
            softmax(found[0], plan, totals)
            plan[:, :shots] = 0
            plan[:, n:] = 0
            _balance(plan, n - shots, options.scalings, options.close, by_class, by_query)
            if step < options.steps:
                _pull(c[0], first, plan, counts, by_class, by_query, options.rate)
        least = kind(np.log(_LEAST))
        for q in range(shots, n):
            by_query[q] = np.log(by_query[q] / totals[q])
        for k in range(n_classes):
            share = np.log(by_class[k])
            for q in range(shots, n):
                logits[t, k, q] = max(found[0, k, q] + share + by_query[q], least)
    return True


@kernel(fastmath={"reassoc", "contract"})
def _costs(c, found, sharpness):
    """Replace ⟨w, x⟩ by −sharpness ‖w − x‖², but for what all classes of a row share."""
    for k in range(len(c)):
        size = c.dtype.type(0)
        for i in range(c.shape[1]):
            size += c[k, i] * found[k, i]
        by_distance(found[k], 2 * sharpness, size)


@kernel(fastmath={"reassoc", "contract"}, error_model="numpy")
def _pull(c, first, plan, counts, by_class, by_query, rate):
    """Move prototypes by a rate towards the means of the support and their share of queries."""
    kind = c.dtype.type
    for k in range(len(c)):
        here, share, size = c[k], plan[k], kind(0)
        for i in range(here.size):
            share[i] *= by_class[k] * by_query[i]
            size += share[i]
        weight = kind(rate / (counts[k] + size))
        for i in range(here.size):
            drawn = share[i] + kind(counts[k]) * first[k, i]
            here[i] += weight * drawn - kind(rate) * here[i]


@kernel(error_model="numpy")
def _balance(plan, queries, steps, close, by_class, by_query):
    """Find factors by which every query has one class and every class as many queries.

    It is done when no query's total moved by ``close`` in a step, or after so many steps. The
    classes' factors are those of the plan before, from which the next ones are not far. Columns
    (K, whole vectors) that are no queries are zero.
    """
    (n_classes, columns), kind = plan.shape, plan.dtype.type
    one, least, zero = vfill(plan, 1.0), vfill(plan, 1e-30), vfill(plan, 0.0)
    lanes = np.empty(lanes_in(plan), plan.dtype)
    before = np.ones(columns, plan.dtype)
    for _ in range(steps):
        moved = zero
        for q in range(0, columns, lanes_in(plan)):
            total = zero
            for c in range(n_classes):
                share = vfill(plan, by_class[c])
                total = vfma(share, vload(plan, c * columns + q), total)
            now = vmul(total, vload(by_query, q))
            gap = vsub(now, vload(before, q))
            moved = vmax(vmax(gap, vsub(zero, gap)), moved)
            vstore(before, q, now)
            vstore(by_query, q, vdiv(one, vmax(total, least)))
        vstore(lanes, 0, moved)
        if lanes.max() < close:
            break
        for c in range(n_classes):
            size = zero
            for q in range(0, columns, lanes_in(plan)):
                size = vfma(vload(plan, c * columns + q), vload(by_query, q), size)
            vstore(lanes, 0, size)
            by_class[c] = kind(queries / n_classes) / max(lanes.sum(), kind(_LEAST))
