"""Where a linear step at 25 shots spends its time, kernel by kernel on one thread.

Processor time is taken, the smallest of a few repeats, so that the shares hold on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from firthshot.benchmarks.engine_cases import Case
from firthshot.engine import Linear, train
from firthshot.engine._kernels.drift import drift
from firthshot.engine._kernels.linear import add_start
from firthshot.engine._kernels.momentum import add_rows, glide, scatter
from firthshot.engine._linear import LinearSgd
from firthshot.engine._sgd import coefficient_groups, xavier_uniform
from firthshot.engine._trial import Trial
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
    form = case.penalty.tables(trial.labels, case.ways, case.d * case.ways + case.ways)
    gram, z0 = support @ support.T, support @ xavier_uniform(trial, 0, case.d, case.ways)
    groups = coefficient_groups(case.n_coefficients, 2 * case.n * case.ways * 4)
    return [LinearSgd(trial, case.sgd, form.take(group), gram, z0) for group in groups]


def _parts(state: LinearSgd) -> dict[str, float]:
    """Return the seconds per step of each part."""
    return {name: _seconds(kernel, state) for name, kernel in _kernels(state).items()}


def _kernels(state: LinearSgd) -> dict[str, Kernel]:
    """Return each part of a step as a function of the number of rows of the batch."""
    form, dtype, classes = state.kernel_form, state.a.dtype, state.trial.n_classes
    z = np.zeros((state.sgd.batch_size, state.z0.shape[1] + state.a.shape[2]), dtype)
    logits, many = np.zeros_like(form.target), state.n_coefficients
    rows = np.random.default_rng(0).permutation(len(state.gram))[: state.sgd.batch_size]
    labels, none = state.trial.labels[rows], dtype.type(0)

    # A step of 0: the state stays as it is however often a part is repeated.
    def product(n: int) -> None:
        drift(state.gram, rows, n, state.a, state.e, none, z)

    def softmax(n: int) -> None:
        to_class_layout(z, n, classes, many, logits)
        logit_gradient(
            logits, labels, n, many,
            form.probability, form.target, form.label, form.confidence, form.scratch,
        )  # fmt: skip
        to_row_layout(logits, n, classes, many, 1e-3, z)

    def scattering(n: int) -> None:
        scatter(z, rows, n, state.e)
        add_rows(z, n, state.bias_e)

    def start(n: int) -> None:
        glide(state.bias if n else state.bias[:0], state.bias_e, none)
        add_start(z, rows, n, state.z0, state.s, state.bias)

    return {
        "product and momentum (drift)": product,
        "softmax and layout moves": softmax,
        "scatter of the gradient": scattering,
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
