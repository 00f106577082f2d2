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
    n_classes, queries = plan.shape
    totals = np.zeros(queries)
    for c in range(n_classes):
        for q in range(queries):
            totals[q] += plan[c, q]
    after = np.empty(queries)
    for _ in range(steps):
        after[:] = 0.0
        for c in range(n_classes):
            size = 0.0
            for q in range(queries):
                plan[c, q] /= totals[q]
                size += plan[c, q]
            factor = queries / n_classes / max(size, _LEAST)
            for q in range(queries):
                plan[c, q] *= factor
                after[q] += plan[c, q]
        moved = 0.0
        for q in range(queries):
            moved = max(moved, abs(totals[q] - after[q]))
            totals[q] = after[q]
        if moved < close:
            break
