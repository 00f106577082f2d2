"""All labelled rows, and what remains of them when some are left out in turn.

Every head is fitted to all of these sets at once: arrays have an axis for the sets, of which the
first holds all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.estimators._support import rank_in_class

ROUNDS, ENOUGH = 5, 60  # rounds of left-out rows, and rows after which there is no further round
MOST_LEFT = 200  # rows of a round, about: more rows make more rounds, of which few are needed


@dataclass(frozen=True)
class Sets:
    """Sets of the same labelled rows, as weights.

    Attributes
    ----------
    labels : (N,), 0 … K − 1
    weights : (B, N), numbers of rows that each row stands for; 0 where it is left out
    left : (B - 1, L), the rows left out of every further set; -1 fills up
    """

    labels: Array
    weights: Array
    left: Array
    n_classes: int

    def of(self, dtype: np.dtype[Any]) -> Sets:
        """Return the sets with weights of this type."""
        same = self.weights.dtype == dtype
        return self if same else replace(self, weights=self.weights.astype(dtype))

    @cached_property
    def counts(self) -> Array:
        """Return the weight of every class, (B, K): its shots."""
        return np.asarray(self.weights @ self.one_hot)

    @cached_property
    def one_hot(self) -> Array:
        """Return (N, K)."""
        return np.eye(self.n_classes, dtype=self.weights.dtype)[self.labels]

    @cached_property
    def averaging(self) -> Array:
        """Return the share of each row in the mean of its class, (B, K, N)."""
        own = self.one_hot.T * self.weights[:, None]
        return np.asarray(own / own.sum(axis=2, keepdims=True))

    @cached_property
    def alike(self) -> Array:
        """Return weights (B, N) that give every class the same total; their sum stays."""
        total = self.weights.sum(axis=1, keepdims=True)
        return np.asarray(self.averaging.sum(axis=1) * total / self.n_classes)

    @property
    def evenness(self) -> float:
        """Return how alike the shots of the classes are: their harmonic mean over their mean."""
        shots = self.counts[0]
        return float(1 / (np.mean(1 / shots) * np.mean(shots)))

    @cached_property
    def freedom(self) -> Array:
        """Return rows beyond the first of every class, (B,): they show within-class spread."""
        return np.asarray(np.maximum(self.weights.sum(axis=1) - self.n_classes, 0.0))

    def left_out(self) -> Array:
        """Return the left-out rows, (R,), set after set."""
        return np.asarray(self.left[self.left >= 0])

    def evidence(self, prior: Array | None = None) -> Array:
        """Return the weights (R,) of left-out rows as evidence for new rows.

        Classes count alike, or as frequent as the prior says. The sum is what so many unequal
        weights are worth (Kish), and less where classes have no row to leave out: with one class
        of two it is nothing.
        """
        rows = self.left_out()
        if not len(rows):
            return np.empty(0)
        prior = np.full(self.n_classes, 1 / self.n_classes) if prior is None else prior
        weights, labels = self.weights[0][rows], self.labels[rows]
        totals = np.bincount(labels, weights, minlength=self.n_classes)
        seen, most = float(prior[totals > 0].sum()), float(prior.max())
        if seen <= most:
            return np.zeros(len(rows))
        share = weights * prior[labels] / (totals[labels] * seen)
        worth = 1 / float(share @ (share / weights))
        return np.asarray(share * worth * (seen - most) / (1 - most))


def sets_of(along: Array, labels: Array, weights: Array, n_classes: int) -> Sets:
    """Return all rows and the rounds that leave some out, never a whole class.

    The j-th distinct row of a class is left out in round j modulo the number of rounds, with its
    copies: a weight of two and a row given twice are the same. A class of one distinct row stays.
    There is no further round once 60 rows have been left out.

    Parameters
    ----------
    along : (N,), where rows lie on some direction: equal for equal rows, and hardly for others
    """
    rank = rank_in_class(along, labels, 1e-9)
    distinct = np.zeros(n_classes, np.int64)
    np.maximum.at(distinct, labels, rank + 1)
    n_rounds = min(max(ROUNDS, len(labels) // MOST_LEFT), int(distinct.max()))
    turns = np.where(distinct[labels] > 1, rank % n_rounds, -1)
    rounds = [np.flatnonzero(turns == number) for number in range(int(turns.max()) + 1)]
    before = np.cumsum([0.0, *(weights[rows].sum() for rows in rounds)])
    rounds = [rows for rows, so_far in zip(rounds, before[:-1], strict=True) if so_far < ENOUGH]
    kept = weights[None].repeat(len(rounds) + 1, axis=0)
    left = np.full((len(rounds), max(map(len, rounds), default=0)), -1)
    for number, rows in enumerate(rounds):
        kept[number + 1, rows] = 0.0
        left[number, : len(rows)] = rows
    return Sets(labels, kept, left, n_classes)
