"""Where a linear step at 25 shots spends its time, kernel by kernel on one thread.

Processor time is taken, the smallest of a few repeats, so that the shares hold on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.engine_cases import Case
from firthshot.engine import Linear, Trial, train
from firthshot.engine.sgd.linear import LinearSgd, add_start, begin_linear
from firthshot.engine.sgd.momentum import add_gradient, step_without_decay
from firthshot.engine.sgd.sweep import Swept, drift
from firthshot.kernels.softmax import logit_gradient, to_class_layout, to_row_layout

Kernel = Callable[[int], object]
_CALLS = 400


def profile_linear(shots: int = 25, passes: int | None = None) -> dict[str, float]:
    """Return the share of a whole trial (gather, training, scoring) that each part takes.

    The parts are timed alone, on the state of a trial in training; "rest of the loop" is what the
    loop takes beyond them (the order of rows, clocks, and what timing alone misses).
    """
    case = Case(Linear(), 16, shots, 512, passes=passes)
    states = _states(case)
    episodes, features = case.episodes(1), case.bank.features
    whole = _processor_seconds(
        lambda: train(features, episodes, case.head, case.sgd, case.penalty, threads=1)
    )
    loop = sum(_processor_seconds(partial(state.train, 0, case.sgd.epochs)) for state in states)
    parts: dict[str, float] = {}
    for state in states:
        for name, seconds in _parts(state).items():
            parts[name] = parts.get(name, 0.0) + seconds * case.steps
    shares = {name: seconds / whole for name, seconds in parts.items()}
    shares["rest of the loop"] = max(0.0, (loop - sum(parts.values())) / whole)
    shares["preparation and scoring"] = max(0.0, 1 - loop / whole)
    return shares


def _states(case: Case) -> list[LinearSgd]:
    """Return the state of every group of coefficients of the first trial."""
    episodes, features = case.episodes(1), case.bank.features
    episode = episodes[0]
    support, query = (np.array(features[rows]) for rows in (episode.support, episode.query))
    trial: Trial = Trial(0, episodes.key, case.ways, support, episode.support_labels, query)  # type: ignore[arg-type]
    parameters = case.head.parameter_count(case.d, case.ways)
    form = case.penalty.tables(trial.labels, case.ways, parameters)
    start = begin_linear(trial, Linear(), case.n_coefficients)
    groups = start.groups(case.n_coefficients)
    return [LinearSgd(start, case.sgd, form.take(group)) for group in groups]


def _parts(state: LinearSgd) -> dict[str, float]:
    """Return the seconds per step of each part."""
    return {name: _seconds(kernel, state) for name, kernel in _kernels(state).items()}


def _kernels(state: LinearSgd) -> dict[str, Kernel]:
    """Return each part of a step as a function of the number of rows of the batch."""
    task, layer, batch = state.task, state.layer, state.sgd.batch_size
    z = np.zeros((batch, len(layer.s) + layer.a.shape[2]), layer.a.dtype)
    logits, many = np.zeros_like(task.loss.target), task.n_coefficients
    order = np.random.default_rng(0).permutation(len(task.gram))[:batch]
    swept, none = Swept(task.gram, layer.a, layer.velocity, layer.s, z), z.dtype.type(0)

    # A step of 0: the state stays as it is however often a part is repeated.
    def product(n: int) -> None:
        drift(swept, order[:n], none)

    def softmax(n: int) -> None:
        to_class_layout(z, n, many, logits)
        logit_gradient(logits, task.labels, order[:n], many, task.loss)
        to_row_layout(logits, n, many, 1e-3, z)

    def gradient(n: int) -> None:
        add_gradient(z, order[:n], layer)

    def start(n: int) -> None:
        step_without_decay(layer.bias if n else layer.bias[:0], layer.bias_velocity, none)
        add_start(z, order[:n], task.start, layer)

    return {
        "product and momentum (drift)": product,
        "softmax and layout moves": softmax,
        "scatter of the gradient": gradient,
        "start and bias": start,
    }


def _seconds(kernel: Kernel, state: LinearSgd) -> float:
    """Time a part on a full batch, less what calling it on no rows takes."""

    def calls(n: int) -> Callable[[], Any]:
        return lambda: [kernel(n) for _ in range(_CALLS)]

    for n in (0, state.sgd.batch_size):
        kernel(n)
    full, empty = (_processor_seconds(calls(n)) for n in (state.sgd.batch_size, 0))
    return max(0.0, full - empty) / _CALLS


def _processor_seconds(run: Callable[[], object]) -> float:
    """Return the smallest processor time of a few calls, after one to warm up."""
    run()
    taken = []
    for _ in range(4):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return min(taken)
