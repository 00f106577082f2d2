"""Optimal transport between queries and classes, by Sinkhorn's alternating scalings."""

from __future__ import annotations

import numpy as np

from firthshot.kernels import kernel

_LEAST = 1e-12


@kernel
def balance(plans, steps, close):
    """Scale plans (T, K, Q) in place until every query has one class and every class as many.

    A plan is done when no query's total moved by ``close`` in a step, or after so many steps.
    """
    for t in range(len(plans)):
        _balance(plans[t], steps, close)


@kernel(fastmath={"reassoc", "contract"}, error_model="numpy")
def _balance(plan, steps, close):
    """Find the factors of classes and queries; the plan itself is scaled once, at the end."""
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
