"""Rows to look at: labels that the others contradict, near copies, columns that say too much.

The rule for labels is that of confident learning (Northcutt et al. 2021, the method of cleanlab): a
label is doubted where left-out fits give another class at least the probability that this class
has, on average, on its own rows. A second look leaves the doubted rows out of all fits, because
wrong labels in a fit hide one another; its probabilities are held against the averages of the
first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array, unit_length
from firthshot.own_data.assessment.rows import LabelledFit, LeftOutRows

NEAR = 0.25  # of the usual distance to the nearest row: closer rows are nearly the same
MOST_ROWS = 3000  # beyond, distances of all pairs take long
EMBEDDING = 64  # columns from which on rows are compared by their direction
ENOUGH = 20  # rows from which on a column that separates all classes is worth a word


@dataclass(frozen=True)
class Doubt:
    """A row whose label looks wrong."""

    row: int
    label: int  # its class as given …
    other: int  # … and as the other rows have it
    given: float  # probabilities of the two
    better: float


def doubted_labels(task: LabelledFit, left: LeftOutRows, rounds: list[Array]) -> list[Doubt]:
    """Return the rows whose labels look wrong, the most doubtful first."""
    if not len(left):
        return []
    usual = _usual(left)
    suspects = _suspects(left, usual)
    if suspects.any():
        left = _without_suspects(task, left.rows[suspects], rounds)
        suspects = _suspects(left, usual)
    order = np.flatnonzero(suspects)
    best = left.probabilities[order, left.predicted[order]]
    order = order[np.argsort(left.own[order] - best, kind="stable")]
    return [
        Doubt(
            int(left.rows[at]),
            int(left.labels[at]),
            int(left.predicted[at]),
            float(left.own[at]),
            float(left.probabilities[at, left.predicted[at]]),
        )
        for at in order
    ]


def _usual(left: LeftOutRows) -> Array:
    """Return the mean probability of each class on its own rows, (K,)."""
    K = left.probabilities.shape[1]
    counts = np.bincount(left.labels, minlength=K)
    totals = np.bincount(left.labels, left.own, K)
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.inf)


def _suspects(left: LeftOutRows, usual: Array) -> Array:
    best = left.probabilities[np.arange(len(left)), left.predicted]
    return np.asarray((left.predicted != left.labels) & (best >= usual[left.predicted]))


def _without_suspects(task: LabelledFit, suspects: Array, rounds: list[Array]) -> LeftOutRows:
    """Leave rows out again, by fits that see none of the suspects; no class loses all rows."""
    trusted = np.ones(len(task), bool)
    trusted[suspects] = False
    kept = np.bincount(task.labels[trusted], minlength=len(task.classes))
    trusted |= kept[task.labels] < 2
    parts = []
    for rows in rounds:
        known = trusted.copy()
        known[rows] = False
        missing = np.bincount(task.labels[known], minlength=len(task.classes)) == 0
        known |= missing[task.labels] & ~np.isin(np.arange(len(task)), rows)
        parts.append(task.probabilities(np.flatnonzero(known), rows))
    rows = np.concatenate(rounds)
    return LeftOutRows(rows, task.labels[rows], np.concatenate(parts))


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
