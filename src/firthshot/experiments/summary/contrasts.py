"""Compare methods on the same trials, each at its own chosen coefficient."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from operator import itemgetter
from typing import Any

import numpy as np

from firthshot.experiments.schema import (
    ARTIFICIAL,
    CLOSED_FORM,
    METHOD,
    PENALTY,
    PLACE,
    grouped,
    penalty_rank,
)
from firthshot.experiments.summary.choice import Chosen, Line, paired_line
from firthshot.experiments.summary.classes import ClassDesign
from firthshot.experiments.summary.reading import SCORES

# Where support, query and features are the same, and within it what is trained but the penalty.
_data = itemgetter(*PLACE, "transform", "actual_ways", "query_rule")
_head = itemgetter("head", "solver", *ARTIFICIAL)


def pairs(chosen: list[Chosen]) -> Iterator[tuple[Chosen, Chosen]]:
    """Yield every pair of methods on the same trials that differ in one thing.

    Penalties of one head and solver are paired with one another; heads where both have the penalty,
    or have none in common, such as a head without any. A method is not paired with itself, as which
    Firth with either prior is trained at equal shots.
    """
    for there in grouped(chosen, lambda one: _data(one.key)).values():
        heads = grouped(there, _trained)
        penalties = {head: {_penalty(one) for one in own} for head, own in heads.items()}
        for one, other in combinations(sorted(there, key=_rank), 2):
            if _trained(one) == _trained(other):
                if not _same_method(one.key, other.key):
                    yield one, other
            elif one.key["head"] != other.key["head"]:
                shared = penalties[_trained(one)] & penalties[_trained(other)]
                alone = other.key["penalty"] == "none"  # those stand last
                if _penalty(one) == _penalty(other) or not shared or alone:
                    yield one, other


def _trained(one: Chosen) -> Any:
    return _head(one.key)


def _penalty(one: Chosen) -> tuple[str, str]:
    return one.key["penalty"], one.key["prior"]


def contrast_line(one: Chosen, other: Chosen, design: ClassDesign | None) -> Line | None:
    """Return the line of ``contrasts.csv`` for a pair, or None where they share no trial.

    Two methods that chose coefficient 0 over the same fixed L2 are one classifier: their scores,
    which could differ by rounding, are taken to be the same.
    """
    trials, mine, theirs = np.intersect1d(
        one.trials, other.trials, assume_unique=True, return_indices=True
    )
    if not len(trials):
        return None
    ours = {name: one.scores[name][mine].astype(np.float64) for name in SCORES}
    against = {name: other.scores[name][theirs].astype(np.float64) for name in SCORES}
    if _same_classifier(one, other):
        against = ours
    differences = ours["accuracy"] - against["accuracy"]
    line: Line = {**one.key, "coefficient": one.coefficient}
    line |= {f"against_{name}": other.key[name] for name in METHOD}
    line |= {"against_coefficient": other.coefficient}
    line |= {"accuracy": ours["accuracy"].mean(), "against_accuracy": against["accuracy"].mean()}
    line |= paired_line("difference", differences, trials, design)
    with np.errstate(invalid="ignore"):  # two infinite nll have no difference
        others = {name: (ours[name] - against[name]).mean() for name in SCORES[1:]}
    return line | {f"{name}_difference": value for name, value in others.items()}


def _same_method(key: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether two penalties differ in their priors alone, which equal shots make one."""
    same = all(key[name] == other[name] for name in PENALTY if name != "prior")
    return same and key["shots_scheme"] == "balanced"


def _same_classifier(one: Chosen, other: Chosen) -> bool:
    """Tell whether neither method has a penalty but an L2 that is the same in both."""
    if one.key["head"] != other.key["head"] or one.coefficient or other.coefficient:
        return False
    (ours, kind), (theirs, their_kind) = ((it.key["l2"], it.key["l2_kind"]) for it in (one, other))
    return bool(ours == theirs and (not ours or kind == their_kind))


def _rank(one: Chosen) -> tuple[Any, ...]:
    key = one.key
    rank = penalty_rank(key["penalty"]), key["prior"] != "uniform", key["l2_kind"], key["l2"]
    return key["penalty"] == "none", key["solver"] == CLOSED_FORM, *rank
