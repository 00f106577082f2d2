"""The learning curve: accuracy by rows per class, and what more rows would bring.

Its shape is error = a + b / √m with a, b ≥ 0 and m rows per class, fitted to subsamples. A weak
guess of a, the error of infinitely many rows, stands beside the points: few of them say nothing of
it. `studies/own_data` measures how often its intervals hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array
from firthshot.own_data.assessment.rows import LabelledFit

POWER = 0.5
FLOOR = 0.5  # share of the least error seen that infinitely many rows are guessed to leave …
DOUBT = 0.5  # … with this standard error, a share of the same
DRAWS = {1: 4, 2: 3, 4: 2}  # subsamples by rows per class; one of larger ones
TESTED = 600  # rows, at most, that a subsample is tested on
SHAPE = 0.35  # share of a gain that the shape of the curve alone leaves open


@dataclass(frozen=True)
class CurvePoint:
    """Accuracy of fits to some rows per class, and its standard error."""

    shots: float
    accuracy: float
    error: float


@dataclass(frozen=True)
class LearningCurve:
    """Accuracy by rows per class.

    Attributes
    ----------
    points : what subsamples measured, few rows first, and last the left-out rows
    floor, slope : a and b of the curve
    spread : standard error of b
    shots : rows per class that there are, as the curve counts them
    """

    points: tuple[CurvePoint, ...]
    floor: float
    slope: float
    spread: float
    shots: float

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
