"""The four heads of the blend, fitted together, and what they say of rows that were left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from firthshot.arrays import Array
from firthshot.estimators._few_shot.blend import margin
from firthshot.estimators._few_shot.gaussian import fit_gaussian
from firthshot.estimators._few_shot.logistic import Problem, solve
from firthshot.estimators._few_shot.neighbours import fit_neighbours
from firthshot.estimators._few_shot.rows import LabelledRows

HEADS = ("firth", "gaussian", "means", "neighbours")

LEAST_RIDGE = 0.25  # of the mean squared distance, as in `_support.scale_l2`
LEAST_MARGIN = 1e-9  # below, a head tells no classes apart
ROUGHLY = 1e-3  # tolerance of heads that only left-out rows see
ROUNDS, ENOUGH = 5, 100  # rounds of left-out rows, and rows after which there is no further round


class BlendHead(Protocol):
    """What the blend asks of a head."""

    def logits(self, rows: Array) -> Array:
        """Return (n, K) of rows (n, r)."""


@dataclass(frozen=True)
class FirthHead:
    """A fitted linear head: weights (r + 1, K), the last row the intercepts."""

    weights: Array

    def logits(self, rows: Array) -> Array:
        """Return (n, K) of rows (n, r)."""
        return np.asarray(rows @ self.weights[:-1] + self.weights[-1])


@dataclass(frozen=True)
class FirthPenalty:
    """λ and the ridge of the Firth head, settled."""

    lam: float
    l2: float


@dataclass(frozen=True)
class Scaled:
    """A head whose logits are divided by its margin at the class means."""

    head: BlendHead
    margin: float

    def logits(self, rows: Array) -> Array:
        """Return (n, K) of rows (n, r); zeros where the head tells no classes apart."""
        found = self.head.logits(rows)
        return found / self.margin if self.margin > 0 else np.zeros_like(found)


def scaled(head: BlendHead, examples: LabelledRows) -> Scaled:
    """Return a head on the scale that all heads of the blend share."""
    found = margin(head.logits(examples.class_means))
    return Scaled(head, found if found > LEAST_MARGIN else 0.0)


def scatter_of(examples: LabelledRows, weights: Array) -> Array:
    """Return Σ w x x' of the rows, (r, r)."""
    return np.asarray((examples.rows.T * weights) @ examples.rows)


def ridge(examples: LabelledRows) -> float:
    """Return the l2 of `FirthClassifier`'s "scale", for rows whose weighted mean is zero."""
    total = float(examples.weights.sum())
    covariance = scatter_of(examples, examples.alike / total)
    trace, squares = float(np.trace(covariance)), float(np.square(covariance).sum())
    if not squares:
        return 1.0
    directions = min(1.0, trace**2 / squares / (total - 1)) if total > 2 else 1.0
    return trace * max(LEAST_RIDGE, min(directions, float(np.sqrt(examples.n_classes / total))))


def fit_firth(
    examples: LabelledRows,
    chosen: Sequence[tuple[Array, LabelledRows]],
    penalty: FirthPenalty,
    scatter: Array,
) -> list[FirthHead]:
    """Fit the Firth head to several selections of the rows, the first of them all rows.

    Parameters
    ----------
    chosen : masks (N,) and the rows that they keep; classes count alike in each
    """
    rows = np.column_stack([examples.rows, np.ones(len(examples.rows))])
    targets = np.eye(examples.n_classes)[examples.labels] + penalty.lam / examples.n_classes
    weights = np.zeros((len(chosen), len(rows)))
    for row, (mask, kept) in zip(weights, chosen, strict=True):
        row[mask] = kept.alike
    problem = Problem(rows, targets, weights[:1], penalty.lam, penalty.l2, scatter)
    inverse = problem.inverse()
    first = solve(problem, inverse)
    if len(chosen) == 1:
        return [FirthHead(first[0])]
    start = np.repeat(first, len(chosen) - 1, axis=0)
    others = solve(replace(problem, weights=weights[1:]), inverse, start, ROUGHLY)
    return [FirthHead(one) for one in (*first, *others)]


def fit_heads(
    examples: LabelledRows,
    names: Sequence[str],
    penalty: FirthPenalty,
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
    masks = [everything, *(_without(everything, left) for left in rounds)]
    chosen = [(mask, examples.take(mask) if len(rounds) else examples) for mask in masks]
    chosen[0] = (everything, examples)
    scatter = scatter_of(examples, examples.weights)
    found: dict[str, list[Scaled]] = {}
    for name in names:
        heads: list[BlendHead] = []
        if name == "firth":
            heads += fit_firth(examples, chosen, penalty, scatter)
        elif name == "neighbours":
            heads += [fit_neighbours(kept) for _, kept in chosen]
        elif name == "means":
            heads += [fit_gaussian(kept, None, dimensions) for _, kept in chosen]
        else:
            scatters = [scatter, *(scatter - _scatter_of_rows(examples, left) for left in rounds)]
            heads += [
                fit_gaussian(kept, one, dimensions)
                for (_, kept), one in zip(chosen, scatters, strict=True)
            ]
        found[name] = [scaled(head, kept) for head, (_, kept) in zip(heads, chosen, strict=True)]
    left_out = [
        [head.logits(examples.rows[left]) for head, left in zip(heads[1:], rounds, strict=True)]
        for heads in found.values()
    ]
    nothing = np.empty((0, examples.n_classes))
    return (
        {name: heads[0] for name, heads in found.items()},
        np.array([np.concatenate([nothing, *one]) for one in left_out]),
    )


def _without(everything: Array, left: Array) -> Array:
    kept = everything.copy()
    kept[left] = False
    return kept


def _scatter_of_rows(examples: LabelledRows, rows: Array) -> Array:
    return np.asarray((examples.rows[rows].T * examples.weights[rows]) @ examples.rows[rows])


def left_out_rounds(along: Array, examples: LabelledRows) -> list[Array]:
    """Return the rows to leave out in each round: disjoint, and never a whole class.

    The j-th distinct row of a class is left out in round j modulo the number of rounds, with its
    copies: a weight of two and a row given twice are the same. A class of one distinct row stays.
    There is no further round once 100 rows have been left out.

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
