"""Class means that the queries of a trial move: compiled loops over the trials of a block.

The N + Q rows of a trial (`TrialRows`) are first the support's, with labels (T, N). Logits have a
column for every row; those of the support are not written. A loop returns False as soon as a row is
not finite.
"""

from __future__ import annotations

import numpy as np

from firthshot.engine.rows import nearest_others, take
from firthshot.kernels import kernel
from firthshot.kernels.narrow import dots
from firthshot.kernels.vectors import (
    lanes_in,
    vadd,
    vdiv,
    vexp,
    vfill,
    vload,
    vmax,
    vmul,
    vstore,
    vsub,
)

_LEAST = 1e-12


@kernel(fastmath={"reassoc", "contract"}, error_model="numpy")
def class_means(rows, labels, means):
    """Write the means (K, d) of the support, whose classes all have rows."""
    counts = np.zeros(len(means), np.int64)
    means[:] = 0.0
    for i in range(labels.size):
        counts[labels[i]] += 1
        add_row(means[labels[i]], rows[i], means.dtype.type(1))
    for k in range(len(means)):
        means[k] *= means.dtype.type(1 / counts[k])


@kernel(fastmath={"reassoc", "contract"})
def add_row(sums, row, weight):
    """Add a weighted row."""
    for j in range(row.size):
        sums[j] += weight * row[j]


@kernel(fastmath={"reassoc", "contract"})
def square(row):
    """Return ‖row‖²."""
    total = row.dtype.type(0)
    for j in range(row.size):
        total += row[j] * row[j]
    return total


@kernel(error_model="numpy")
def to_unit(rows, length):
    """Bring rows to a length; a row of zeros stays."""
    for i in range(len(rows)):
        rows[i] *= rows.dtype.type(length / max(np.sqrt(square(rows[i])), _LEAST))


@kernel
def nearest_mean(rows, labels, means, squares, logits):
    """Write class means, their squares (T, K) and the logits ⟨x, m⟩ − ½‖m‖²."""
    here, shots = rows.here, labels.shape[1]
    for t in range(len(labels)):
        if not take(rows, t):
            return False
        class_means(here, labels[t], means[t])
        dots(means[t], here, shots, len(here), logits[t])
        for k in range(means.shape[1]):
            squares[t, k] = square(means[t, k])
            logits[t, k, shots:] -= squares[t, k] * here.dtype.type(0.5)
    return True


@kernel
def nearest_row(rows, labels, support, logits):
    """Write the largest cosine of a query and the rows (N, d) of a class, −1 without any."""
    here, shots, n = rows.here, labels.shape[1], rows.wanted.shape[1]
    cosines = np.empty((shots, n), here.dtype)
    for t in range(len(labels)):
        if not take(rows, t):
            return False
        support[t] = here[:shots]
        dots(here[:shots], here, shots, n, cosines)
        logits[t] = -1.0
        for i in range(shots):
            best = logits[t, labels[t, i]]
            for q in range(shots, n):
                best[q] = max(best[q], cosines[i, q])
    return True


@kernel
def rectified_cosines(rows, labels, scale, means, logits):
    """Write scaled cosines of the queries and prototypes rectified as in BD-CSPN."""
    here = rows.here
    for t in range(len(labels)):
        if not take(rows, t):
            return False
        _rectify(here, labels[t], means[t])
        to_unit(means[t], scale)
        dots(means[t], here, labels.shape[1], len(here), logits[t])
    return True


@kernel(fastmath={"reassoc", "contract"}, error_model="numpy")
def _rectify(rows, labels, means):
    """Write prototypes (K, d) of support and queries, weighted by exp(cosine).

    Queries are moved so that their mean is that of the support, and belong to the class of their
    nearest prototype. ⟨w, x + s⟩ = ⟨w, x⟩ + ⟨w, s⟩, so that no row is copied for it.
    """
    (n, d), shots, n_classes = rows.shape, labels.size, len(means)
    class_means(rows, labels, means)
    weights = np.empty((n_classes + 1, d), rows.dtype)
    weights[:n_classes] = means
    to_unit(weights[:n_classes], 1.0)
    shift = weights[n_classes]
    shift[:] = 0.0
    for i in range(n):
        away = i >= shots
        add_row(shift, rows[i], rows.dtype.type(-1.0 / (n - shots) if away else 1.0 / shots))
    along, own = np.empty((n_classes + 1, n), rows.dtype), np.empty(n_classes, rows.dtype)
    dots(weights, rows, 0, n, along)
    for k in range(n_classes):
        own[k] = (weights[k] * shift).sum()
    totals, moved, size = np.zeros(n_classes), np.zeros(n_classes), square(shift)
    means[:] = 0.0
    for i in range(n):
        if i < shots:
            k = labels[i]
            weight = np.exp(along[k, i])
        else:
            k = 0
            for other in range(1, n_classes):
                if along[other, i] + own[other] > along[k, i] + own[k]:
                    k = other
            length = np.sqrt(max(1 + 2 * along[n_classes, i] + size, _LEAST))
            weight = np.exp((along[k, i] + own[k]) / length)
            moved[k] += weight
        totals[k] += weight
        add_row(means[k], rows[i], rows.dtype.type(weight))
    for k in range(n_classes):
        add_row(means[k], shift, rows.dtype.type(moved[k]))
        means[k] *= rows.dtype.type(1 / totals[k])


