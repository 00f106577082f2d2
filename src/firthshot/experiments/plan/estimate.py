"""How long a plan takes here: the cost model, scaled by a short measurement of each head."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import median

import msgspec
import numpy as np

from firthshot.banks import Bank, make_bank
from firthshot.calibration import BaseStatistics
from firthshot.engine import Converged, Head, TrialShape, train
from firthshot.episodes import sample_episodes
from firthshot.experiments.plan.cell import Cell
from firthshot.experiments.plan.layout import Plan, trial_seconds
from firthshot.experiments.spec.methods import Method
from firthshot.machine import one_blas_thread
from firthshot.progress import duration

_PROBE_SECONDS = 0.4
_PROBE_WAYS, _PROBE_SHOTS, _PROBE_QUERIES = 10, 5, 15


@dataclass(frozen=True)
class Estimate:
    """Seconds of one core, and how this machine compares with the model, by head."""

    core_seconds: float
    factors: dict[str, float]

    def words(self, workers: int) -> str:
        """Say the time on this machine and how it was obtained."""
        heads = ", ".join(f"{head} × {factor:.2f}" for head, factor in self.factors.items())
        return (
            f"about {duration(self.core_seconds / workers)} on {workers} "
            f"{'core' if workers == 1 else 'cores'} here (operation counts of all cells, scaled by "
            f"a timed probe of each head on this machine: {heads})"
        )


def estimate(plan: Plan) -> Estimate:
    """Estimate the time of a plan by probing every head that it trains."""
    factors: dict[str, float] = {}
    total = 0.0
    for setting in plan.settings:
        method = setting.method
        drawn = method.calibration and method.calibration.artificial
        probed = "calibrated" if drawn else method.head  # what a probe measures
        if probed not in factors:
            factors[probed] = _factor(method)
        total += plan.trials * trial_seconds(method, setting.shape) * factors[probed]
    return Estimate(total, factors)


def count_classifiers(cells: Iterable[Cell]) -> int:
    """Return how many classifiers cells train."""
    return sum(cell.classifiers for cell in cells)


def _factor(method: Method) -> float:
    """Return measured over modelled time of a small problem with this method."""
    if method.solver == "shared-lbfgs":  # the same products, more of them
        options = asdict(Converged())
        method = msgspec.structs.replace(method, solver="converged", solver_options=options)
    K, coefficients = _PROBE_WAYS, len(method.coefficients) + method.theory
    shape = TrialShape(K * _PROBE_SHOTS, K * _PROBE_QUERIES, 256, K, coefficients)
    return measure(method, shape) / trial_seconds(method, shape)


def measure(method: Method, shape: TrialShape) -> float:
    """Return the seconds of one trial of this shape on made-up features, compilation left out."""

    def clock(trials: int) -> float:
        start = time.perf_counter()
        _train_some(method, shape, trials)
        return time.perf_counter() - start

    with one_blas_thread():
        clock(1)  # compiles
        trials = 1
        while (once := clock(trials)) < _PROBE_SECONDS / 8:
            trials = max(trials + 1, math.ceil(trials * _PROBE_SECONDS / 6 / max(once, 1e-6)))
        return median(clock(trials) for _ in range(5)) / trials


def _train_some(method: Method, shape: TrialShape, trials: int) -> None:
    bank = _probe_bank(shape)
    episodes = sample_episodes(
        bank, "novel", ways=shape.K, shots=shape.N // shape.K, trials=trials,
        queries=shape.Q // shape.K,
    )  # fmt: skip
    coefficients = method.coefficients
    if method.theory:
        coefficients = (*coefficients, max(coefficients) + shape.K)
    head, solver = _probe_head(method, shape.d), method.engine_solver()
    train(bank.features, episodes, head, solver, method.penalty(coefficients), threads=1)


def _probe_head(method: Method, d: int) -> Head:
    drawn = method.calibration
    if drawn is None or not drawn.artificial:
        return method.engine_head()
    from firthshot.calibration import CalibratedLinear

    return CalibratedLinear(_probe_statistics(drawn.neighbours, d), drawn.artificial)


@lru_cache(maxsize=2)
def _probe_statistics(classes: int, d: int) -> BaseStatistics:
    from firthshot.calibration import BaseStatistics

    rng = np.random.default_rng(0)
    return BaseStatistics.from_rows([0.1 * rng.normal(size=(2 * d, d)) for _ in range(classes + 2)])


@lru_cache(maxsize=8)
def _probe_bank(shape: TrialShape) -> Bank:
    rng = np.random.default_rng(0)
    rows = (shape.N + shape.Q) // shape.K
    labels = np.repeat(np.arange(shape.K), rows)
    means = rng.normal(size=(shape.K, shape.d))
    features = 0.1 * (means[labels] + rng.normal(size=(len(labels), shape.d)))
    classes = [f"class {k}" for k in range(shape.K)]
    return make_bank(
        features, labels, name="probe", classes=classes, class_splits=["novel"] * shape.K
    )
