"""The support set of an estimator: validated features, class numbers, weights and prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from firthshot.arrays import Array
from firthshot.errors import FirthshotError

Candidates = Sequence[tuple[float, float]]  # pairs (λ, l2)

# From so many multiplications on, they take most of the time of a small fit, and float32 is good
# enough. Below, rounding of float64 is all that tells a row given twice from a weight of two.
WORTH_SINGLE = 1e5


@dataclass(frozen=True)
class Support:
    """What a head is fitted to: rows of positive weight only."""

    X: Any  # (N, d), float32 or float64; a SciPy CSR array where sparse input is accepted
    labels: Array  # (N,), class numbers 0 … K − 1, every one of them present
    weights: Array  # (N,), positive: sample weight times class weight
    prior: Array  # (K,), the u of λ KL(u‖p)

    @property
    def n_classes(self) -> int:
        """Return K."""
        return len(self.prior)

    @property
    def rows_per_class(self) -> Array:
        """Return the number of rows of every class, (K,)."""
        return np.bincount(self.labels, minlength=self.n_classes)

    @cached_property
    def moments(self) -> Moments:
        """Return the size and the spread of the rows, or refuse those whose squares overflow."""
        away, centre = self.centred
        with np.errstate(over="ignore", invalid="ignore"):
            spread = float(self.weights @ np.vecdot(away, away) / self.weights.sum())
            square = spread + float(centre @ centre)
        largest = np.abs(self.dense[0]).max() if not SMALLEST_SQUARE < square < np.inf else 0.0
        if largest > 0:
            raise FirthshotError(
                f"The largest feature is {largest:.3g}, whose square cannot be computed: "
                "scale the features."
            )
        return Moments(square or 1.0, spread or 1.0)

    @property
    def far(self) -> bool:
        """Tell whether rows are so far from the origin that differences drown in products."""
        return self.moments.spread < FAR * self.moments.square

    @property
    def near(self) -> tuple[Array, Array | None]:
        """Return the rows less their mean, and that mean, or the rows and None if not `far`."""
        return self.centred if self.far else (self.dense[0], None)

    @cached_property
    def centred(self) -> tuple[Array, Array]:
        """Return the rows as an ordinary array in float64 less their mean, and that mean.

        The mean of a constant column is its value.
        """
        X, share = self.dense[0], self.weights / self.weights.sum()
        first = np.asarray(X[0], np.float64)
        centre = first + share @ (X - first)
        return X - centre, centre

    @property
    def work(self) -> float:
        """Return the multiplications of one product of all logits."""
        X = self.dense[0]
        return float(self.n_classes * len(X) * min(X.shape))

    @property
    def in_single(self) -> bool:
        """Tell whether products are many, so that float32 is worth its loss of digits."""
        return self.work >= WORTH_SINGLE

    @cached_property
    def gram(self) -> Array:
        """Return the inner products of the centred rows, (N, N), in float32 where they are many."""
        away = self.centred[0]
        away = away.astype(np.float32) if self.in_single else away
        return away @ away.T

    @property
    def gram_of_lengths(self) -> Array:
        """Return the inner products of the rows as they are, (N, N)."""
        away, centre = self.centred
        along = (away @ centre).astype(self.gram.dtype)
        return np.asarray(self.gram + along[:, None] + along + float(centre @ centre))

    @cached_property
    def dense(self) -> tuple[Array, Array | None]:
        """Return the rows as an ordinary array, and of sparse ones which columns it holds.

        A column without entries has no weight at the optimum (of least norm), so that the columns
        that occur in a few sparse rows are all that matters.
        """
        if isinstance(self.X, np.ndarray):
            return self.X, None
        columns = np.unique(self.X.indices)
        if not len(columns):
            columns = np.zeros(1, np.int64)
        return self.X[:, columns].toarray(), columns

    @cached_property
    def prepared(self) -> dict[tuple[bool, ...], Any]:
        """Hold the rows as the small solver sees them: intercept, precision, ridge."""
        return {}

    @property
    def rows_differ(self) -> bool:
        """Tell whether the rows can say anything of the classes at all."""
        X = self.dense[0]
        return bool((X[0] != X).any())

    def one_hot(self) -> Array:
        """Return the labels as probabilities, (N, K) in float64."""
        return np.eye(self.n_classes)[self.labels]

    def weights_without(self, rows: Array) -> Array:
        """Return the weights, zero for some rows."""
        weights = self.weights.copy()
        weights[rows] = 0.0
        return weights

    def without(self, rows: int | Array) -> Support:
        """Return the support set without some rows; the prior stays as it is."""
        kept = np.ones(len(self.labels), bool)
        kept[rows] = False
        return replace(self, X=self.X[kept], labels=self.labels[kept], weights=self.weights[kept])


def check_labels(y: Array) -> None:
    """Refuse labels that are no classes, in scikit-learn's words, or that cannot be sorted."""
    from sklearn.utils.multiclass import check_classification_targets

    try:
        check_classification_targets(y)
    except TypeError:
        kinds = sorted({type(one).__name__ for one in y.tolist()})
        raise FirthshotError(
            f"The labels are of kinds that cannot be sorted ({', '.join(kinds)}): make them all "
            "text or all numbers."
        ) from None


