"""Rows as the heads see them: columns on some scale, in as few axes as there are rows.

N rows of d > N columns lie in a space of N dimensions. All heads depend on inner products alone, so
that they work in coordinates of that space. A new row has one coordinate more: its distance from
the space.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.errors import FirthshotError
from firthshot.estimators._few_shot.sets import Sets

KINDS = ("power", "unit", "scaled", "plain")

# As `_columns.wide_columns` has them.
EMBEDDING, UNLIKE_IN_EMBEDDING = 64, 100.0
TOTAL_COUNTS = 4.0  # rows that a column's total variance counts for beside the within-class one
ROUNDING = 1e-12  # of the rows' length: rows that are closer together are equal


def tempered(X: Any) -> Any:
    """Return |x|^(3/4) with the sign of x: a few large values count for less."""
    if isinstance(X, np.ndarray):
        root = np.sqrt(np.abs(X, dtype=np.float64))
        return np.copysign(root * np.sqrt(root), X)
    found = X.astype(np.float64)
    found.data = tempered(found.data)
    return found


def dense_part(X: Any, columns: Array | None) -> tuple[Array, Array]:
    """Return some columns as an array in float64, and the squares of the others by row."""
    if isinstance(X, np.ndarray):
        X = np.asarray(X, np.float64)
        if columns is None:
            return X, np.zeros(len(X))
        unused = np.delete(X, columns, axis=1)  # of a head that was fitted to sparse rows
        return X[:, columns], np.vecdot(unused, unused)
    X = X.astype(np.float64)
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    dense = np.asarray(X[:, columns].toarray())
    return dense, np.maximum(squares - np.vecdot(dense, dense), 0.0)


@dataclass(frozen=True)
class Coordinates:
    """From rows of the user to what the heads see.

    Attributes
    ----------
    kind : "power" (of 3/4, of every value; then as "unit"), "unit" (rows brought to length 1),
        "scaled" (columns divided by their spread) or "plain"
    mean : (c,), taken from every row once it has its length or scale
    spread : (c,), what the columns are divided by before
    basis : (c, r), orthonormal, or None where the rows keep their columns
    size : what everything is divided by in the end, so that squared distances are about 1
    outside : whether new rows may lie outside the space of the examples
    """

    kind: str
    mean: Array
    spread: Array
    basis: Array | None
    size: float
    outside: bool

    def apply(self, X: Any, columns: Array | None = None) -> Array:
        """Return coordinates (n, r) of rows, of which these columns were used; all if None.

        Where rows may lie outside the examples' space, the last is the distance from it.
        """
        dense, rest = dense_part(tempered(X) if self.kind == "power" else X, columns)
        seen, rest = _brought(dense, rest, self.kind, self.spread)
        seen = inside = (seen - self.mean) / self.size
        if self.basis is not None:
            seen = seen.astype(self.basis.dtype, copy=False)
            inside = seen @ self.basis
        if not self.outside:
            return inside
        rest = rest / self.size**2
        if self.basis is not None:
            rest = rest + np.vecdot(seen, seen) - np.vecdot(inside, inside)
        return np.column_stack([inside, np.sqrt(np.maximum(rest, 0.0))])


def place(
    dense: Array, sets: Sets, kind: str, *, sparse: bool = False, dtype: type = np.float64
) -> Coordinates:
    """Return the coordinates of labelled rows (N, c), with a basis of this type."""
    dense = tempered(dense) if kind == "power" else dense
    spread = _spread(dense, sets) if kind == "scaled" else np.ones(dense.shape[1])
    seen, _ = _brought(dense, np.zeros(len(dense)), kind, spread)
    share = sets.alike[0] / sets.weights[0].sum()
    mean = share @ seen
    seen = seen - mean
    size = float(np.sqrt(share @ np.vecdot(seen, seen)))
    differ = size > ROUNDING * float(np.sqrt(mean @ mean))
    many = dense.shape[1] >= EMBEDDING and len(dense) < dense.shape[1]
    basis = _orthonormal(seen.T.astype(dtype, copy=False)) if many else None
    return Coordinates(kind, mean, spread, basis, size if differ else 1.0, many or sparse)


def _orthonormal(columns: Array) -> Array:
    """Return a basis of the space of some columns, in their own type."""
    if columns.dtype == np.float64:
        return np.linalg.qr(columns)[0]
    from scipy.linalg import qr  # NumPy's is always in float64

    basis: Array = qr(columns, mode="economic", check_finite=False)[0]
    return basis


def suitable_kinds(dense: Array, n_columns: int, *, sparse: bool) -> tuple[str, ...]:
    """Return the ways to bring rows to one scale that are worth trying.

    From 64 columns on rows are an embedding, and their length says little; columns of very unlike
    spread make them a table of several units all the same. Of a narrow table nothing is known
    beforehand. An embedding without negative values, as networks with a ReLU and counts of words
    have it, is skewed: powers below 1 make it less so.
    """
    if n_columns < EMBEDDING and not sparse:
        return ("scaled", "unit")
    if not sparse and _unlike(dense):
        return ("scaled",)
    return ("power",) if dense.min(initial=0.0) >= 0 else ("unit",)


def _unlike(X: Array) -> bool:
    spread = np.sort(X.std(axis=0)[np.ptp(X, axis=0) > 0])
    return bool(len(spread) and spread[-1] > UNLIKE_IN_EMBEDDING * np.median(spread))


def _spread(X: Array, sets: Sets) -> Array:
    """Return what divides each column: its within-class spread, held by its total one.

    A few rows say little of the spread inside classes; the total stands for four more.
    """
    weights, total = sets.weights[0], float(sets.weights[0].sum())
    whole = weights @ np.square(X - weights @ X / total) / max(total - 1, 1)
    inside = weights @ np.square(X - (sets.averaging[0] @ X)[sets.labels])
    variance = (inside + TOTAL_COUNTS * whole) / (sets.freedom[0] + TOTAL_COUNTS)
    varies = (np.ptp(X, axis=0) > 0) & (variance > 0)
    return np.sqrt(np.where(varies, variance, 1.0))


def _brought(dense: Array, rest: Array, kind: str, spread: Array) -> tuple[Array, Array]:
    """Return rows with their length or their columns on one scale, and the squares outside."""
    if kind in ("power", "unit"):
        squares = np.vecdot(dense, dense) + rest
        lengths = np.sqrt(np.where(squares > 0, squares, 1.0))
        return dense / lengths[:, None], rest / lengths**2
    return (dense / spread if kind == "scaled" else dense), rest


def refuse_overflow(X: Array) -> None:
    """Refuse features whose squares are no numbers."""
    largest = float(np.abs(X).max(initial=0.0))
    if largest > 1e150 or 0 < largest < 1e-140:
        raise FirthshotError(
            f"The largest feature is {largest:.3g}, whose square cannot be computed: "
            "scale the features."
        )
