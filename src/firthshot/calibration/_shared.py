"""The published stopping rule of Distribution Calibration: ten tasks under one L-BFGS.

The authors stack ten tasks into one problem, the mean of their losses, and minimise it by L-BFGS
with history 20: ten rounds of at most ten iterations and twelve evaluations each, one strong-Wolfe
line search and one stopping test (gradient 1e-5, change 1e-9) for all ten tasks, which therefore
stop together. It is here to reproduce that; nothing else should use it.

Which tasks are stacked depends on the trial numbers alone: 0 … 9, 10 … 19 and so on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.calibration._head import CalibratedLinear, fitted, form_terms
from firthshot.calibration._kernels.passes import logits, pull_back
from firthshot.calibration._solver import Pairs, dot, two_loop_recursion
from firthshot.calibration._task import F32, CalibrationObjective
from firthshot.engine import Penalty, Results, Solver, Trial, TrialSource, record_trial
from firthshot.engine.solvers.line_search import DECREASE
from firthshot.episodes import Episodes
from firthshot.errors import FirthshotError
from firthshot.machine import one_blas_thread

TOGETHER = 10
# As in torch's line search: the share of the slope that may be left, and evaluations at most.
_FLATTEN, _MOST_EVALUATIONS = 0.9, 25
Objective = Callable[[Array], tuple[float, Array]]


@dataclass(frozen=True)
class SharedLbfgs(Solver):
    """The published settings: rounds × iterations, history, tolerances."""

    rounds: int = 10
    iterations: int = 10
    history: int = 20
    tolerance_gradient: float = 1e-5
    tolerance_change: float = 1e-9
    name = "shared-lbfgs"


def train_shared(
    features: Array, episodes: Episodes, head: CalibratedLinear, solver: SharedLbfgs,
    penalty: Penalty,
) -> Results:  # fmt: skip
    """Train and score trials as `firthshot.engine.train` does (in float32), ten at a time.

    Trials that are not whole tens are refused: all ten tasks stop together.
    """
    check_tens(episodes.trials)
    results = Results.empty(episodes.trials, penalty.coefficients)
    source = TrialSource(features, episodes, np.dtype(F32), 2e9)
    with one_blas_thread(), np.errstate(all="ignore"):
        for first in range(0, len(episodes), TOGETHER):
            _train_ten(source, first, head, solver, penalty, results)
    return results


def check_tens(trials: Array) -> None:
    """Refuse trials that are not whole tens in order."""
    whole = len(trials) % TOGETHER == 0
    tens = np.asarray(trials).reshape(-1, TOGETHER) if whole else np.empty((0, TOGETHER))
    starts = tens[:, :1] if whole else tens
    if not (whole and (starts % TOGETHER == 0).all() and (np.diff(tens) == 1).all()):
        raise FirthshotError(
            "The published stopping rule trains trials 0 … 9, 10 … 19 and so on together: give "
            "whole tens."
        )


def _train_ten(
    source: TrialSource,
    first: int,
    head: CalibratedLinear,
    solver: SharedLbfgs,
    penalty: Penalty,
    results: Results,
) -> None:
    """Train the trials from ``first`` on; a broken one is left out of its ten."""
    places, tasks = [], []
    for t in range(first, first + TOGETHER):
        try:
            tasks.append(source.trial(t))
            places.append(t)
        except FirthshotError as error:
            results.notes[int(results.trials[t])] = str(error)
    if not tasks:
        return
    trials = [task[0] for task in tasks]
    weights = _fit_together(trials, head, solver, penalty)
    for t, (trial, labels, columns), each in zip(places, tasks, weights, strict=True):
        record_trial(results, t, labels, columns, fitted(trial, each, None, keep_weights=False))


def _fit_together(
    trials: list[Trial], head: CalibratedLinear, solver: SharedLbfgs, penalty: Penalty
) -> list[list[tuple[Array, Array]]]:
    """Return coef and intercept by task and coefficient."""
    # Iterates of L-BFGS depend on where the features' origin is: it stays where it was published.
    rows = [head.draw(t.support, t.labels, t.key, t.number, centre=False) for t in trials]
    n_classes, d = trials[0].n_classes, trials[0].support.shape[1]
    paths = []
    for trial, mine in zip(trials, rows, strict=True):
        form = penalty.tables(trial.labels, n_classes, head.parameter_count(d, n_classes))
        paths.append(form_terms(form, len(trial.labels), mine.count))
    found: list[list[tuple[Array, Array]]] = [[] for _ in trials]
    for l in range(len(penalty.coefficients)):
        tasks = [
            CalibrationObjective(mine, n_classes, path[l], np.float64)
            for mine, path in zip(rows, paths, strict=True)
        ]
        size = sum(n_classes * len(task.decay) for task in tasks)
        theta = lbfgs(_mean_of(tasks), np.zeros(size), solver)
        for own, mine, part in zip(found, rows, np.split(theta, len(tasks)), strict=True):
            own.append(mine.weights(part.reshape(n_classes, -1)))
    return found


def _value_and_gradient(task: CalibrationObjective, flat: Array) -> tuple[float, Array]:
    theta = flat.reshape(len(task.state.z), -1)
    gradient = np.empty(theta.shape, F32)
    logits(task.rows.x, theta.astype(F32), task.state.z)
    value = task.value(theta)
    pull_back(task.rows.x, task.state.gradient, gradient)
    return value, (gradient + task.decay * theta).ravel()


def _mean_of(tasks: list[CalibrationObjective]) -> Objective:
    def objective(theta: Array) -> tuple[float, Array]:
        parts = np.split(theta, len(tasks))
        found = [_value_and_gradient(*each) for each in zip(tasks, parts, strict=True)]
        values, gradients = zip(*found, strict=True)
        return sum(values) / len(tasks), np.concatenate(gradients) / len(tasks)

    return objective


def lbfgs(objective: Objective, theta: Array, solver: SharedLbfgs) -> Array:
    """Minimise by L-BFGS under the published rule: rounds that each count anew."""
    pairs = Pairs(maxlen=solver.history)
    most_evaluations = solver.iterations * 5 // 4
    value, gradient = objective(theta)
    begun = False
    for _ in range(solver.rounds):
        evaluations = 1
        for _ in range(solver.iterations):
            if np.abs(gradient).max() <= solver.tolerance_gradient:
                return theta
            direction = _direction(pairs, gradient)
            slope = float(gradient @ direction)
            if slope > -solver.tolerance_change:
                break
            first = 1.0 if begun else min(1.0, 1.0 / float(np.abs(gradient).sum()))
            begun = True
            here = _Point(0.0, value, gradient, slope)
            found, used = strong_wolfe(
                objective, theta, direction, here, first, solver.tolerance_change
            )
            moved, turned = found.step * direction, found.gradient - gradient
            curvature = dot(moved, turned)
            if curvature > 1e-10:  # torch's threshold
                pairs.append((moved, turned, curvature))
            change, theta = abs(found.value - value), theta + moved
            value, gradient = found.value, found.gradient
            evaluations += used
            still = np.abs(moved).max() <= solver.tolerance_change
            if evaluations >= most_evaluations or still or change < solver.tolerance_change:
                break
    return theta


def _direction(pairs: Pairs, gradient: Array) -> Array:
    """Return the direction of L-BFGS; H₀ is scaled by the last pair."""
    scale = 1.0
    if pairs:
        _, y, curvature = pairs[-1]
        scale = curvature / dot(y, y)
    return two_loop_recursion(pairs, gradient, lambda direction: direction * scale)


@dataclass(frozen=True)
class _Point:
    step: float
    value: float
    gradient: Array
    slope: float


def strong_wolfe(
    objective: Objective, theta: Array, direction: Array, start: _Point, step: float,
    shortest: float,
) -> tuple[_Point, int]:  # fmt: skip
    """Return a step from ``start`` under the strong Wolfe conditions, and the evaluations used.

    Bracket by growing the step, then shrink the bracket by cubic interpolation. The factors 0.01,
    10 and 0.1 are torch's.
    """
    used = 0

    def look(step: float) -> _Point:
        nonlocal used
        used += 1
        new, there = objective(theta + step * direction)
        return _Point(step, new, there, float(there @ direction))

    def too_high(point: _Point, best: _Point | None) -> bool:
        above = point.value > start.value + DECREASE * point.step * start.slope
        return above or (best is not None and point.value >= best.value)

    before, now = start, look(step)
    while used < _MOST_EVALUATIONS and not too_high(now, None if before is start else before):
        if abs(now.slope) <= -_FLATTEN * start.slope:
            return now, used
        if now.slope >= 0:
            break
        longer = _cubic(before, now, now.step + 0.01 * (now.step - before.step), now.step * 10)
        before, now = now, look(longer)
    low, high = (before, now) if before.value <= now.value else (now, before)
    while (
        used < _MOST_EVALUATIONS and abs(high.step - low.step) * np.abs(direction).max() >= shortest
    ):
        ends = sorted((low.step, high.step))
        margin = 0.1 * (ends[1] - ends[0])
        middle = look(_cubic(low, high, ends[0] + margin, ends[1] - margin))
        if too_high(middle, low):
            high = middle
            continue
        if abs(middle.slope) <= -_FLATTEN * start.slope:
            low = middle
            break
        if middle.slope * (high.step - low.step) >= 0:
            high = low
        low = middle
    return low, used


def _cubic(a: _Point, b: _Point, lowest: float, highest: float) -> float:
    """Return where the cubic through two points and slopes is least, within bounds."""
    left, right = (a, b) if a.step <= b.step else (b, a)
    width = left.step - right.step
    if width == 0:
        return (lowest + highest) / 2
    d1 = left.slope + right.slope - 3 * (left.value - right.value) / width
    square = d1 * d1 - left.slope * right.slope
    if not square >= 0:
        return (lowest + highest) / 2
    d2 = math.sqrt(square)
    bottom = right.slope - left.slope + 2 * d2
    if bottom == 0:
        return (lowest + highest) / 2
    least: Any = right.step + width * (right.slope + d2 - d1) / bottom
    return float(min(max(least, lowest), highest))
