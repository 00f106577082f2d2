"""Small loops around the drawing of rows."""

from __future__ import annotations

from firthshot.kernels import kernel


@kernel
def finish_rows(block, mean, shift):
    """Add the mean and each row's shift to the features, then a one and zeros."""
    d = len(mean)
    for i in range(block.shape[0]):
        for j in range(d):
            block[i, j] += mean[j] + shift[i]
        block[i, d] = 1.0
        for j in range(d + 1, block.shape[1]):
            block[i, j] = 0.0
