"""How good a fit is, from its own rows: left out, subsampled, compared and doubted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.own_data.assessment.compare import RivalScore, rival_score, rivals
from firthshot.own_data.assessment.doubts import Doubt, doubted_labels
from firthshot.own_data.assessment.estimate import (
    AccuracyEstimate,
    LearningCurve,
    estimate_accuracy,
)
from firthshot.own_data.assessment.rows import LabelledFit, LeftOutRows, leave_out, rounds_of

BINS = 10
TWICE = 2.0
Z = 1.96


@dataclass(frozen=True)
class MixedUp:
    """The two classes that are taken for one another most often."""

    one: str
    other: str
    one_as_other: int
    other_as_one: int


@dataclass(frozen=True)
class MoreRows:
    """What twice as many rows per class would bring, by the learning curve."""

    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class Assessment:
    """What left-out rows and subsamples say of a fit."""

    left: LeftOutRows  # with what fits without them say
    estimate: AccuracyEstimate  # of new rows
    log_loss: float  # of the left-out rows
    ece: float
    rivals: tuple[RivalScore, ...]  # other methods on the same left-out rows
    curve: LearningCurve  # accuracy by rows per class …
    more: MoreRows  # … and with twice as many
    doubts: tuple[Doubt, ...]  # rows whose labels look wrong
    confusion: Array  # (K, K): labels by predictions of the left-out rows
    classes: Array  # (K,)

    def rival(self, name: str) -> RivalScore | None:
        """Return the score of another method by its name; None if it was not tried."""
        return next((one for one in self.rivals if one.name == name), None)

    @property
    def mixed_up(self) -> MixedUp | None:
        """Return the pair of classes with the most mistakes between them."""
        table = self.confusion.copy()
        np.fill_diagonal(table, 0)
        both = np.triu(table + table.T)
        if not both.any():
            return None
        one, other = (int(at) for at in np.unravel_index(both.argmax(), both.shape))
        names = str(self.classes[one]), str(self.classes[other])
        return MixedUp(*names, int(table[one, other]), int(table[other, one]))

    @property
    def uncertain(self) -> Array:
        """Return places among the left-out rows, those with the closest two classes first."""
        two = np.sort(self.left.probabilities, axis=1)[:, -2:]
        return np.argsort(two[:, 1] - two[:, 0], kind="stable")


def assess(task: LabelledFit) -> Assessment | None:
    """Assess a fit by its own rows; None where every class has one row."""
    rounds = rounds_of(task)
    if not rounds:
        return None
    left = leave_out(task, rounds)
    estimate, curve = estimate_accuracy(task, left)
    K = len(task.classes)
    return Assessment(
        left=left,
        estimate=estimate,
        log_loss=task.mean(left.loss, left.labels),
        ece=expected_calibration_error(left.probabilities, left.labels),
        rivals=tuple(
            rival_score(task, name, left, leave_out(task, rounds, estimator))
            for name, estimator in rivals(task).items()
        ),
        curve=curve,
        more=_more(estimate, curve),
        doubts=tuple(doubted_labels(task, left, rounds)),
        confusion=np.bincount(left.labels * K + left.predicted, minlength=K * K).reshape(K, K),
        classes=task.classes,
    )


def _more(estimate: AccuracyEstimate, curve: LearningCurve) -> MoreRows:
    gain, doubt = curve.gain(curve.shots, TWICE * curve.shots)
    accuracy = min(estimate.accuracy + gain, 1.0)
    below, above = (
        float(np.hypot(Z * doubt, edge - estimate.accuracy))
        for edge in (estimate.low, estimate.high)
    )
    return MoreRows(accuracy, max(accuracy - below, 0.0), min(accuracy + above, 1.0))


def expected_calibration_error(probabilities: Array, labels: Array) -> float:
    """Return the mean gap between confidence and accuracy over 15 bins of the confidence."""
    which, confidence, right = binned(probabilities, labels, 15)
    gaps = np.bincount(which, confidence, 15) - np.bincount(which, right, 15)
    return float(np.abs(gaps).sum() / len(labels))


def binned(probabilities: Array, labels: Array, bins: int = BINS) -> tuple[Array, Array, Array]:
    """Return of each row the bin of its confidence, the confidence, and whether it was right."""
    confidence = probabilities.max(axis=1)
    right = (probabilities.argmax(axis=1) == labels).astype(np.float64)
    return np.minimum((confidence * bins).astype(np.intp), bins - 1), confidence, right


def to_dict(found: Assessment) -> dict[str, Any]:
    """Return the scores as plain values, for JSON."""
    return {
        "accuracy": asdict(found.estimate),
        "log_loss": found.log_loss,
        "ece": found.ece,
        "rivals": [asdict(one) for one in found.rivals],
        "mixed_up": None if found.mixed_up is None else asdict(found.mixed_up),
        "twice_the_rows": asdict(found.more),
        "doubtful_labels": [asdict(one) for one in found.doubts],
    }
