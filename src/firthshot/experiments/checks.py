"""Ask whether it is the penalty or the optimiser: the same trials from zero, and at the optimum.

A run trains as published: from a random start, with steps of one length for every λ. A loss at a
large λ may then be the start's (directions that no support row spans keep their noise) or the
step's (rate times curvature grows with 1 + λ). For the λ that a report speaks of, some trials are
therefore trained once more from zero, and solved: λ and 0 alike with a tiny ridge, without which
separable rows have no optimum at λ = 0. Gains are asked no less than losses. What comes of it is
kept in ``checks.json``; no row of the run changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from firthshot.banks import Bank
from firthshot.engine import Converged
from firthshot.experiments.plan.cell import Cell
from firthshot.experiments.plan.layout import Plan, Setting
from firthshot.experiments.run.record import read_record, write_record
from firthshot.experiments.run.workers import Compute
from firthshot.experiments.schema import CLOSED_FORM, SPLITLESS
from firthshot.experiments.statistics import half_width

if TYPE_CHECKING:
    from firthshot.experiments.summary.reading import Index

FILE = "checks.json"
OPTIMUM_RIDGE = 0.01
TRIALS = 50  # of a setting that are trained again: enough to see what a report would call a loss


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one λ of a setting on the novel classes."""

    key: dict[str, Any]  # the values of `firthshot.experiments.schema.SPLITLESS`
    coefficient: float
    theory: bool = False  # whether it is the tuning-free value
    # trials whose steps were too long; those without an optimum, scored at a tiny ridge
    unstable: int = 0
    separable: int = 0
    trials: int = 0  # trials that were trained again
    # on those, the improvement over λ = 0 as the run trained it, and from zero weights
    trained: float | None = None
    zero: float | None = None
    zero_ci: float | None = None
    optimum: float | None = None  # the accuracy at the optimum of the same objective
    optimum_gain: float | None = None  # its improvement over λ = 0 there
    optimum_ci: float | None = None


def read_checks(folder: Path) -> tuple[Check, ...]:
    """Return the checks on record, none where there are none."""
    return read_record(folder / FILE, tuple[Check, ...], "delete it, or run again", ())


def run_checks(plan: Plan, folder: Path, banks: dict[str, Bank], work: Compute) -> None:
    """Train again what a report will speak of, and keep what came of it."""
    from firthshot.experiments.summary.reading import read_index

    index = read_index([folder])
    found: list[Check] = []
    for setting in plan.settings:
        if setting.condition.split == "novel" and setting.method.family != "none":
            found += _check(setting, index, banks, work, plan.first)
    if found or (folder / FILE).exists():
        write_record(folder / FILE, found)


def _check(
    setting: Setting, index: Index, banks: dict[str, Bank], work: Compute, first: int
) -> Iterator[Check]:
    from firthshot.experiments.summary.choice import reported_coefficients
    from firthshot.experiments.summary.scores import load_scored

    (cell,) = setting.cells(first, first + 1)
    keys = cell.keys(banks[setting.condition.bank])
    if tuple(keys.values()) not in index.files:
        return
    scored = load_scored(index, tuple(keys.values()))
    reported = reported_coefficients(index, scored)
    unstable = {value: n for (value, status), n in scored.failures.items() if status == "unstable"}
    cell = Cell(setting.condition, setting.method, first, first + TRIALS, setting.dtype)
    trials = scored.trials[scored.trials < first + TRIALS]
    zero = _accuracies(_from_zero(cell, (0.0, *reported)), banks, work, trials)
    gains = {value: scored.gains(value, theory) for value, theory in reported.items()}
    solved = _accuracies(_solved(cell, (*reported, *unstable)), banks, work, trials)
    about = {name: keys[name] for name in SPLITLESS}
    for value in dict.fromkeys((*reported, *unstable)):
        yield Check(
            key=about, coefficient=value, theory=reported.get(value, False),
            unstable=unstable.get(value, 0), trials=len(trials),
            **_from_zero_gains(gains.get(value), zero, value), **_optimum_gains(solved, value),
        )  # fmt: skip
    if scored.separable:
        yield Check(key=about, coefficient=0.0, separable=scored.separable)


def _from_zero(cell: Cell, grid: tuple[float, ...]) -> Cell | None:
    """Return the cell with weights that start at zero, None where they do not start at random."""
    options = cell.method.head_options
    if len(grid) < 2 or cell.method.solver != "sgd" or options.get("start") != "xavier":
        return None
    return _changed(cell, grid, head_options={**options, "start": "zero"})


def _solved(cell: Cell, grid: tuple[float, ...]) -> Cell | None:
    """Return the cell at the optimum, None where the head has no such solver or is there already.

    A ridge of its own is kept.
    """
    method = cell.method
    there = (Converged.name, CLOSED_FORM)
    if not grid or method.solver in there or Converged not in method.engine_head().solvers:
        return None
    ridge = {} if method.l2 else {"l2": OPTIMUM_RIDGE, "l2_kind": "ridge"}
    options = {"solver": Converged.name, "solver_options": asdict(Converged()), **ridge}
    return _changed(cell, (0.0, *grid), **options)


def _changed(cell: Cell, grid: tuple[float, ...], **other: Any) -> Cell:
    coefficients = tuple(sorted(set(grid)))
    method = msgspec.structs.replace(cell.method, coefficients=coefficients, theory=False, **other)
    return msgspec.structs.replace(cell, method=method)


def _accuracies(
    cell: Cell | None, banks: dict[str, Bank], work: Compute, trials: np.ndarray
) -> dict[float, np.ndarray]:
    """Return the accuracy of these trials by coefficient; nothing where a cell failed."""
    if cell is None:
        return {}
    (done,) = work([cell], banks)
    if done.tables is None:
        return {}
    rows = done.tables.rows
    shape = (-1, len(cell.method.coefficients))
    values = rows["accuracy"].to_numpy().reshape(shape)
    kept = np.isin(rows["trial"].to_numpy().reshape(shape)[:, 0], trials)
    return {value: values[kept, at] for at, value in enumerate(cell.method.coefficients)}


def _from_zero_gains(
    trained: np.ndarray | None, zero: dict[float, np.ndarray], value: float
) -> dict[str, Any]:
    if trained is None or value not in zero:
        return {}
    gains = zero[value] - zero[0.0]
    found = {"zero": float(gains.mean()), "zero_ci": half_width(gains)}
    kept = trained[: len(gains)][np.isfinite(trained[: len(gains)])]
    return found | ({"trained": float(kept.mean())} if len(kept) else {})


def _optimum_gains(solved: dict[float, np.ndarray], value: float) -> dict[str, Any]:
    if value not in solved:
        return {}
    kept = np.isfinite(solved[value]) & np.isfinite(solved[0.0])
    if not kept.any():
        return {}
    gains = (solved[value] - solved[0.0])[kept]
    return {
        "optimum": float(solved[value][kept].mean()),
        "optimum_gain": float(gains.mean()),
        "optimum_ci": half_width(gains),
    }
