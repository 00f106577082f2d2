"""Rows as the heads see them: columns on a scale that suits them, in as few axes as there are rows.

N rows of d > N columns lie in a space of N dimensions. All heads depend on inner products alone, so
that they work in coordinates of that space. A new row has one coordinate more: its distance from
the space.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.errors import FirthshotError

# As `_columns.wide_columns` has them.
UNLIKE, FAR_APART = 10.0, 100.0
EMBEDDING, UNLIKE_IN_EMBEDDING = 64, 100.0
TOTAL_COUNTS = (
    4.0  # rows that the total variance of a column counts for beside the within-class one
)

ROUNDING = 1e-12  # of the rows' length: rows that are closer together are equal

KINDS = ("unit", "scaled", "plain")


@dataclass(frozen=True)
class LabelledRows:
    """Labelled rows, all of positive weight.

    Attributes
    ----------
    rows : (N, r); labels : (N,), 0 … K − 1; weights : (N,), numbers of rows that each stands for
    n_classes : K
    """

    rows: Array
    labels: Array
    weights: Array
    n_classes: int

    @cached_property
    def counts(self) -> Array:
        """Return the weight of every class, (K,): its shots."""
        return np.bincount(self.labels, self.weights, minlength=self.n_classes)

    @cached_property
    def alike(self) -> Array:
        """Return weights (N,) that give every class the same total; their sum stays."""
        total = self.weights.sum()
        return np.asarray(self.weights * (total / (self.n_classes * self.counts))[self.labels])

    @property
    def freedom(self) -> float:
        """Return rows beyond the first of every class: what within-class spread is known from."""
        return max(0.0, float(self.weights.sum()) - self.n_classes)

    @cached_property
    def class_means(self) -> Array:
        """Return the mean of every class, (K, r)."""
        return np.asarray(self.averaging.T @ self.rows)

    @cached_property
    def averaging(self) -> Array:
        """Return the share of each row in the mean of its class, (N, K), zero in other columns."""
        shares = np.zeros((len(self.labels), self.n_classes))
        shares[np.arange(len(self.labels)), self.labels] = self.weights / self.counts[self.labels]
        return shares

    def take(self, kept: Array) -> LabelledRows:
        """Return some of the rows."""
        return LabelledRows(self.rows[kept], self.labels[kept], self.weights[kept], self.n_classes)


@dataclass(frozen=True)
class Coordinates:
    """From rows of the user to what the heads see.

    Attributes
    ----------
    kind : "unit" (rows brought to length 1), "scaled" (columns divided by their spread) or "plain"
    columns : (c,), which columns of sparse rows the examples use; None for all
    mean : (c,), taken from every row once it has its length or scale
    spread : (c,), what the columns are divided by before
    basis : (c, r), orthonormal, or None where there are as many rows as columns
    size : what everything is divided by in the end, so that squared distances are about 1
    """

    kind: str
    columns: Array | None
    mean: Array
    spread: Array
    basis: Array | None
    size: float

    def apply(self, X: Any) -> Array:
        """Return coordinates (n, r + 1) of rows, the last the distance from the examples' space."""
        dense, outside = _dense(X, self.columns)
        seen, outside = _brought(dense, outside, self.kind, self.spread)
        seen = (seen - self.mean) / self.size
        inside = seen if self.basis is None else seen @ self.basis
        rest = outside / self.size**2
        if self.basis is not None:
            rest = rest + np.einsum("ij,ij->i", seen, seen) - np.einsum("ij,ij->i", inside, inside)
        return np.column_stack([inside, np.sqrt(np.maximum(rest, 0.0))])


