r"""What the doctor measures: one pass over the features, and the fingerprint of BatchNorm.

In training mode BatchNorm subtracts from every batch its own mean. When the pictures come sorted by
class, a batch holds one class, so what is subtracted is the class itself; what remains is noise
(the ResNet features of the paper seem to have it). It leaves a trace that nothing else leaves:
inside a class, the means of consecutive batches agree *better* than those of independent rows can.

The statistic is the ratio of a one-way analysis of variance inside classes. Cut the rows of a
split, in file order, into blocks of B rows; keep the blocks that lie in one class; with block means
:math:`m_{cb}`, class averages of them :math:`m_c`, and rows :math:`x_{cbi}`,

.. math::
    R = \frac{B \sum_{cb} \|m_{cb} - m_c\|^2 \,/\, \sum_c (b_c - 1)}
             {\sum_{cbi} \|x_{cbi} - m_{cb}\|^2 \,/\, \sum_c b_c (B - 1)}.

Independent rows give R = 1 whatever the classes; rows ordered by writer, session or film give
R > 1; batch-centred rows give R far below 1, also after ReLU and pooling. Where classes are too
small to hold two blocks, all blocks of the split are compared with one another instead: sorted
classes then push R far above 1 unless their means were taken away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

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


BLOCKS = (16, 32, 50, 64, 100, 128, 256)
LIMIT = 0.6
_SIGMAS = 5.0
_ALIKE = 0.1
_MIN_FREEDOM = 8
_SPECTRUM_ROWS = 1024


class BlockRatio(NamedTuple):
    """The ratio R for one block size, and its standard deviation were the rows independent."""

    block: int
    ratio: float
    spread: float

    @property
    def centred(self) -> bool:
        """Whether block means agree better than independent rows can."""
        return self.ratio < LIMIT and self.ratio < 1.0 - _SIGMAS * self.spread


def telling_ratio(X: np.ndarray, y: np.ndarray) -> BlockRatio | None:
    """Return R of finite rows (n, d), in file order, at the batch size that tells most.

    R is small at every multiple of the true batch size; the smallest of these is returned. None
    when the rows are not sorted by class or too few to say.
    """
    if np.count_nonzero(np.diff(y)) != len(np.unique(y)) - 1:  # a class in several runs of rows
        return None
    inverse_dimension = _inverse_dimension(X, y)
    tried = (block_ratio(X, y, block, inverse_dimension) for block in BLOCKS)
    found = [one for one in tried if one is not None]
    least = min((one.ratio for one in found), default=0.0)
    return next((one for one in found if one.ratio <= least + _ALIKE), None)


def block_ratio(
    X: np.ndarray, y: np.ndarray, block: int, inverse_dimension: float = 1.0
) -> BlockRatio | None:
    """Return R for one block size, or None when there are too few blocks.

    ``inverse_dimension`` is tr(S²)/tr(S)² of the rows' covariance S: the mean of d correlated
    ratios has variance 2 tr(S²) / (tr(S)² · degrees of freedom).
    """
    count = len(X) // block
    if count < 2:
        return None
    owners = y[: count * block].reshape(count, block)
    pure = (owners == owners[:, :1]).all(axis=1)
    means = X[: count * block].reshape(count, block, -1).mean(axis=1, dtype=np.float32)
    squares = np.einsum("bij,bij->b", *(X[: count * block].reshape(count, block, -1),) * 2)
    inside = squares - block * np.einsum("bj,bj->b", means, means)
    groups = np.where(pure, owners[:, 0], -1)
    between, freedom = _between(means[pure], groups[pure])
    if freedom < _MIN_FREEDOM:
        pure[:] = True
        between, freedom = _between(means, np.zeros(count, int))
    within = float(inside[pure].sum()) / (pure.sum() * (block - 1))
    if freedom < _MIN_FREEDOM or within <= 0:
        return None
    spread = float(np.sqrt(2.0 * inverse_dimension / freedom))
    return BlockRatio(block, float(block * between / freedom / within), spread)


def _between(means: np.ndarray, groups: np.ndarray) -> tuple[float, int]:
    """Return the sum of squares of block means about their group's mean, and its freedom."""
    total, freedom = 0.0, 0
    for group in np.unique(groups):
        own = means[groups == group]
        total += float(np.square(own - own.mean(axis=0)).sum())
        freedom += len(own) - 1
    return total, freedom


def _inverse_dimension(X: np.ndarray, y: np.ndarray) -> float:
    """Estimate tr(S²)/tr(S)² of the covariance inside classes from differences of neighbours."""
    step = max(1, len(X) // _SPECTRUM_ROWS)
    left = np.arange(0, len(X) - 1, step)
    left = left[y[left] == y[left + 1]]
    Z = X[left + 1] - X[left]
    gram = Z @ Z.T
    trace, off = float(np.trace(gram)), gram - np.diag(np.diag(gram))
    if len(Z) < 2 or trace == 0:
        return 1.0
    squares = float(np.square(off).sum()) / (len(Z) * (len(Z) - 1))
    return min(1.0, squares / (trace / len(Z)) ** 2)