def encode(y: Array) -> tuple[Array, Array]:
    """Return the classes in sorted order and the class number of every label."""
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise FirthshotError(f"The labels hold one class only, {classes[0]}: give two or more.")
    return classes, labels


def check_weights(sample_weight: ArrayLike | None, n: int) -> Array:
    """Return one finite, not negative weight per row, in float64, or refuse them."""
    if sample_weight is None:
        return np.ones(n)
    weights: Array = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise FirthshotError(
            f"sample_weight has shape {weights.shape}; give one number for each of {n} rows."
        )
    bad = np.flatnonzero(~((weights >= 0) & (weights < np.inf)))
    if len(bad):
        raise FirthshotError(
            f"sample_weight of row {bad[0]} is {weights[bad[0]]}; weights must be finite and "
            "not negative."
        )
    return weights


def weigh_classes(class_weight: Any, classes: Array, labels: Array, weights: Array) -> Array:
    """Return the weights times the weight of each row's class, as scikit-learn's own do.

    ``"balanced"`` gives every class the same total, that of all rows over K.
    """
    if class_weight is None:
        return weights
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise FirthshotError(
                f"class_weight is {class_weight!r}; give 'balanced', a dictionary or None."
            )
        totals = np.bincount(labels, weights, minlength=len(classes))
        return np.asarray(weights * (weights.sum() / (len(classes) * totals))[labels])
    from sklearn.utils.class_weight import compute_class_weight

    factors = compute_class_weight(class_weight, classes=classes, y=classes[labels])
    bad = np.flatnonzero(~((factors > 0) & (factors < np.inf)))
    if len(bad):
        raise FirthshotError(
            f"class_weight of class {classes[bad[0]]} is {factors[bad[0]]}; give finite numbers "
            "above zero, or leave the rows of that class away."
        )
    return np.asarray(weights * factors[labels])


FAR = 1e-3  # the spread of the rows as a share of their mean square, below which they are centred
SMALLEST_SQUARE = 1e-280  # below, products with other small numbers vanish
LEAST_SHARE = 0.25
MANY_ROWS = 1000  # beyond that a quarter of as many directions is not to be expected


@dataclass(frozen=True)
class Moments:
    """How large rows are, as weighted means; 1 where they would be zero."""

    square: float  # mean squared length
    spread: float  # mean squared distance from the mean of the rows


def scale_l2(support: Support) -> float:
    """Return the l2 of ``"scale"``, v max(¼, min(r / (N - 1), √(K / N))), from the rows alone.

    v is the mean squared distance of the rows from their mean, so that predictions do not depend
    on the scale of the features; r the number of directions that the rows effectively go in, and
    N the sum of the weights: N rows at right angles have r / (N - 1) = 1, and in few directions
    v stands for the few large ones. ``studies/defaults`` has the measurements behind it.
    Rows that are all equal get v = 1.
    """
    spread = support.moments.spread  # refuses rows whose squares overflow
    total, directions = float(support.weights.sum()), 1.0
    if total > 2:
        few = len(support.weights) <= MANY_ROWS
        directions = min(1.0, _effective_directions(support) / (total - 1)) if few else 0.0
    share = min(directions, np.sqrt(support.n_classes / total))
    return float(spread * max(LEAST_SHARE, share))


def shots_lam(support: Support) -> float:
    """Return the λ of ``"shots"``, (K / N)² with N the sum of the weights."""
    return (support.n_classes / float(support.weights.sum())) ** 2


def _effective_directions(support: Support) -> float:
    """Return (tr S)² / tr S² of the rows' covariance S: n equal eigenvalues, if alone, give n."""
    away, share = support.centred[0], support.weights / support.weights.sum()
    spread = support.moments.spread
    if len(away) <= 2 * away.shape[1]:  # a fit of so few rows needs their products anyway
        half = np.sqrt(share / spread).astype(support.gram.dtype)
        few = half[:, None] * support.gram * half
    else:
        few = away * np.sqrt(share / spread)[:, None]
        few = few.T @ few
    return 1.0 / (float(np.vdot(few, few)) or 1.0)


def used_rows(weights: Array, classes: Array, labels: Array) -> Array:
    """Return the rows of positive weight, or refuse if a class has none."""
    used = np.flatnonzero(weights > 0)
    if not len(used):
        raise FirthshotError("Every sample weight is zero: give some rows a positive weight.")
    missing = classes[np.bincount(labels[used], minlength=len(classes)) == 0]
    if len(missing):
        raise FirthshotError(
            f"The class {missing[0]} has no row of positive weight: remove its rows or weigh them."
        )
    return used


def rank_in_class(along: Array, labels: Array, apart: float) -> Array:
    """Return the position of every row among the distinct rows of its class, (N,).

    Rows lie at ``along`` on some direction; two of a class are distinct where they are farther
    apart than this share of the largest.
    """
    order = np.lexsort((along, labels))
    labels, along = labels[order], along[order]
    new_class = np.diff(labels, prepend=-1) != 0
    new_row = new_class | (np.diff(along, prepend=0.0) > apart * np.abs(along).max())
    number = np.cumsum(new_row)
    rank = np.empty(len(labels), np.int64)
    rank[order] = number - np.maximum.accumulate(np.where(new_class, number, 0))
    return rank
