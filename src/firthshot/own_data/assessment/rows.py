"""Rows to leave out, and what an estimator says of them without them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from firthshot.arrays import Array

ROUNDS = 10
ENOUGH = 1000  # rows after which no further round is left out
LEAST = np.finfo(float).tiny


@dataclass(frozen=True)
class LabelledFit:
    """An estimator and the labelled rows that it is fitted to."""

    estimator: Any  # of scikit-learn's kind, cloned for every fit
    features: Array  # (N, d)
    labels: Array  # (N,), 0 … K − 1
    classes: Array  # (K,), sorted
    alike: bool = True  # whether classes count alike among new rows, or as often as among these
    rounds: int = ROUNDS  # in how many rounds rows are left out, at most

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def rank(self) -> Array:
        """Return the place of every row in a shuffled order of its class; copies share theirs."""
        contents = np.unique(self.features, axis=0, return_inverse=True)[1].ravel()
        order = np.random.default_rng(0).permutation(len(self))
        rank = np.empty(len(self), np.intp)
        for k in range(len(self.classes)):
            rows = order[self.labels[order] == k]
            _, first, which = np.unique(contents[rows], return_index=True, return_inverse=True)
            rank[rows] = np.argsort(np.argsort(first))[which.ravel()]
        return rank

    @cached_property
    def counts(self) -> Array:
        """Return the number of different rows of each class, (K,)."""
        most = np.zeros(len(self.classes), np.intp)
        np.maximum.at(most, self.labels, self.rank + 1)
        return most

    @cached_property
    def turned(self) -> Array:
        """Return the rows in as few coordinates as they span, with the same inner products."""
        if self.features.shape[1] <= len(self):
            return self.features
        return np.asarray(np.linalg.qr(np.asarray(self.features, np.float64).T)[1].T)

    def probabilities(self, known: Array, asked: Array, estimator: Any = None) -> Array:
        """Return what an estimator that was fitted to some rows says of others, (R, K).

        `LogisticRegression` sees the turned rows: its answers are the same, and quicker.
        """
        from sklearn.base import clone
        from sklearn.linear_model import LogisticRegression

        fitted = clone(self.estimator if estimator is None else estimator)
        rows = self.turned if isinstance(fitted, LogisticRegression) else self.features
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit to all rows has said it
            fitted.fit(rows[known], self.classes[self.labels[known]])
        return np.asarray(fitted.predict_proba(rows[asked]), np.float64)

    def mean(self, values: Array, labels: Array) -> float:
        """Return the mean of values of rows, in which classes may count alike."""
        if not self.alike:
            return float(values.mean())
        totals = np.bincount(labels, values, len(self.classes))
        counts = np.bincount(labels, minlength=len(self.classes))
        return float((totals[counts > 0] / counts[counts > 0]).mean())


@dataclass(frozen=True)
class LeftOutRows:
    """What fits without them say of rows."""

    rows: Array  # (R,), their numbers
    labels: Array  # (R,), their classes
    probabilities: Array  # (R, K)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def predicted(self) -> Array:
        """Return the most probable class of each row, (R,)."""
        return np.asarray(self.probabilities.argmax(axis=1))

    @cached_property
    def right(self) -> Array:
        """Return which rows are predicted right, (R,), as numbers."""
        return np.asarray(self.predicted == self.labels, np.float64)

    @cached_property
    def own(self) -> Array:
        """Return the probability of each row's own label, (R,)."""
        return np.asarray(self.probabilities[np.arange(len(self)), self.labels])

    @cached_property
    def loss(self) -> Array:
        """Return −log of the probability of each row's own label, (R,)."""
        return np.asarray(-np.log(np.maximum(self.own, LEAST)))


def rounds_of(task: LabelledFit) -> list[Array]:
    """Return the rows of each round: disjoint, every class spread over them, none left out whole.

    Classes of one row stay in all fits. Copies of a row are left out together.
    """
    number = min(task.rounds, int(task.counts.max()))
    leavable = task.counts[task.labels] > 1
    found, left = [], 0
    for turn in range(number if number > 1 else 0):
        if left >= ENOUGH:
            break
        rows = np.flatnonzero(leavable & (task.rank % number == turn))
        left += len(rows)
        found.append(rows)
    return found


def leave_out(task: LabelledFit, rounds: Sequence[Array], estimator: Any = None) -> LeftOutRows:
    """Return what the task's estimator, or another, says of rows without their rounds."""
    everything = np.arange(len(task))
    parts = [task.probabilities(np.setdiff1d(everything, rows), rows, estimator) for rows in rounds]
    rows = np.concatenate([np.empty(0, np.intp), *rounds])
    nothing = np.empty((0, len(task.classes)))
    return LeftOutRows(rows, task.labels[rows], np.concatenate([nothing, *parts]))
