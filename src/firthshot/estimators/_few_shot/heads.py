"""The four heads of the blend, fitted together, and what they say of rows that were left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from firthshot.estimators._few_shot.blend import margin
from firthshot.estimators._few_shot.gaussian import fit_gaussian
from firthshot.estimators._few_shot.logistic import Problem, solve
from firthshot.estimators._few_shot.neighbours import fit_neighbours
from firthshot.estimators._few_shot.rows import Examples
from firthshot.estimators._support import Array

HEADS = ("firth", "gaussian", "means", "neighbours")

LEAST_RIDGE = 0.25  # of the mean squared distance, as in `_support.scale_l2`
ROUNDS, ENOUGH = 5, 200  # rounds of left-out rows, and rows after which there is no further round


class Head(Protocol):
    """What the blend asks of a head."""

    def logits(self, rows: Array) -> Array:
        """Return (n, K) of rows (n, r)."""


@dataclass(frozen=True)
class Linear:
    """A fitted linear head: weights (r + 1, K), the last row the intercepts."""

    weights: Array

    def logits(self, rows: Array) -> Array:
        """Return (n, K) of rows (n, r)."""
        return np.asarray(rows @ self.weights[:-1] + self.weights[-1])


@dataclass(frozen=True)
class Penalty:
    """λ and the ridge of the Firth head, settled."""

    lam: float
    l2: float


@dataclass(frozen=True)
class Scaled:
    """A head whose logits are divided by its margin at the class means."""

    head: Head
    margin: float

    def logits(self, rows: Array) -> Array:
        """Return (n, K) of rows (n, r); zeros where the head tells no classes apart."""
        found = self.head.logits(rows)
        return found / self.margin if self.margin > 0 else np.zeros_like(found)


def scaled(head: Head, examples: Examples) -> Scaled:
    """Return a head on the scale that all heads of the blend share."""
    return Scaled(head, margin(head.logits(examples.class_means())))


def ridge(examples: Examples) -> float:
    """Return the l2 of `FirthClassifier`'s "scale" for rows about 1 from their mean."""
    total = float(examples.weights.sum())
    share = examples.alike / total
    away = examples.rows - share @ examples.rows
    covariance = (away.T * share) @ away
    trace, squares = float(np.trace(covariance)), float(np.square(covariance).sum())
    if not squares:
        return 1.0
    directions = min(1.0, trace**2 / squares / (total - 1)) if total > 2 else 1.0
    return trace * max(LEAST_RIDGE, min(directions, float(np.sqrt(examples.n_classes / total))))


def fit_firth(examples: Examples, penalty: Penalty, kept: Sequence[Array]) -> list[Linear]:
    """Fit the Firth head to several selections of the rows, the first of them all rows.

    Parameters
    ----------
    kept : masks (N,) of rows; classes count alike in each
    """
    rows = np.column_stack([examples.rows, np.ones(len(examples.rows))])
    targets = np.eye(examples.n_classes)[examples.labels] + penalty.lam / examples.n_classes
    weights = np.zeros((len(kept), len(rows)))
    for row, mask in zip(weights, kept, strict=True):
        row[mask] = examples.take(mask).alike
    first = solve(Problem(rows, targets, weights[:1], penalty.lam, penalty.l2))
    if len(kept) == 1:
        return [Linear(first[0])]
    start = np.repeat(first, len(kept) - 1, axis=0)
    others = solve(Problem(rows, targets, weights[1:], penalty.lam, penalty.l2), start)
    return [Linear(one) for one in (*first, *others)]


def fit_heads(
    examples: Examples,
    names: Sequence[str],
    penalty: Penalty,
    dimensions: int,
    rounds: Sequence[Array],
) -> tuple[dict[str, Scaled], Array]:
    """Fit the named heads to all rows, and without the rows of each round.

    Returns
    -------
    dict of Scaled
        The heads of all rows, by name.
    array of shape (H, R, K)
        What heads without them say of the left-out rows, round after round.
    """
    everything = np.ones(len(examples.rows), bool)
    kept = [everything, *(_without(everything, left) for left in rounds)]
    chosen = [examples, *(examples.take(mask) for mask in kept[1:])]
    fits: dict[str, Sequence[Head]] = {}
    for name in names:
        if name == "firth":
            fits[name] = fit_firth(examples, penalty, kept)
        elif name == "neighbours":
            fits[name] = [fit_neighbours(one) for one in chosen]
        else:
            sphere = name == "means"
            fits[name] = [fit_gaussian(one, dimensions, sphere=sphere) for one in chosen]
    by_name = {
        name: [scaled(head, one) for head, one in zip(heads, chosen, strict=True)]
        for name, heads in fits.items()
    }
    left_out = [
        np.concatenate(
            [np.empty((0, examples.n_classes))]
            + [
                head.logits(examples.rows[rows])
                for head, rows in zip(heads[1:], rounds, strict=True)
            ]
        )
        for heads in by_name.values()
    ]
    return {name: heads[0] for name, heads in by_name.items()}, np.array(left_out)


def _without(everything: Array, left: Array) -> Array:
    kept = everything.copy()
    kept[left] = False
    return kept


def left_out_rounds(along: Array, examples: Examples) -> list[Array]:
    """Return the rows to leave out in each round: disjoint, and never a whole class.

    The j-th distinct row of a class is left out in round j modulo the number of rounds, with its
    copies: a weight of two and a row given twice are the same. A class of one distinct row stays.
    There is no further round once 200 rows have been left out.

    Parameters
    ----------
    along : (N,), where rows lie on some direction: equal for equal rows, and hardly for others
    """
    rank = _rank_in_class(along, examples.labels)
    distinct = np.zeros(examples.n_classes, np.int64)
    np.maximum.at(distinct, examples.labels, rank + 1)
    n_rounds = min(ROUNDS, int(distinct.max()))
    turns = np.where(distinct[examples.labels] > 1, rank % n_rounds, -1)
    found, left = [], 0.0
    for rows in rounds_of(turns):
        if left >= ENOUGH:
            break
        left += float(examples.weights[rows].sum())
        found.append(rows)
    return found


def rounds_of(turns: Array) -> list[Array]:
    """Return the rows of each round from the number of each row's round, (N,); -1 is none."""
    return [np.flatnonzero(turns == number) for number in range(int(turns.max()) + 1)]


def _rank_in_class(along: Array, labels: Array) -> Array:
    """Return the position of every row among the distinct rows of its class, (N,)."""
    order = np.lexsort((along, labels))
    labels, along = labels[order], along[order]
    new_class = np.diff(labels, prepend=-1) != 0
    apart = np.diff(along, prepend=0.0) > 1e-9 * max(float(np.abs(along).max()), 1e-300)
    number = np.cumsum(new_class | apart)
    first = np.maximum.accumulate(np.where(new_class, number, 0))
    rank = np.empty(len(labels), np.int64)
    rank[order] = number - first
    return rank
