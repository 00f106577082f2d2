"""Small loops around the drawing of rows."""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True)
def finish_rows(block, mean, shift):
    """Add the mean and each row's shift to the features, then a one and zeros."""
    d = len(mean)
    for i in range(block.shape[0]):
        for j in range(d):
            block[i, j] += mean[j] + shift[i]
        block[i, d] = 1.0
        for j in range(d + 1, block.shape[1]):
            block[i, j] = 0.0


@njit(nogil=True, cache=True)
def add_covariances(covariances, used, weights, out):
    """Add Σ_b weights[b] covariances[used[b]] to ``out``."""
    for b in range(len(used)):
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] += weights[b] * covariances[used[b], i, j]
