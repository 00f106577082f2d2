"""What new rows will see: accuracy with an interval that holds, and what more rows would bring.

Left-out rows meet fits to somewhat fewer rows than there are. The learning curve says what those
are worth: error = a + b / √m with a, b ≥ 0 and m rows per class, fitted to subsamples. A weak guess
of a, the error of infinitely many rows, stands beside the points: few of them say nothing of it.
`studies/own_data` measures how often the intervals hold. A class of one row cannot be left out: it
counts with the accuracy that the other classes reach when each of them keeps one row, the rest as
it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array
from firthshot.own_data.assessment.rows import LabelledFit, LeftOutRows

Z = 1.96
WIDER = 1.15  # left-out rows share their fits: settled by studies/own_data
PARTS = 4  # of the classes, each of which keeps one row in turn
POWER = 0.5
FLOOR = 0.5  # share of the least error seen that infinitely many rows are guessed to leave …
DOUBT = 0.5  # … with this standard error, a share of the same
DRAWS = {1: 4, 2: 3, 4: 2}  # subsamples by rows per class; one of larger ones
TESTED = 600  # rows, at most, that a subsample is tested on
SHAPE = 0.35  # share of a gain that the shape of the curve alone leaves open


@dataclass(frozen=True)
class AccuracyEstimate:
    """The accuracy that new rows will see."""

    accuracy: float
    low: float  # of a 95 % interval
    high: float
    measured: float  # of the left-out rows as it is, by fits to fewer rows
    rows: int  # that were left out
    single: int = 0  # classes of one row, which cannot be left out …
    single_accuracy: float | None = None  # … and what they count with, if anything tells it
    chance: float = 0.0  # what guessing the best class reaches

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


def _known(task: LabelledFit) -> Array:
    """Return how many rows of each class the fits without a round had, (K,)."""
    number = min(task.rounds, int(task.counts.max()))
    return np.asarray(np.maximum(task.counts - np.maximum(task.counts / number, 1.0), 1.0))


def _worth(tested: Array) -> float:
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


@dataclass(frozen=True)
class CurvePoint:
    """Accuracy of fits to some rows per class, and its standard error."""

    shots: float
    accuracy: float
    error: float


@dataclass(frozen=True)
class LearningCurve:
    """Accuracy by rows per class."""

    points: tuple[CurvePoint, ...]  # what subsamples measured, few rows first, then left-out rows
    floor: float  # a of the curve …
    slope: float  # … and b, …
    spread: float  # … with its standard error
    shots: float  # rows per class that there are, as the curve counts them

    def accuracy(self, shots: float) -> float:
        """Return what the curve expects of fits to so many rows per class."""
        return float(1.0 - self.floor - self.slope * shots**-POWER)

    def gain(self, before: float, after: float) -> tuple[float, float]:
        """Return what the curve expects of more rows per class, and the standard error of it."""
        lever = before**-POWER - after**-POWER
        gain = self.slope * lever
        return gain, float(np.hypot(self.spread * lever, SHAPE * gain))


def shots_of(counts: Array) -> float:
    """Return the harmonic mean of rows per class: classes of few rows make most mistakes."""
    return float(len(counts) / (1.0 / counts).sum())


def learning_curve(task: LabelledFit, last: CurvePoint) -> LearningCurve:
    """Measure the curve by subsamples; the last point is that of the left-out rows."""
    sizes = [2**j for j in range(20) if 2**j < last.shots * 0.8]
    points = (*(_point(task, size) for size in sizes), last)
    return _fitted(points, shots_of(task.counts))


def _point(task: LabelledFit, size: int) -> CurvePoint:
    means, tested, draws = [], 0, min(DRAWS.get(size, 1), task.rounds // 2)
    for draw in range(draws):
        turned = (task.rank + draw * size) % np.maximum(task.counts, 1)[task.labels]
        known, others = np.flatnonzero(turned < size), np.flatnonzero(turned >= size)
        asked = np.random.default_rng(draw).permutation(others)[:TESTED]
        p = task.probabilities(known, asked)
        right = (p.argmax(axis=1) == task.labels[asked]).astype(np.float64)
        means.append(task.mean(right, task.labels[asked]))
        tested += len(asked)
    accuracy = float(np.mean(means))
    shots = shots_of(np.minimum(task.counts, size))
    return CurvePoint(shots, accuracy, standard_error(accuracy, min(tested, len(task))))


def standard_error(accuracy: float, rows: float) -> float:
    """Return the standard error of a share, held away from zero where all is right or wrong."""
    share = (accuracy * rows + 1.0) / (rows + 2.0)
    return float(np.sqrt(share * (1 - share) / rows))


def _fitted(points: tuple[CurvePoint, ...], shots: float) -> LearningCurve:
    """Fit a and b by weighted least squares, neither below zero."""
    from scipy.optimize import nnls

    errors = np.array([1 - point.accuracy for point in points])
    least = max(float(errors.min()), 1e-3)
    known = np.column_stack(
        [np.ones(len(points) + 1), [*(point.shots**-POWER for point in points), 0.0]]
    )
    values = np.append(errors, FLOOR * least)
    weights = 1 / np.append([point.error for point in points], DOUBT * least)
    (floor, slope), _ = nnls(known * weights[:, None], values * weights)
    scatter = np.linalg.inv((known * weights[:, None] ** 2).T @ known)
    return LearningCurve(points, float(floor), float(slope), float(np.sqrt(scatter[1, 1])), shots)
