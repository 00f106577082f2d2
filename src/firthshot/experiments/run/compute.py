"""From a cell to its three tables."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.banks import Bank
from firthshot.engine import Results, Status, train
from firthshot.episodes import Episodes, sample_episodes
from firthshot.experiments.plan.cell import Cell, TrialCondition
from firthshot.experiments.run.features import (
    SplitFeatures,
    base_facts,
    source_statistics,
    split_features,
)
from firthshot.experiments.schema import BINS, ROW, TINY_RIDGE, TRIALS
from firthshot.experiments.spec.methods import Method
from firthshot.experiments.spec.shots import from_plain
from firthshot.objective import Penalty, sample_rank, theory_lambda

if TYPE_CHECKING:
    import polars as pl

_SCORES = ("accuracy", "nll", "brier", "ece", "norm")
_SEPARABLE = -1  # beside the engine's codes: scored at a tiny ridge
_WORKING_LIMIT = 6e8  # bytes of one trial in flight, above which the coefficients are split up


@dataclass(frozen=True)
class Tables:
    """What a finished cell leaves: rows, pooled reliability bins, and the classes of its trials."""

    rows: pl.DataFrame
    bins: pl.DataFrame
    trials: pl.DataFrame


def compute(cell: Cell, bank: Bank, threads: int = 1, source: Bank | None = None) -> Tables:
    """Train every trial of a cell with every coefficient.

    ``source`` is the bank whose base classes Distribution Calibration asks.
    """
    features = split_features(bank, cell.condition.split, cell.condition.transform)
    sampled = draw(cell.condition, bank, range(cell.first, cell.stop))
    episodes = dataclasses.replace(
        sampled,
        support=features.positions(sampled.support),
        query=features.positions(sampled.query),
    )
    theory = theory_value(cell, features.values.shape[1], training_rows(cell, episodes))
    grid = cell.method.coefficients
    trained = (*grid, *((theory,) if theory is not None and theory not in grid else ()))
    results = _train(cell, features, episodes, trained, threads, bank, source)
    # A theory value that is in the grid has its own rows, copied: nothing is trained twice.
    columns = [*range(len(grid)), *([] if theory is None else [trained.index(theory)])]
    is_theory = np.arange(len(columns)) >= len(grid)
    exact = _theory_exact(cell, features, episodes)
    keys = cell.keys(bank)
    return Tables(
        _rows(keys, results, columns, is_theory, exact),
        _bins(keys, results, columns, is_theory),
        _trials(keys, sampled),
    )


def settle_polars() -> None:
    """Let polars load NumPy, before several threads make tables.

    Where polars was imported first it does so at its first use, and two threads at once break it.
    """
    import polars as pl

    pl.DataFrame({"any": np.zeros(1)})


def draw(condition: TrialCondition, bank: Bank, trials: range) -> Episodes:
    """Sample the episodes of a condition."""
    return sample_episodes(
        bank,
        condition.split,
        ways=condition.actual_ways,
        shots=from_plain(condition.counts),
        trials=list(trials),
        queries=condition.queries,  # type: ignore[arg-type]
        fixed_query=condition.fixed_query,
        first_classes=condition.first_classes,
    )


def training_rows(cell: Cell, episodes: Episodes) -> int:
    """Return the rows that a trial is trained on, artificial ones included."""
    drawn, labels = cell.method.calibration, episodes.support_labels[0]
    if drawn is None:
        return len(labels)
    shots = np.bincount(labels)
    return len(labels) + int((drawn.artificial // shots * shots).sum())


def theory_value(cell: Cell, d: int, n: int) -> float | None:
    """Return λ = K rank/(2N) with the rank that N rows in general position have, or None."""
    if not cell.method.theory:
        return None
    return theory_lambda(cell.condition.actual_ways, min(n, d + 1), n)


def _train(
    cell: Cell,
    features: SplitFeatures,
    episodes: Episodes,
    coefficients: tuple[float, ...],
    threads: int,
    bank: Bank,
    source: Bank | None,
) -> Results:
    from firthshot.calibration import SharedLbfgs, train_shared

    method, head = cell.method, _head(cell, bank, source)
    if method.solver == "shared-lbfgs":  # the published stopping rule
        penalty = method.penalty(coefficients)
        return train_shared(features.values, episodes, head, SharedLbfgs(), penalty)
    solver = method.engine_solver()

    def trained(penalty: Penalty) -> Results:
        return train(
            features.values, episodes, head, solver, penalty,
            dtype=cell.dtype, threads=threads, memory=4e9,  # type: ignore[arg-type]
        )  # fmt: skip

    # The coefficients of a very large trial are split, by its size alone, to bound its memory.
    each = 4 * 3 * int(np.diff(episodes.offsets).max()) * cell.condition.actual_ways
    fit = max(1, int(_WORKING_LIMIT // each))
    starts = range(0, len(coefficients), fit)
    parts = [trained(method.penalty(coefficients[i : i + fit])) for i in starts]
    results = parts[0] if len(parts) == 1 else _join(parts)
    return _at_the_limit(results, method, trained)


def _at_the_limit(
    results: Results, method: Method, trained: Callable[[Penalty], Results]
) -> Results:
    """Give rows without an optimum (separable, no penalty) the scores of a tiny ridge."""
    lost = results.status == Status.NO_OPTIMUM
    columns = np.flatnonzero(lost.any(0))
    if not len(columns):
        return results
    grid = tuple(float(value) for value in results.coefficients[columns])
    ridge = dataclasses.replace(method.penalty(grid), l2=TINY_RIDGE, l2_kind="ridge")
    again = trained(ridge)
    for name in (*_SCORES, "bins"):
        held, new = getattr(results, name), getattr(again, name)
        for at, column in enumerate(columns):
            held[lost[:, column], column] = new[lost[:, column], at]
    ended = again.status == Status.OK
    for at, column in enumerate(columns):
        results.status[lost[:, column] & ended[:, at], column] = _SEPARABLE
    return results


def _head(cell: Cell, bank: Bank, source: Bank | None) -> Any:
    """Return the engine's head, with the statistics of base classes where it needs them."""
    drawn = cell.method.calibration
    if drawn is None or source is None:
        head: Any = cell.method.engine_head()
        if not head.needs_base:
            return head
        return dataclasses.replace(head, base=base_facts(bank, cell.condition.transform))
    from firthshot.calibration import CalibratedLinear

    statistics = source_statistics(source)
    return CalibratedLinear(statistics, drawn.artificial, drawn.neighbours, drawn.alpha)


