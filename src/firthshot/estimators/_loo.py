"""Leave-one-out: what a support set says of a head without any other data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from firthshot.estimators._support import Array, Support
from firthshot.objective import log_softmax

if TYPE_CHECKING:
    from collections.abc import Sequence

FitT = TypeVar("FitT")


@dataclass(frozen=True)
class LeftOut:
    """Predictions of each row by a head that was fitted without it.

    Attributes
    ----------
    rows : (R,), which rows of the support set (of positive weight) could be left out
    labels, weights : (R,), their class numbers and weights
    logits : (R, K)
    """

    rows: Array
    labels: Array
    weights: Array
    logits: Array

    @property
    def nll(self) -> float:
        """Return the weighted mean of −log p of the labels, NaN without rows."""
        return score(self)[0]

    @property
    def accuracy(self) -> float:
        """Return the weighted share of rows whose label is the most probable class."""
        return score(self)[1]

    @property
    def predicted(self) -> Array:
        """Return the most probable class number of each row, (R,)."""
        return np.asarray(self.logits.argmax(axis=1))


@dataclass(frozen=True)
class Choice(Generic[FitT]):
    """The coefficients of an estimator, where they come from, and the head fitted with them."""

    lam: float
    l2: float
    lam_source: str
    l2_source: str
    fit: FitT
    path: dict[str, Array] | None = None
    fell_back: bool = False


def leavable_rows(support: Support) -> Array:
    """Return the rows that are not the only one of their class: the others teach all there is."""
    return np.flatnonzero(support.rows_per_class[support.labels] > 1)


def score(left: LeftOut) -> tuple[float, float]:
    """Return the weighted mean negative log-likelihood and accuracy of left-out predictions."""
    if not len(left.rows):
        return float("nan"), float("nan")
    log_p = log_softmax(left.logits)[np.arange(len(left.labels)), left.labels]
    right = left.predicted == left.labels
    return (
        float(-np.average(log_p, weights=left.weights)),
        float(np.average(right, weights=left.weights)),
    )


def choose(
    left: Sequence[LeftOut], path: Sequence[tuple[float, float]]
) -> tuple[int, dict[str, Array]]:
    """Return the position of the least left-out nll, and the scores of the whole path."""
    scores = np.array([score(one) for one in left])
    lam, l2 = np.array(path).T
    found = {"lam": lam, "l2": l2, "nll": scores[:, 0], "accuracy": scores[:, 1]}
    return int(np.argmin(scores[:, 0])), found
