"""The compiled loop of :mod:`firthshot.experiments.geometric`."""

from __future__ import annotations

import numpy as np

from firthshot.kernels import kernel
from firthshot.kernels.streams import NOISE, philox, uniform

# The paper's rule for a sample of one, where (N − 1) / (N ȳ − 1) may be 0 / 0: N is taken as this.
SIZE_OF_ONE = 1.01


@kernel
def mle(size, total):
    """Return the maximum-likelihood estimate N / Σy = 1 / ȳ."""
    return size / total


@kernel
def firth(size, total):
    """Return Firth's estimate (N − 1) / (N ȳ − 1), with the paper's rule for N = 1."""
    if size == 1:
        return (SIZE_OF_ONE - 1.0) / (SIZE_OF_ONE * total - 1.0)
    return (size - 1.0) / (total - 1.0)


@kernel
def tosses(word, log_miss):
    """Return a geometric draw from a random word: the smallest k with (1 − p)^k ≤ u."""
    return max(1.0, np.ceil(np.log(uniform(word)) / log_miss))


@kernel
def add_errors(key, first, stop, p, sums):
    """Add to ``sums`` the errors of both estimators in the trials from ``first`` to ``stop``.

    A trial draws once and grows: the sample of size N is the first N of its draws. Row N − 1 of
    ``sums`` (sizes, 4) gets Σ e and Σ e² of the maximum-likelihood estimate, then of Firth's, with
    e = estimate − p.
    """
    log_miss = np.log1p(-p)
    words = np.empty(4, np.uint64)
    for trial in range(first, stop):
        total = 0.0
        for n in range(sums.shape[0]):
            if n % 4 == 0:
                philox(key, n // 4, 0, trial, NOISE, words, 0)
            total += tosses(words[n % 4], log_miss)
            ours, theirs = firth(n + 1, total) - p, mle(n + 1, total) - p
            sums[n, 0] += theirs
            sums[n, 1] += theirs * theirs
            sums[n, 2] += ours
            sums[n, 3] += ours * ours
