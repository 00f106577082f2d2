"""The four heads of the blend, fitted together, and what they say of rows that were left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from firthshot.arrays import Array
from firthshot.estimators._few_shot.gaussian import (
    Spread,
    class_directions,
    fit_gaussian,
    fit_means,
    spread_of,
)
from firthshot.estimators._few_shot.logistic import fit_all
from firthshot.estimators._few_shot.neighbours import fit_neighbours
from firthshot.estimators._few_shot.sets import Sets

HEADS = ("firth", "gaussian", "means", "neighbours")

LEAST_RIDGE = 0.25  # of the mean squared distance, as in `_support.scale_l2`
TABLE_RIDGE = 1.25  # power of the shots with which the ridge falls in a table
# The ratio of the variance between classes to that inside before any row shows it, the rows that it
# counts for, and the largest that is believed.
USUAL_RATIO, USUAL_COUNTS, LARGEST_RATIO = 0.45, 2.0, 2.0
LEAST_MARGIN = 1e-9  # below, a head tells no classes apart


class BlendHead(Protocol):
    """What the blend asks of a head."""

    def logits(self, rows: Array) -> Array:
        """Return (…, n, K) of rows (…, n, r)."""


@dataclass(frozen=True)
class FirthHead:
    """FittedHeads linear heads: weights (…, r + 1, K), the last row the intercepts."""

    weights: Array

    def logits(self, rows: Array) -> Array:
        """Return (…, n, K) of rows (…, n, r)."""
        return np.asarray(rows @ self.weights[..., :-1, :] + self.weights[..., -1:, :])


@dataclass(frozen=True)
class FirthPenalty:
    """λ and the ridge of the Firth head, settled: the ridge for every kind of columns, (S,)."""

    lam: float
    l2: Array


@dataclass(frozen=True)
class Scaled:
    """A head whose logits are divided by its margin at the class means."""

    head: BlendHead
    margin: float

    def logits(self, rows: Array) -> Array:
        """Return (n, K) of rows (n, r); zeros where the head tells no classes apart."""
        found = self.head.logits(rows)
        return found / self.margin if self.margin > 0 else np.zeros_like(found)


@dataclass(frozen=True)
class FittedHeads:
    """What was fitted to rows (S, N, r).

    Attributes
    ----------
    heads : for every kind of columns the heads of all rows, by name
    margins : (S, H), of these heads
    apart : (S,), how far apart the classes are, in logits of Gaussians: see `_apart`
    left_out : (S, H, R, K), what heads without them say of the left-out rows, on the margin scale
    """

    heads: list[dict[str, Scaled]]
    margins: Array
    apart: Array
    left_out: Array


def ridge(rows: Array, sets: Sets, *, table: bool = False) -> float:
    """Return the l2 of `FirthClassifier`'s "scale", for rows (N, r) whose weighted mean is zero.

    In a table it goes on falling with the shots, of which the harmonic mean counts: few columns
    need little ridge once there are rows.
    """
    total = float(sets.weights[0].sum())
    share = np.sqrt(sets.alike[0] / total).astype(rows.dtype)[:, None] * rows
    few = share @ share.T if len(rows) < rows.shape[1] else share.T @ share
    trace, squares = float(np.trace(few)), float(np.vdot(few, few))
    if not squares:
        return 1.0
    directions = min(1.0, trace**2 / squares / (total - 1)) if total > 2 else 1.0
    if table:
        return trace * min(directions, float(np.mean(1 / sets.counts[0]) ** TABLE_RIDGE))
    return trace * max(LEAST_RIDGE, min(directions, float(np.sqrt(sets.n_classes / total))))


def margin(logits: Array) -> Array:
    """Return how much more a head gives classes at their own means, from (…, K, K) logits there."""
    K = logits.shape[-1]
    own = np.trace(logits, axis1=-2, axis2=-1) / K
    others = (logits.sum(axis=(-2, -1)) / K - own) / (K - 1)
    found = own - others
    return np.where(found > LEAST_MARGIN, found, 0.0)


def fit_heads(
    rows: Array, sets: Sets, names: Sequence[str], penalty: FirthPenalty, dimensions: int
) -> FittedHeads:
    """Fit the named heads to every set of rows (S, N, r), in all kinds of columns.

    Parameters
    ----------
    dimensions : of the space in which the rows' coordinates were found
    """
    sets = sets.of(rows.dtype)
    spread = spread_of(rows, sets)
    scatter = _scatters(rows, sets)
    found = {name: _fit(name, spread, scatter, penalty, dimensions) for name in names}
    left, valid = rows[:, sets.left], sets.left >= 0
    margins, left_out = {}, []
    for name, head in found.items():
        scale = margin(head.logits(spread.means))
        margins[name], own = scale[:, 0], scale[:, 1:, None, None]
        logits = _taken(head, np.s_[:, 1:]).logits(left)
        logits = np.where(own > 0, logits / np.where(own > 0, own, 1.0), 0.0)
        left_out.append(logits[:, valid])
    first = {name: _taken(head, np.s_[:, 0]) for name, head in found.items()}
    return FittedHeads(
        [
            {name: Scaled(_taken(head, s), margins[name][s]) for name, head in first.items()}
            for s in range(len(rows))
        ],
        np.stack([*margins.values()], axis=1),
        _apart(margins.get("means"), spread, dimensions),
        np.stack(left_out, axis=1, dtype=np.float64),
    )


def _apart(of_means: Array | None, spread: Spread, dimensions: int) -> Array:
    """Return the margin of class means in every kind, (S,), in independent directions alone.

    A sphere in d dimensions takes all of them for independent, so that its margin is as many times
    too large as there are dimensions to a direction. Few rows say little of the spread inside
    classes: the usual ratio of the classes' spread to it stands for some more.
    """
    if of_means is None:
        of_means = margin(fit_means(spread, dimensions).logits(spread.means))[:, 0]
    ratio = np.minimum(of_means / dimensions, LARGEST_RATIO)
    known = float(spread.sets.freedom[0])
    ratio = (known * ratio + USUAL_COUNTS * USUAL_RATIO) / (known + USUAL_COUNTS)
    return np.asarray(ratio * np.minimum(class_directions(spread), dimensions))


def _fit(
    name: str, spread: Spread, scatter: Array, penalty: FirthPenalty, dimensions: int
) -> BlendHead:
    if name == "firth":
        return fit_firth(spread.rows, spread.sets, penalty)
    if name == "gaussian":
        return fit_gaussian(spread, scatter, dimensions)
    return fit_means(spread, dimensions) if name == "means" else fit_neighbours(spread)


def fit_firth(rows: Array, sets: Sets, penalty: FirthPenalty) -> FirthHead:
    """Fit the Firth head to every set; classes count alike in each."""
    return FirthHead(fit_all(rows, sets, penalty.lam, penalty.l2))


def _scatters(rows: Array, sets: Sets) -> Array:
    """Return Σ w x x' of every set, (S, B, r, r): of all rows, then less those left out."""
    weighted = rows * np.sqrt(sets.weights[0])[:, None]
    found = np.empty((len(rows), len(sets.weights), rows.shape[2], rows.shape[2]), rows.dtype)
    found[:, 0] = weighted.mT @ weighted
    for number, left in enumerate(sets.left, 1):
        some = weighted[:, left[left >= 0]]
        found[:, number] = found[:, 0] - some.mT @ some
    return found


def _taken(head: Any, at: Any) -> Any:
    """Return a head with a part of the leading axes of its arrays."""
    return type(head)(*(part[at] for part in vars(head).values()))
