"""Accuracy, likelihood and calibration of a query set, for all coefficients of a trial."""

from __future__ import annotations

import numpy as np
from numba import njit

from firthshot.engine._kernels.simd import lanes_in, vadd, vexp, vfill, vfma, vload, vstore, vsub

RELIABILITY_BINS = 15


@njit(nogil=True, cache=True)
def score_queries(logits, labels, predicted, accuracy, nll, brier, ece, bins):
    """Score the query set.

    Parameters
    ----------
    logits : (C, L, Q + padding)
    labels : (Q,)
    predicted : (L, Q), accuracy, nll, brier, ece : (L,), bins : (L, 15, 3); all written
        ``bins`` holds count, sum of confidence and number correct in equal-width bins of the
        confidence max p. A coefficient with a logit that is not finite gets NaN throughout.
    """
    n_queries = labels.size
    top = np.empty(logits.shape[2], logits.dtype)
    total, square = np.empty_like(top), np.empty_like(top)
    for l in range(logits.shape[1]):
        _largest(logits, l, top, predicted[l])
        _sums_of_exp(logits, l, top, total, square)
        hits, loss, gap = 0, 0.0, 0.0
        bins[l] = 0.0
        for q in range(n_queries):
            shifted = np.float64(logits[labels[q], l, q] - top[q])
            probability = np.exp(shifted) / total[q]
            confidence = 1.0 / np.float64(total[q])
            hit = predicted[l, q] == labels[q]
            hits += hit
            loss += np.log(np.float64(total[q])) - shifted
            gap += square[q] * confidence * confidence - 2.0 * probability + 1.0
            _count(bins[l], confidence, hit)
        finite = np.isfinite(loss)
        accuracy[l] = hits / n_queries if finite else np.nan
        nll[l] = loss / n_queries if finite else np.nan
        brier[l] = gap / n_queries if finite else np.nan
        ece[l] = np.abs(bins[l, :, 1] - bins[l, :, 2]).sum() / n_queries if finite else np.nan
        if not finite:
            bins[l] = 0.0


@njit(nogil=True, cache=True)
def _count(bins, confidence, hit):
    if confidence <= 1.0:  # false for NaN
        which = min(int(confidence * RELIABILITY_BINS), RELIABILITY_BINS - 1)
        bins[which, 0] += 1.0
        bins[which, 1] += confidence
        bins[which, 2] += hit


@njit(nogil=True, cache=True)
def _largest(logits, l, top, predicted):
    """Write the largest logit of every query and its class (the first one on ties)."""
    n_queries = predicted.size
    top[:] = logits[0, l]
    predicted[:] = 0
    for c in range(1, logits.shape[0]):
        row = logits[c, l]
        for q in range(n_queries):
            if row[q] > top[q]:
                top[q] = row[q]
                predicted[q] = c


@njit(nogil=True, cache=True)
def _sums_of_exp(logits, l, top, total, square):
    """Write Σ exp(z − top) and Σ exp(z − top)² over classes."""
    n_classes, n_coefficients, padded = logits.shape
    for q in range(0, padded, lanes_in(logits)):
        sum_here, square_here, top_here = vfill(logits, 0.0), vfill(logits, 0.0), vload(top, q)
        for c in range(n_classes):
            value = vexp(vsub(vload(logits, (c * n_coefficients + l) * padded + q), top_here))
            sum_here = vadd(sum_here, value)
            square_here = vfma(value, value, square_here)
        vstore(total, q, sum_here)
        vstore(square, q, square_here)
