"""Accuracy, likelihood and calibration of a query set, for all coefficients of a trial."""

from __future__ import annotations

import numpy as np

from firthshot.engine.results import RELIABILITY_BINS
from firthshot.kernels import kernel
from firthshot.kernels.vectors import lanes_in, vadd, vexp, vfill, vfma, vload, vstore, vsub


@kernel
def score_trials(logits, labels, predicted, accuracy, nll, brier, ece, bins):
    """Score the query sets of several trials: `score_queries` with a leading axis everywhere."""
    for t in range(len(logits)):
        score_queries(
            logits[t], labels[t], predicted[t], accuracy[t], nll[t], brier[t], ece[t], bins[t]
        )


@kernel
def score_queries(logits, labels, predicted, accuracy, nll, brier, ece, bins):
    """Score the query set.

    Parameters
    ----------
    logits : (C, L, columns)
    labels : (columns,), -1 for columns that are not queries
    predicted : (L, columns), accuracy, nll, brier, ece : (L,), bins : (L, 15, 3); all written
        ``bins`` holds count, sum of confidence and number correct in equal-width bins of the
        confidence max p. A coefficient with a logit that is not finite gets NaN throughout.
    """
    sums = np.zeros((logits.shape[1], 3))
    bins[:] = 0.0
    add_scores(logits, labels, predicted, sums, bins)
    finish_scores(sums, (labels >= 0).sum(), accuracy, nll, brier, ece, bins)


@kernel
def add_scores(logits, labels, predicted, sums, bins):
    """Add hits, losses and squared errors of p of some queries to ``sums`` (L, 3) and the bins."""
    top = np.empty(labels.size, logits.dtype)
    total, square, right = np.empty_like(top), np.empty_like(top), np.empty_like(top)
    for l in range(logits.shape[1]):
        _largest(logits, l, top, predicted[l])
        loss = 0.0
        for q in range(labels.size):
            right[q] = logits[max(labels[q], 0), l, q] - top[q]
            if labels[q] >= 0:
                loss += right[q]
        _sums_of_exp(logits, l, top, total, square)
        _exp(right)
        hits, gap = _count(labels, predicted[l], total, square, right, bins[l])
        sums[l, 0] += hits
        sums[l, 1] += _sum_of_logs(labels, total) - loss
        sums[l, 2] += gap


@kernel
def finish_scores(sums, n_queries, accuracy, nll, brier, ece, bins):
    """Turn sums over so many queries into scores; a loss that is not finite makes them NaN."""
    for l in range(len(sums)):
        if not np.isfinite(sums[l, 1]):
            sums[l] = np.nan
            bins[l] = 0.0
        accuracy[l] = sums[l, 0] / n_queries
        nll[l] = sums[l, 1] / n_queries
        brier[l] = sums[l, 2] / n_queries
        gap = np.abs(bins[l, :, 1] - bins[l, :, 2]).sum() / n_queries
        ece[l] = gap + 0.0 * sums[l, 1]


@kernel
def _sum_of_logs(labels, values):
    """Sum log(values), taking one logarithm of a product for every 32 of them."""
    total, product, count = 0.0, 1.0, 0
    for q in range(labels.size):
        if labels[q] >= 0:
            product *= values[q]
            count += 1
            if count == 32:
                total += np.log(product)
                product, count = 1.0, 0
    return total + np.log(product)


@kernel
def _count(labels, predicted, total, square, right, bins):
    """Add to the reliability bins; return the hits and the sum of squared errors of p (Brier)."""
    hits, gap = 0, 0.0
    for q in range(labels.size):
        if labels[q] < 0:
            continue
        confidence = 1.0 / np.float64(total[q])
        hit = predicted[q] == labels[q]
        hits += hit
        gap += (square[q] * confidence - 2.0 * right[q]) * confidence + 1.0
        if confidence <= 1.0:  # false for NaN
            which = min(int(confidence * RELIABILITY_BINS), RELIABILITY_BINS - 1)
            bins[which, 0] += 1.0
            bins[which, 1] += confidence
            bins[which, 2] += hit
    return hits, gap


@kernel
def _largest(logits, l, top, predicted):
    """Write the largest logit of every column and its class (the first one on ties)."""
    top[:] = logits[0, l]
    predicted[:] = 0
    for c in range(1, logits.shape[0]):
        row = logits[c, l]
        for q in range(top.size):
            higher = row[q] > top[q]
            top[q] = row[q] if higher else top[q]
            predicted[q] = c if higher else predicted[q]


@kernel
def _sums_of_exp(logits, l, top, total, square):
    """Write Σ exp(z − top) and Σ exp(z − top)² over classes."""
    n_classes, n_coefficients, columns = logits.shape
    for q in range(0, columns, lanes_in(logits)):
        sum_here, square_here, top_here = vfill(logits, 0.0), vfill(logits, 0.0), vload(top, q)
        for c in range(n_classes):
            at = (c * n_coefficients + l) * columns + q
            value = vexp(vsub(vload(logits, at), top_here))
            sum_here = vadd(sum_here, value)
            square_here = vfma(value, value, square_here)
        vstore(total, q, sum_here)
        vstore(square, q, square_here)


@kernel
def _exp(values):
    """Replace values at or below zero by their exponentials."""
    for q in range(0, values.size, lanes_in(values)):
        vstore(values, q, vexp(vload(values, q)))
