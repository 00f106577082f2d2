"""What new rows will see: accuracy with an interval that holds.

Left-out rows meet fits to somewhat fewer rows than there are. The learning curve says what those
are worth. A class of one row cannot be left out: it counts with the accuracy that the other
classes reach when each of them keeps one row, the rest as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.own_data.assessment.curve import (
    CurvePoint,
    LearningCurve,
    learning_curve,
    shots_of,
    standard_error,
)
from firthshot.own_data.assessment.rows import LabelledFit, LeftOutRows

Z = 1.96
WIDER = 1.15  # left-out rows share their fits: settled by studies/own_data
PARTS = 4  # of the classes, each of which keeps one row in turn


@dataclass(frozen=True)
class AccuracyEstimate:
    """The accuracy that new rows will see.

    Attributes
    ----------
    accuracy : the estimate; low, high : its 95 % interval
    measured : accuracy of the left-out rows as it is, by fits to fewer rows
    rows : rows that were left out
    single : classes of one row, which cannot be left out
    single_accuracy : what they count with; None if there is none, or nothing to tell it from
    chance : what guessing the best class reaches
    """

    accuracy: float
    low: float
    high: float
    measured: float
    rows: int
    single: int = 0
    single_accuracy: float | None = None
    chance: float = 0.0

    def __str__(self) -> str:
        low, high = 100 * self.low, 100 * self.high
        return f"{100 * self.accuracy:.1f} % ({low:.0f}–{high:.0f})"


def estimate_accuracy(
    task: LabelledFit, left: LeftOutRows
) -> tuple[AccuracyEstimate, LearningCurve]:
    """Return the estimate and the learning curve that it rests on."""
    measured = task.mean(left.right, left.labels)
    several = task.counts > 1
    tested = np.bincount(left.labels, minlength=len(task.classes))[several]
    shots = shots_of(_known(task)[several])
    worth = _worth(tested) if task.alike else float(tested.sum())
    last = CurvePoint(shots, measured, standard_error(measured, worth))
    curve = learning_curve(task, last)
    gain, doubt = curve.gain(shots, shots_of(task.counts[several]))
    accuracy, single = min(measured + gain, 1.0), int((~several).sum())
    alone = _alone(task) if single else None
    if alone is not None:
        share = single / len(task.classes) if task.alike else single / len(task)
        accuracy = (1 - share) * accuracy + share * alone
        worth = _worth(np.where(several, np.maximum(task.counts, 1), 1))
    low, high = _interval(accuracy, worth, doubt)
    chance = (
        1 / len(task.classes) if task.alike else float(np.bincount(task.labels).max()) / len(task)
    )
    estimate = AccuracyEstimate(accuracy, low, high, measured, len(left), single, alone, chance)
    return estimate, curve


def _known(task: LabelledFit) -> np.ndarray:
    """Return how many rows of each class the fits without a round had, (K,)."""
    number = min(task.rounds, int(task.counts.max()))
    return np.asarray(np.maximum(task.counts - np.maximum(task.counts / number, 1.0), 1.0))


def _worth(tested: np.ndarray) -> float:
    """Return as many rows as a mean over classes is worth: K² / Σ 1/n."""
    return float(len(tested) ** 2 / (1.0 / np.maximum(tested, 1)).sum())


def _alone(task: LabelledFit) -> float:
    """Return the accuracy of classes that keep one row while the others keep theirs."""
    several = np.flatnonzero(task.counts > 1)
    right, labels = [], []
    for part in range(min(PARTS, len(several))):
        chosen = np.isin(task.labels, several[part::PARTS])
        known, asked = chosen & (task.rank == 0), chosen & (task.rank > 0)
        asked_rows = np.flatnonzero(asked)
        p = task.probabilities(np.flatnonzero(known | ~chosen), asked_rows)
        right.append(p.argmax(axis=1) == task.labels[asked_rows])
        labels.append(task.labels[asked_rows])
    return task.mean(np.concatenate(right).astype(np.float64), np.concatenate(labels))


def _interval(accuracy: float, worth: float, doubt: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of so many rows, wider by a further standard error."""
    z = Z * WIDER
    centre = (accuracy + z**2 / (2 * worth)) / (1 + z**2 / worth)
    spread = accuracy * (1 - accuracy) / worth + z**2 / (4 * worth**2)
    half = float(np.hypot(z * np.sqrt(spread) / (1 + z**2 / worth), z * doubt))
    return max(centre - half, 0.0), min(centre + half, 1.0)
