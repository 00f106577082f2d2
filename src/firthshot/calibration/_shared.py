"""The published stopping rule of Distribution Calibration: ten tasks under one L-BFGS.

The authors stack ten tasks into one problem, the mean of their losses, and minimise it by L-BFGS
with history 20: ten rounds of at most ten iterations and twelve evaluations each, one strong-Wolfe
line search and one stopping test (gradient 1e-5, change 1e-9) for all ten tasks, which therefore
stop together. It is here to reproduce that; nothing else should use it.

Which tasks are stacked depends on the trial numbers alone: 0 … 9, 10 … 19 and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.calibration._head import CalibratedLinear, fitted, form_terms
from firthshot.calibration._kernels.passes import logits, pull_back
from firthshot.calibration._task import F32, CalibrationObjective
from firthshot.engine import Penalty, Results, Solver, Trial, TrialSource, record_trial
from firthshot.episodes import Episodes
from firthshot.errors import FirthshotError, MissingExtraError
from firthshot.machine import one_blas_thread

TOGETHER = 10
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
    """Minimise by torch's L-BFGS, whose rounds each count anew; the same on any number of threads.

    The published code calls it so.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("The solver shared-lbfgs", "torch") from None
    place = torch.from_numpy(theta.copy()).requires_grad_()
    optimiser = torch.optim.LBFGS(
        [place], lr=1, max_iter=solver.iterations, history_size=solver.history,
        tolerance_grad=solver.tolerance_gradient, tolerance_change=solver.tolerance_change,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> Any:
        value, gradient = objective(place.detach().numpy())
        place.grad = torch.from_numpy(gradient)
        return torch.tensor(value)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(solver.rounds):
            optimiser.step(closure)
    finally:
        torch.set_num_threads(threads)
    return np.asarray(place.detach().numpy())
