"""Rows whose label the other rows contradict, and rows that no fit is sure of.

The rule is that of confident learning (Northcutt et al. 2021, the method of cleanlab): a label is
doubted where left-out fits give another class at least the probability that this class has, on
average, on its own rows. A second look leaves the doubted rows out of all fits, because wrong
labels in a fit hide one another; its probabilities are held against the averages of the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array
from firthshot.own_data.assessment.rows import LabelledFit, LeftOutRows


@dataclass(frozen=True)
class Doubt:
    """A row whose label looks wrong.

    Attributes
    ----------
    row : its number; label, other : class numbers, as given and as the other rows have it
    given, better : probabilities of the two
    """

    row: int
    label: int
    other: int
    given: float
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
