"""The tables of a run folder: names and types on which runner, summary and report agree.

A finished cell is one Parquet file in ``parts/`` with one row per trial and coefficient, and beside
it two small tables: ``bins/`` (pooled reliability bins per coefficient) and ``trials/`` (which
classes each trial drew, for the bootstrap over classes). The part is written last: where it exists,
the other two do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

# The solver of the reference heads, which are trained on the trials of every run.
CLOSED_FORM = "closed-form"

# How rows ended that are counted: "separable" has no optimum and is scored at a tiny ridge.
ENDED_WELL = ("ok", "separable")
# That ridge, ½ ‖W‖² / n times this: its optimum points to the maximum margin.
TINY_RIDGE = 1e-4

# What a row is about. Constant within a cell, except coefficient and trial.
KEYS: dict[str, str] = {
    "bank": "String",
    "dataset": "String",
    "backbone": "String",
    "extraction": "String",
    "split": "String",  # val or novel
    "transform": "String",  # none, l2, centre-l2, tukey
    "head": "String",
    "solver": "String",
    "penalty": "String",  # family; "none" for the reference heads
    "prior": "String",  # uniform or class-frequency
    "l2_kind": "String",  # parametrisation of l2, whether as family or beside it
    "l2": "Float64",  # coefficient beside the family, the same in every row of the cell
    "ways": "Int32",  # as asked for
    "actual_ways": "Int32",  # as the split could give
    "shots": "Int32",  # per class; the mean where they differ (rounded as the paper labels them)
    "shots_scheme": "String",  # balanced, or the name of an unbalanced scheme
    "query_rule": "String",  # e.g. "60 fixed", "15", "rest"; what was in fact used
    "source": "String",  # source bank of Distribution Calibration, "" elsewhere
    "artificial": "Int32",  # artificial samples per class of Distribution Calibration, 0 elsewhere
}

# Groups of key columns, each for one question.
SPLITLESS = tuple(name for name in KEYS if name != "split")  # a line of ``chosen``
TRIAL_KEYS = ("bank", "split", "ways", "shots", "shots_scheme")  # with its number, a trial
PLACE = tuple(name for name in TRIAL_KEYS if name != "split")  # where methods share trials
PENALTY = ("penalty", "prior", "l2_kind", "l2")
METHOD = ("head", "solver", *PENALTY)
ARTIFICIAL = ("source", "artificial")  # what Distribution Calibration adds to a method


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by their key, groups and items in their order."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def penalty_rank(penalty: str) -> int:
    """Return a penalty's place among those registered; of two, the first is compared."""
    from firthshot.objective import PENALTIES

    order = list(PENALTIES)
    return order.index(penalty) if penalty in PENALTIES else len(order)


ROW: dict[str, str] = {
    **KEYS,
    "coefficient": "Float64",
    "theory": "Boolean",  # trained beside the grid as the tuning-free value; never a candidate
    "theory_exact": "Boolean",  # whether λ = K rank(X) / (2N) is exact Firth in this trial
    "trial": "Int64",
    "accuracy": "Float32",
    "nll": "Float32",
    "brier": "Float32",
    "ece": "Float32",
    "norm": "Float32",
    "status": "String",  # ok, separable, unstable, diverged, not-converged, no-optimum, invalid
}

BINS: dict[str, str] = {
    **KEYS,
    "coefficient": "Float64",
    "theory": "Boolean",
    "bin": "Int8",
    "count": "Int64",
    "confidence_sum": "Float64",
    "correct_sum": "Float64",
}

TRIALS: dict[str, str] = {
    **{key: KEYS[key] for key in TRIAL_KEYS},
    "trial": "Int64",
    "classes": "List(UInt16)",  # positions in bank.classes(split)
}
