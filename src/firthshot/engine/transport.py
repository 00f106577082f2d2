"""Optimal transport between queries and classes, by Sinkhorn's alternating scalings."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from firthshot.engine.prototypes import add_row, class_means, square
from firthshot.engine.rows import take
from firthshot.kernels import kernel
from firthshot.kernels.elementary import exp_in_place
from firthshot.kernels.narrow import dots, mixtures

_LEAST = 1e-12


class TransportOptions(NamedTuple):
    """Steps and rate of the prototypes; the sharpness of a plan; when its scaling ends."""

    steps: Any
    rate: Any
    sharpness: Any
    scalings: Any
    close: Any


@kernel
def transported(rows, labels, options, means, logits):
    """Move prototypes (T, K, d) towards their queries, as PT-MAP; write logs of the last plan.

    Logits have a column for every row; those of the support are not written.
    """
    here, shots = rows.here, labels.shape[1]
    queries, n_classes, kind = here[shots:], means.shape[1], means.dtype.type
    asked = len(queries)
    plan, shares = np.empty((n_classes, asked)), np.empty((n_classes, asked), here.dtype)
    fixed, pulled = np.empty_like(means[0]), np.empty_like(means[0])
    for t in range(len(labels)):
        if not take(rows, t):
            return False
        class_means(here, labels[t], means[t])
        counts = np.zeros(n_classes)
        for i in range(shots):
            counts[labels[t, i]] += 1
        fixed[:] = means[t]
        for _ in range(options.steps):
            _plan(queries, means[t], options, shares, plan)
            shares[:] = plan
            mixtures(shares, queries, pulled)
            for k in range(n_classes):
                rate = options.rate / (counts[k] + plan[k].sum())
                means[t, k] *= kind(1 - options.rate)
                add_row(means[t, k], fixed[k], kind(rate * counts[k]))
                add_row(means[t, k], pulled[k], kind(rate))
        _plan(queries, means[t], options, shares, plan)
        logits[t, :, shots : shots + asked] = np.log(plan + _LEAST)
    return True


@kernel
def _plan(queries, prototypes, options, near, plan):
    """Write the plan (K, Q) that gives every query one class and every class as many.

    Costs are ‖w − x‖², but for ‖x‖², which all classes of a query share.
    """
    dots(prototypes, queries, 0, len(queries), near)
    tops = np.full(len(queries), -np.inf, near.dtype)
    for k in range(len(near)):
        size = square(prototypes[k])
        for q in range(tops.size):
            near[k, q] = near.dtype.type(options.sharpness) * (2 * near[k, q] - size)
            tops[q] = max(tops[q], near[k, q])
    for k in range(len(near)):
        for q in range(tops.size):
            plan[k, q] = near[k, q] - tops[q]
    exp_in_place(plan.ravel(), np.empty(plan.size))
    _balance(plan, options.scalings, options.close)


@kernel(fastmath={"reassoc", "contract"}, error_model="numpy")
def _balance(plan, steps, close):
    """Scale a plan in place until every query has one class and every class as many.

    It is done when no query's total moved by ``close`` in a step, or after so many steps. Factors
    of classes and queries are found first; the plan itself is scaled once, at the end.
    """
    n_classes, queries = plan.shape
    by_class, by_query, before = np.empty(n_classes), np.empty(queries), np.empty(queries)
    sums = np.zeros(queries)  # of the plan with the classes' factors
    for c in range(n_classes):
        for q in range(queries):
            sums[q] += plan[c, q]
    before[:] = sums
    for _ in range(steps):
        for q in range(queries):
            by_query[q] = 1.0 / sums[q]
        sums[:] = 0.0
        for c in range(n_classes):
            size = 0.0
            for q in range(queries):
                size += plan[c, q] * by_query[q]
            by_class[c] = factor = queries / n_classes / max(size, _LEAST)
            for q in range(queries):
                sums[q] += factor * plan[c, q]
        moved = 0.0
        for q in range(queries):
            total = sums[q] * by_query[q]
            moved = max(moved, abs(before[q] - total))
            before[q] = total
        if moved < close:
            break
    for c in range(n_classes):
        for q in range(queries):
            plan[c, q] *= by_class[c] * by_query[q]
