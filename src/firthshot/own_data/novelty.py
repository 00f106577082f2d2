"""Rows of no class: how far a row lies from the nearest class mean, and how far is too far.

The score is min_k ‖x − m_k‖² / (1 + 1/n_k) on rows of length 1 (embeddings) or on columns divided
by their spread inside classes (tables). The division makes up for the noise in a mean of n_k rows.
`studies/own_data` compares it with probability, logit, energy and Mahalanobis distance. How far is
too far is read off the rows themselves, each against the mean of its class without it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array, unit_length
from firthshot.errors import FirthshotError

EMBEDDING = 64  # columns from which on rows are compared at length 1


@dataclass(frozen=True)
class Novelty:
    """Class means, and the scores of left-out rows."""

    means: Array  # (K, d)
    counts: Array  # (K,), rows of each class
    spread: Array | None  # (d,), what columns are divided by; None where rows have length 1
    known: Array  # (R,), scores of rows against the means without them, sorted

    def distances(self, features: Array) -> Array:
        """Return squared distances of rows to the class means, (n, K)."""
        return _squares(_placed(features, self.spread), self.means)

    def score(self, features: Array) -> Array:
        """Return how unlike the nearest class each row is, (n,)."""
        return np.asarray((self.distances(features) / (1 + 1 / self.counts)).min(axis=1))

    def threshold(self, rate: float) -> float:
        """Return the score above which rows are unknown, at a rate of false alarms.

        The k-th smallest score of R left-out rows, k = ⌈(R + 1)(1 − rate)⌉, is exceeded by a new
        row of a known class with a probability of at most the rate.
        """
        if not 0 < rate < 1:
            raise FirthshotError(f"unknown is {rate}: give a rate of false alarms, such as 0.05.")
        R = len(self.known)
        k = int(np.ceil((R + 1) * (1 - rate)))
        if k > R:
            least = int(np.ceil(1 / rate)) - 1
            raise FirthshotError(
                f"A rate of false alarms of {rate:g} needs {least} rows in classes of two or more, "
                f"but there are {R}: add rows, or allow more false alarms."
            )
        return float(self.known[k - 1])

    def is_unknown(self, features: Array, rate: float) -> Array:
        """Return which rows are unknown at a rate of false alarms, (n,)."""
        return np.asarray(self.score(features) > self.threshold(rate))


def fit_novelty(features: Array, labels: Array) -> Novelty:
    """Return the class means of rows (N, d) with labels (N,), and scores of each without itself."""
    counts = np.bincount(labels)
    spread = None if features.shape[1] >= EMBEDDING else _within_spread(features, labels, counts)
    rows = _placed(features, spread)
    means = _class_means(rows, labels, counts)
    return Novelty(means, counts, spread, np.sort(_left_out(rows, labels, means, counts)))


def _left_out(rows: Array, labels: Array, means: Array, counts: Array) -> Array:
    """Return the scores of rows of classes of two or more, without themselves."""
    several = counts[labels] > 1
    rows, labels = rows[several], labels[several]
    scores = _squares(rows, means) / (1 + 1 / counts)
    n = counts[labels].astype(np.float64)
    own = np.square(rows - means[labels]).sum(axis=1) * (n / (n - 1)) ** 2
    scores[np.arange(len(rows)), labels] = own / (1 + 1 / (n - 1))
    return np.asarray(scores.min(axis=1))


def _within_spread(features: Array, labels: Array, counts: Array) -> Array:
    X = np.asarray(features, np.float64)
    inside = (X - _class_means(X, labels, counts)[labels]).std(axis=0)
    spread = np.where(inside > 0, inside, X.std(axis=0))
    return np.where(spread > 0, spread, 1.0)


def _class_means(rows: Array, labels: Array, counts: Array) -> Array:
    sums = np.zeros((len(counts), rows.shape[1]))
    np.add.at(sums, labels, rows)
    return sums / counts[:, None]


def _placed(features: Array, spread: Array | None) -> Array:
    rows = np.asarray(features, np.float64)
    return unit_length(rows) if spread is None else np.asarray(rows / spread)


def _squares(rows: Array, means: Array) -> Array:
    """Return squared distances of rows to means, (n, K)."""
    own = np.einsum("ij,ij->i", rows, rows)[:, None] + np.einsum("ij,ij->i", means, means)
    return np.asarray(np.maximum(own - 2 * rows @ means.T, 0.0))