def place(X: Any, labels: Array, weights: Array, n_classes: int, kind: str) -> Coordinates:
    """Return the coordinates that suit labelled rows; ``kind`` may be "auto"."""
    columns = None if isinstance(X, np.ndarray) else np.unique(X.indices)
    dense, outside = _dense(X, columns)
    refuse_overflow(dense)
    examples = LabelledRows(dense, labels, weights, n_classes)
    if kind == "auto":
        kind = suitable_kind(dense, weights, X.shape[1], sparse=columns is not None)
    spread = _spread(examples) if kind == "scaled" else np.ones(dense.shape[1])
    seen, _ = _brought(dense, outside, kind, spread)
    share = examples.alike / weights.sum()
    mean = share @ seen
    seen = seen - mean
    size = float(np.sqrt(share @ np.einsum("ij,ij->i", seen, seen)))
    differ = size > ROUNDING * float(np.sqrt(mean @ mean))
    basis = np.linalg.qr(seen.T)[0] if len(seen) < seen.shape[1] else None
    return Coordinates(kind, columns, mean, spread, basis, size if differ else 1.0)


def suitable_kind(X: Array, weights: Array, n_columns: int, *, sparse: bool) -> str:
    """Return how to bring rows to one scale, from the rows alone.

    Columns of unlike spread are a table of several units: each is divided by its own spread. Else
    64 columns or more are an embedding, whose rows are brought to length 1; and fewer are a table
    of one unit, which stays as it is.
    """
    if not sparse and _unlike(X, weights):
        return "scaled"
    return "unit" if n_columns >= EMBEDDING else "plain"


def _unlike(X: Array, weights: Array) -> bool:
    share = weights / weights.sum()
    mean = share @ X
    spread = np.sqrt(np.maximum(share @ np.square(X - mean), 0.0))
    varying = np.sort(spread[np.ptp(X, axis=0) > 0])
    if not len(varying):
        return False
    middle, quartile = float(np.median(varying)), float(varying[(len(varying) - 1) // 4])
    if X.shape[1] >= EMBEDDING:
        return bool(varying[-1] > UNLIKE_IN_EMBEDDING * middle)
    return bool(varying[-1] > min(UNLIKE * middle, FAR_APART * quartile))


def _spread(examples: LabelledRows) -> Array:
    """Return what divides each column: its within-class spread, held by its total one.

    A few rows say little of the spread inside classes; the total stands for four more.
    """
    X, weights = examples.rows, examples.weights
    total = float(weights.sum())
    whole = weights @ np.square(X - weights @ X / total) / max(total - 1, 1)
    inside = weights @ np.square(X - examples.class_means[examples.labels])
    variance = (inside + TOTAL_COUNTS * whole) / (examples.freedom + TOTAL_COUNTS)
    varies = (np.ptp(X, axis=0) > 0) & (variance > 0)
    return np.sqrt(np.where(varies, variance, 1.0))


def _dense(X: Any, columns: Array | None) -> tuple[Array, Array]:
    """Return the used columns as an array in float64, and the squares of the others by row."""
    if isinstance(X, np.ndarray):
        X = np.asarray(X, np.float64)
        if columns is None:
            return X, np.zeros(len(X))
        unused = np.delete(X, columns, axis=1)  # of a head that was fitted to sparse rows
        return X[:, columns], np.einsum("ij,ij->i", unused, unused)
    X = X.astype(np.float64)
    used = X if columns is None else X[:, columns]
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    dense = np.asarray(used.toarray())
    return dense, np.maximum(squares - np.einsum("ij,ij->i", dense, dense), 0.0)


def _brought(dense: Array, outside: Array, kind: str, spread: Array) -> tuple[Array, Array]:
    """Return rows with their length or their columns on one scale, and the squares outside."""
    if kind == "unit":
        squares = np.einsum("ij,ij->i", dense, dense) + outside
        lengths = np.sqrt(np.where(squares > 0, squares, 1.0))
        return dense / lengths[:, None], outside / lengths**2
    return (dense / spread if kind == "scaled" else dense), outside


def refuse_overflow(X: Array) -> None:
    """Refuse features whose squares are no numbers."""
    largest = float(np.abs(X).max(initial=0.0))
    if largest > 1e150 or 0 < largest < 1e-140:
        raise FirthshotError(
            f"The largest feature is {largest:.3g}, whose square cannot be computed: "
            "scale the features."
        )
