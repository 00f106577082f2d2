"""Two methods on the same left-out rows: what each gains, and whether chance explains it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from firthshot.arrays import Array
from firthshot.objective import softmax
from firthshot.own_data.assessment.rows import LabelledFit, LeftOutRows
from firthshot.own_data.novelty import Novelty, fit_novelty

Z = 1.96
UNEVEN = 2  # times as many rows as the smallest class has


@dataclass(frozen=True)
class Gain:
    """A mean difference over rows and its 95 % interval; above zero is better."""

    mean: float
    low: float
    high: float

    @property
    def certain(self) -> bool:
        """Tell whether zero lies outside the interval."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class RivalScore:
    """Another method on the left-out rows, and what the fitted one gains over it."""

    name: str
    accuracy: float  # of the other method
    log_loss: float
    points: Gain  # of the fitted one in accuracy, a share …
    nats: Gain  # … and in log-loss


def rival_score(task: LabelledFit, name: str, ours: LeftOutRows, theirs: LeftOutRows) -> RivalScore:
    """Compare two methods row by row."""
    return RivalScore(
        name,
        task.mean(theirs.right, theirs.labels),
        task.mean(theirs.loss, theirs.labels),
        _gain(task, ours.right - theirs.right, ours.labels, most=1.0),
        _gain(task, theirs.loss - ours.loss, ours.labels),
    )


def _gain(task: LabelledFit, differences: Array, labels: Array, most: float = np.inf) -> Gain:
    """Return the mean of differences; a further row of difference 1 holds its interval open.

    ``most`` is the largest mean that there can be.
    """
    mean = task.mean(differences, labels)
    shares = _shares(task, labels)
    largest = min(float(np.abs(differences).max(initial=0.0)), 1.0) or 1.0
    variance = float(shares**2 @ (differences - mean) ** 2) + (largest * shares.max()) ** 2
    half = Z * float(np.sqrt(variance))
    return Gain(mean, max(mean - half, -most), min(mean + half, most))


def _shares(task: LabelledFit, labels: Array) -> Array:
    if not task.alike:
        return np.full(len(labels), 1 / len(labels))
    counts = np.bincount(labels, minlength=len(task.classes))
    return np.asarray(1 / ((counts > 0).sum() * counts[labels]))


def rivals(task: LabelledFit) -> dict[str, Any]:
    """Return what one would take instead, by name: all unfitted."""
    from sklearn.linear_model import LogisticRegression

    found: dict[str, Any] = {
        "LogisticRegression()": LogisticRegression(),
        "nearest class mean": NearestMean(),
    }
    if "lam" in task.estimator.get_params():
        found["λ = 0"] = clone(task.estimator).set_params(lam=0.0)
    if task.alike and task.counts.max() >= UNEVEN * task.counts.min():
        found["no class weights"] = _unweighted(task.estimator)
    return found


def _unweighted(estimator: Any) -> Any:
    """Return the estimator for new rows that are as uneven as those to fit."""
    explicit = "class_weight" in estimator.get_params()
    changed = {"class_weight": None} if explicit else {"class_prior": "training"}
    return clone(estimator).set_params(**changed)


class NearestMean(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Class means of rows of length 1, or of columns on one scale, as `novelty` places them."""

    def fit(self, X: Array, y: Array) -> Self:
        """Fit to labelled rows."""
        self.classes_, labels = np.unique(y, return_inverse=True)
        self._means: Novelty = fit_novelty(np.asarray(X), labels.ravel())
        return self

    def predict_proba(self, X: Array) -> Array:
        """Return a softmax of squared distances, on the scale of left-out rows."""
        known = self._means.known
        scale = float(np.median(known)) if len(known) else 1.0
        return np.asarray(softmax(-self._means.distances(X) / (scale or 1.0)))