def _join(parts: list[Results]) -> Results:
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts], axis=1)
        for name in (*_SCORES, "status", "bins")
    }
    joined["coefficients"] = np.concatenate([part.coefficients for part in parts])
    joined["notes"] = {trial: why for part in parts for trial, why in part.notes.items()}
    return dataclasses.replace(parts[0], **joined)


def _theory_exact(cell: Cell, features: SplitFeatures, episodes: Episodes) -> np.ndarray:
    """Tell for every trial whether rank [X 1] = N, where theory's λ is exact for the head."""
    n, d = episodes.support.shape[1], features.values.shape[1]
    exact = np.zeros(len(episodes), bool)
    n = max(n, training_rows(cell, episodes))
    if not cell.method.theory or not cell.method.engine_head().exact_theory or n > d + 1:
        return exact
    for t in range(len(episodes)):
        support = features.values[episodes.support[t]]
        exact[t] = np.isfinite(support).all() and full_rank(support)  # else the trial is invalid
    return exact


def full_rank(X: np.ndarray) -> bool:
    """Tell whether the rows of [X 1] are independent, as `sample_rank` does but cheaply.

    The eigenvalues of the Gram matrix are squared singular values. A Cholesky factor whose pivots
    are far from zero proves independence; anything else is left to the singular values.
    """
    wide = X.astype(np.float64)
    gram = wide @ wide.T + 1.0
    with contextlib.suppress(np.linalg.LinAlgError):
        pivots = np.diagonal(np.linalg.cholesky(gram))
        if pivots.min() ** 2 > 1e-9 * np.trace(gram):
            return True
    return sample_rank(X) == len(X)


def _rows(
    keys: dict[str, Any],
    results: Results,
    columns: list[int],
    is_theory: np.ndarray,
    exact: np.ndarray,
) -> pl.DataFrame:
    """Return one row per trial and coefficient, in this order."""
    count, width = len(results.trials), len(columns)
    names = {status.value: status.name.lower().replace("_", "-") for status in Status}
    names[_SEPARABLE] = "separable"
    values: dict[str, Any] = {
        "coefficient": np.tile(results.coefficients[columns], count),
        "theory": np.tile(is_theory, count),
        "theory_exact": np.repeat(exact, width),
        "trial": np.repeat(results.trials, width),
        **{name: getattr(results, name)[:, columns].ravel() for name in _SCORES},
        "status": [names[int(code)] for code in results.status[:, columns].ravel()],
    }
    return _frame(keys, values, ROW)


def _bins(
    keys: dict[str, Any], results: Results, columns: list[int], is_theory: np.ndarray
) -> pl.DataFrame:
    pooled = results.bins.sum(axis=0)[columns]  # (L, 15, 3)
    width, bins = pooled.shape[:2]
    values = {
        "coefficient": np.repeat(results.coefficients[columns], bins),
        "theory": np.repeat(is_theory, bins),
        "bin": np.tile(np.arange(bins), width),
        "count": np.rint(pooled[..., 0]).ravel(),
        "confidence_sum": pooled[..., 1].ravel(),
        "correct_sum": pooled[..., 2].ravel(),
    }
    return _frame(keys, values, BINS)


def _trials(keys: dict[str, Any], sampled: Episodes) -> pl.DataFrame:
    import polars as pl

    values: dict[str, Any] = {
        "trial": sampled.trials,
        "classes": pl.Series(sampled.classes.astype(np.uint16).tolist(), dtype=pl.List(pl.UInt16)),
    }
    return _frame({name: keys[name] for name in TRIALS if name in keys}, values, TRIALS)


def _frame(keys: dict[str, Any], values: dict[str, Any], schema: dict[str, str]) -> pl.DataFrame:
    """Put constant keys and columns together in the order and types of the schema."""
    import polars as pl

    types = {name: polars_type(text) for name, text in schema.items()}
    frame = pl.DataFrame(values).with_columns(
        pl.lit(value, dtype=types[name]).alias(name) for name, value in keys.items()
    )
    return frame.select(pl.col(name).cast(kind) for name, kind in types.items())


def polars_type(text: str) -> Any:
    """Return the polars type that `schema` names."""
    import polars as pl

    return pl.List(pl.UInt16) if text == "List(UInt16)" else getattr(pl, text)