@kernel
def smoothed_distances(rows, labels, options, means, logits):
    """Write the logits of LaplacianShot.

    ``options`` are the numbers of neighbours and steps and the weight of the neighbours.
    """
    count, steps, weight = options
    here, shots = rows.here, labels.shape[1]
    near = np.empty((len(here) - shots, count), np.int64)
    for t in range(len(labels)):
        if not take(rows, t):
            return False
        _rectify(here, labels[t], means[t])
        nearest_others(here[shots:], near)
        _smooth(here, shots, near, steps, weight, means[t], logits[t])
    return True


@kernel
def _smooth(rows, shots, near, steps, weight, means, logits):
    """Move assignments p ∝ exp(weight Σ p of neighbours − distance) until the bound stands still.

    The bound is Σ p (log p + distance − pull). As log p = last pull − distance − log Σ exp, all but
    the difference of pulls and the logarithms cancels.
    """
    n_classes, queries = len(means), len(rows) - shots
    columns = -(-queries // lanes_in(rows)) * lanes_in(rows)
    room = np.zeros((4, n_classes, columns), rows.dtype)
    far, p, pull, after = room[0], room[1], room[2], room[3]
    dots(means, rows[shots:], 0, queries, far)
    for k in range(n_classes):
        size = 1 + square(means[k])
        far[k] = rows.dtype.type(size) - 2 * far[k]
    bound = np.inf
    for step in range(steps + 1):
        logs = _assign(pull, far, p, queries)
        gap = 0.0
        for k in range(n_classes):
            gap += _drawn(near, weight, p[k], pull[k], after[k])
        before, bound = bound, gap - logs
        if step == steps or (step > 2 and abs(bound - before) <= 1e-6 * abs(before)):
            break
        pull, after = after, pull
    for k in range(n_classes):
        logits[k, shots : shots + queries] = (pull[k] - far[k])[:queries]


@kernel(fastmath={"reassoc", "contract"})
def _drawn(near, weight, p, pull, after):
    """Write weight · Σ p of the neighbours; return Σ p (pull − that)."""
    for q in range(len(near)):
        total = p.dtype.type(0)
        for m in range(near.shape[1]):
            total += p[near[q, m]]
        after[q] = p.dtype.type(weight) * total
    gap = p.dtype.type(0)
    for q in range(len(near)):
        gap += p[q] * (pull[q] - after[q])
    return gap


@kernel
def _assign(pull, far, p, queries):
    """Write p ∝ exp(pull − far) down the columns; return the sum of the logarithms of Σ exp."""
    n_classes, columns = p.shape
    tops, totals, logs = np.empty(columns, p.dtype), np.empty(columns, p.dtype), 0.0
    for q in range(0, columns, lanes_in(p)):
        top = vsub(vload(pull, q), vload(far, q))
        for k in range(1, n_classes):
            at = k * columns + q
            top = vmax(vsub(vload(pull, at), vload(far, at)), top)
        total = vfill(p, 0.0)
        for k in range(n_classes):
            at = k * columns + q
            value = vexp(vsub(vsub(vload(pull, at), vload(far, at)), top))
            vstore(p, at, value)
            total = vadd(total, value)
        vstore(tops, q, top)
        vstore(totals, q, total)
        share = vdiv(vfill(p, 1.0), total)
        for k in range(n_classes):
            vstore(p, k * columns + q, vmul(share, vload(p, k * columns + q)))
    product = 1.0  # one logarithm for 32 of them: a total is at most the number of classes
    for q in range(queries):
        logs += tops[q]
        product *= totals[q]
        if q % 32 == 31:
            logs += np.log(product)
            product = 1.0
    return logs + np.log(product)
