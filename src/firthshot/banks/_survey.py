"""One pass over a bank's features: the sums that most of the doctor's checks need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from firthshot.banks._bank import Bank

_BLOCK_VALUES = 1 << 21


@dataclass(frozen=True)
class Survey:
    """Hold what one pass over the features found."""

    finite: np.ndarray  # (n,): rows without NaN or infinity
    # how many values are not numbers, and how many are infinite
    nans: int
    infinities: int
    norms: np.ndarray  # (n,): euclidean norm of each finite row, NaN elsewhere
    # (d,): smallest and largest value and standard deviation per dimension, over the finite rows
    low: np.ndarray
    high: np.ndarray
    deviations: np.ndarray

    @property
    def sound(self) -> np.ndarray:
        """Rows that are finite and not all zero, (n,) bool."""
        return self.finite & (self.norms > 0)


def survey(bank: Bank) -> Survey:
    """Read all features once, in blocks and in float64, and return the sums."""
    n, d = bank.features.shape
    norms = np.full(n, np.nan)
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    total, squares = np.zeros(d), np.zeros(d)
    nans = infinities = 0
    for start, block in _blocks(bank.features):
        nans += int(np.isnan(block).sum())
        infinities += int(np.isinf(block).sum())
        whole = np.isfinite(block).all(axis=1)
        rows = block[whole]
        norms[start : start + len(block)][whole] = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        low = np.minimum(low, rows.min(axis=0, initial=np.inf))
        high = np.maximum(high, rows.max(axis=0, initial=-np.inf))
        total += rows.sum(axis=0)
        squares += np.einsum("ij,ij->j", rows, rows)
    finite = np.isfinite(norms)
    count = max(int(finite.sum()), 1)
    deviations = np.sqrt(np.maximum(squares / count - np.square(total / count), 0.0))
    return Survey(finite, nans, infinities, norms, low, high, deviations)


def sound_rows(bank: Bank, sound: np.ndarray, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the sound rows of a split, centred and scaled to at most 1 (float32), with labels.

    Centring and scaling leave nearest centroids and ratios of variances as they are, and keep
    float32 from overflow and cancellation.
    """
    rows = bank.rows(split)
    rows = rows[sound[rows]]
    X = np.asarray(bank.features[rows], np.float32)
    if len(X):
        X /= np.float32(max(float(X.max()), -float(X.min())) or 1.0)
        X -= X.mean(axis=0)
        X /= np.float32(np.abs(X).max() or 1.0)
    return X, bank.labels[rows]


def centroid_accuracy(X: np.ndarray, y: np.ndarray) -> tuple[float, int] | None:
    """Return the accuracy of the leave-one-out nearest centroid, and the number of classes.

    Leaving x out of its own centroid m of c rows multiplies its squared distance by (c/(c-1))².
    Classes of one row are left out; None when fewer than two classes remain.
    """
    names, y, counts = np.unique(y, return_inverse=True, return_counts=True)
    kept = counts[y] > 1
    if int((counts > 1).sum()) < 2:
        return None
    centroids = np.stack([X[y == index].mean(axis=0) for index in range(len(names))])
    right = 0
    for start, block in _blocks(X):
        own = y[start : start + len(block)]
        distances = np.square(centroids).sum(axis=1) - 2.0 * (block @ centroids.T)
        distances += np.square(block).sum(axis=1, keepdims=True)
        distances[:, counts < 2] = np.inf
        own_counts = counts[own].astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            distances[np.arange(len(own)), own] *= np.square(own_counts / (own_counts - 1))
        right += int((distances.argmin(axis=1) == own)[kept[start : start + len(own)]].sum())
    return right / int(kept.sum()), int((counts > 1).sum())


def _blocks(X: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    size = max(1, _BLOCK_VALUES // X.shape[1])
    for start in range(0, len(X), size):
        with np.errstate(invalid="ignore"):  # a signalling NaN: it is counted like any other
            block = X[start : start + size].astype(np.float64)
        yield start, block
