"""Single passes over the rows: NumPy takes several, which with few rows is most of a fit."""

from __future__ import annotations

import numpy as np

from firthshot.kernels import kernel


@kernel
def column_ranges(X):
    """Return largest less smallest value of every column of X (N, d), (d,) in float64."""
    low, high = X[0].astype(np.float64), X[0].astype(np.float64)
    for i in range(1, X.shape[0]):
        for j in range(X.shape[1]):
            low[j] = min(low[j], X[i, j])
            high[j] = max(high[j], X[i, j])
    return high - low


@kernel(fastmath={"reassoc", "contract"})
def weighted_moments(X, share):
    """Return Σ share x, (d,), and Σ share ‖x‖² of the rows of X (N, d), in float64."""
    mean, square = np.zeros(X.shape[1]), 0.0
    for i in range(X.shape[0]):
        length = 0.0
        for j in range(X.shape[1]):
            value = np.float64(X[i, j])
            mean[j] += share[i] * value
            length += value * value
        square += share[i] * length
    return mean, square
