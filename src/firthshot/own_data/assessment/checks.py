"""What is odd in the rows themselves: near copies, and columns that say too much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array, unit_length

NEAR = 0.25  # of the usual distance to the nearest row: closer rows are nearly the same
MOST_ROWS = 3000  # beyond, distances of all pairs take long
EMBEDDING = 64  # columns from which on rows are compared by their direction
ENOUGH = 20  # rows from which on a column that separates all classes is worth a word


@dataclass(frozen=True)
class NearCopies:
    """Two rows that are equal or nearly so, and whether their labels differ."""

    one: int
    other: int
    distance: float
    torn: bool


def near_copies(features: Array, labels: Array) -> list[NearCopies]:
    """Return pairs of rows that are (nearly) the same: different labels first, then the closest.

    ``distance`` is a share of the usual distance of a row to its nearest.
    """
    if not 3 <= len(features) <= MOST_ROWS:
        return []
    squares = _squared_distances(np.asarray(features, np.float64))
    usual = float(np.sqrt(np.median(squares.min(axis=1))))
    if not usual:
        return []
    pairs = np.argwhere(np.triu(squares < (NEAR * usual) ** 2, 1))
    found = [
        NearCopies(
            int(i), int(j), float(np.sqrt(squares[i, j])) / usual, bool(labels[i] != labels[j])
        )
        for i, j in pairs
    ]
    return sorted(found, key=lambda pair: (not pair.torn, pair.distance))


def _squared_distances(X: Array) -> Array:
    """Return squared distances of all pairs, (N, N), infinite to oneself."""
    if X.shape[1] >= EMBEDDING:
        X = unit_length(X)
    else:
        spread = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    own = np.einsum("ij,ij->i", X, X)
    squares = np.maximum(own[:, None] + own - 2 * X @ X.T, 0.0)
    squares[squares < 1e-9 * (1 + own.max())] = 0.0  # rounding
    np.fill_diagonal(squares, np.inf)
    return np.asarray(squares)


def leaking_columns(features: Array, labels: Array) -> Array:
    """Return the columns that alone tell all classes apart, rank by rank.

    Such a column may be known only after the label, as an index of rows sorted by class is.
    """
    if len(features) < ENOUGH:
        return np.empty(0, np.intp)
    order = np.argsort(features, axis=0, kind="stable")
    sorted_labels = labels[order]
    changes = (np.diff(sorted_labels, axis=0) != 0).sum(axis=0)
    values = np.take_along_axis(features, order, axis=0)
    tied = ((np.diff(values, axis=0) == 0) & (np.diff(sorted_labels, axis=0) != 0)).any(axis=0)
    return np.flatnonzero((changes == len(np.unique(labels)) - 1) & ~tied)
