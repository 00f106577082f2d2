"""Columns of unlike scale: found, and brought to one.

A ridge is one number for all columns, a cosine one length for the whole row: where one column
varies a hundred times as much as the others, it decides alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.errors import FirthshotError

UNLIKE = 10.0  # times the spread of the median column
FAR_APART = 100.0  # times that of the lower quartile: half of few columns may be wide
# Learned features differ little over many rows, but over two by chance up to forty times.
EMBEDDING, UNLIKE_IN_EMBEDDING = 64, 100.0  # from so many columns on, so many times the median

OFFSET = 10.0  # times as far from zero as the rows are from one another


@dataclass(frozen=True)
class ColumnScale:
    """What is taken from every column, (d,), and what it is then divided by, (d,), in float64."""

    mean: Array
    spread: Array

    def apply(self, X: Any) -> Array:
        """Return rows with columns on one scale, in their own type."""
        refuse_sparse(X)
        return np.asarray((X - self.mean) / self.spread, X.dtype)


def column_scale(X: Any, weights: Array) -> ColumnScale:
    """Return the weighted mean and standard deviation of every column; 1 for one that is constant.

    With equal weights they are those of scikit-learn's ``StandardScaler``.
    """
    refuse_sparse(X)
    share = weights / weights.sum()
    mean = share @ np.asarray(X, np.float64)
    away = np.abs(X - mean)
    varies = np.ptp(X, axis=0) > 0
    largest = np.where(varies, away.max(axis=0), 1.0)  # squares of it might overflow
    spread = largest * np.sqrt(share @ np.square(away / largest))
    return ColumnScale(mean, np.where(varies & (spread > 0), spread, 1.0))


def refuse_sparse(X: Any) -> None:
    """Refuse a sparse table: without its mean it would be full."""
    if not isinstance(X, np.ndarray):
        raise FirthshotError(
            "standardize is True, and sparse rows are not sparse once their mean is taken away: "
            "give an array, or scale them first with MaxAbsScaler."
        )


def wide_columns(X: Any) -> Array:
    """Return the columns that vary so much more than others that they decide alone.

    That is ten times as much as the median column, or a hundred times as much as the one at the
    lower quartile; from 64 columns on, where they are likely an embedding, a hundred times as much
    as the median one. Columns that do not vary are not counted; sparse tables have no such columns.
    """
    none = np.empty(0, np.intp)
    if not isinstance(X, np.ndarray) or len(X) < 2:
        return none
    embedding = X.shape[1] >= EMBEDDING
    if embedding and _surely_alike(X, UNLIKE_IN_EMBEDDING):
        return none
    with np.errstate(over="ignore", invalid="ignore"):  # another check speaks of huge features
        spread = X.std(axis=0, dtype=np.float64)
    varying = np.sort(spread[spread > 0])
    if not len(varying) or not np.isfinite(varying).all():
        return none
    middle, quartile = float(np.median(varying)), float(varying[(len(varying) - 1) // 4])
    limit = min(UNLIKE * middle, FAR_APART * quartile)
    return np.flatnonzero(spread > (UNLIKE_IN_EMBEDDING * middle if embedding else limit))


def offset_columns(X: Any) -> Array:
    """Return the columns that set the direction of every row: far from zero for all their spread.

    That is, their mean is ten times as far from zero as the rows are from their mean.
    """
    if not isinstance(X, np.ndarray) or len(X) < 2:
        return np.empty(0, np.intp)
    with np.errstate(over="ignore", invalid="ignore"):  # another check speaks of huge features
        mean, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
        whole = float(np.sqrt(np.square(spread).sum()))
    if not whole:
        return np.empty(0, np.intp)
    return np.flatnonzero(np.abs(mean) > OFFSET * whole)


def _surely_alike(X: Array, times: float) -> bool:
    """Return whether the ranges of the columns leave no room for a wide one; they are quicker.

    The standard deviation of N values lies between range / √(2N) and range / 2. Half of the columns
    have at least the median range; one that does not vary counts as none here, which errs on the
    side of looking more closely.
    """
    lengths = np.subtract(X.max(axis=0), X.min(axis=0), dtype=np.float64)
    half = (len(lengths) - 1) // 2
    middle = np.partition(lengths, half)[half]
    return bool(lengths.max() / 2 <= times * middle / np.sqrt(2 * len(X)))
