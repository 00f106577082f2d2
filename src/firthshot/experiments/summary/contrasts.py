"""Compare methods on the same trials, each at its own chosen coefficient."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from firthshot.experiments.schema import ARTIFICIAL, METHOD, PLACE, REFERENCE_HEADS, penalty_rank
from firthshot.experiments.statistics import paired
from firthshot.experiments.summary.choice import Chosen, Line, classes_interval
from firthshot.experiments.summary.classes import ClassDesign
from firthshot.experiments.summary.reading import SCORES

# Where support, query and features are the same, and within it what is trained but the penalty.
_SAME_DATA = (*PLACE, "transform", "actual_ways", "query_rule")
_SAME_HEAD = ("head", "solver", *ARTIFICIAL)


def pairs(chosen: list[Chosen]) -> Iterator[tuple[Chosen, Chosen]]:
    """Yield every pair of methods on one head and solver, and every method with every reference."""
    places: dict[tuple[Any, ...], list[Chosen]] = {}
    for one in chosen:
        places.setdefault(tuple(one.key[name] for name in _SAME_DATA), []).append(one)
    for there in places.values():
        references = [one for one in there if one.key["head"] in REFERENCE_HEADS]
        others = (one for one in there if one.key["head"] not in REFERENCE_HEADS)
        methods = sorted(others, key=_rank)
        for one, other in combinations(methods, 2):
            if all(one.key[name] == other.key[name] for name in _SAME_HEAD):
                yield one, other
        for one in methods:
            yield from ((one, reference) for reference in references)


def contrast_line(one: Chosen, other: Chosen, design: ClassDesign | None) -> Line | None:
    """Return the line of ``contrasts.csv`` for a pair, or None where they share no trial."""
    trials, mine, theirs = np.intersect1d(
        one.trials, other.trials, assume_unique=True, return_indices=True
    )
    if not len(trials):
        return None
    ours = {name: one.scores[name][mine].astype(np.float64) for name in SCORES}
    against = {name: other.scores[name][theirs].astype(np.float64) for name in SCORES}
    differences = ours["accuracy"] - against["accuracy"]
    found = paired(differences)
    low, high = classes_interval(differences, trials, design)
    line: Line = {**one.key, "coefficient": one.coefficient}
    line |= {f"against_{name}": other.key[name] for name in METHOD}
    line |= {"against_coefficient": other.coefficient, "trials": found.trials}
    line |= {"accuracy": ours["accuracy"].mean(), "against_accuracy": against["accuracy"].mean()}
    line |= {"difference": found.mean, "difference_ci": found.ci, "p_wilcoxon": found.p}
    line |= {"difference_classes_low": low, "difference_classes_high": high}
    line |= {"share_won": found.share_won, "share_lost": found.share_lost}
    with np.errstate(invalid="ignore"):  # two infinite nll have no difference
        others = {name: (ours[name] - against[name]).mean() for name in SCORES[1:]}
    return line | {f"{name}_difference": value for name, value in others.items()}


def _rank(one: Chosen) -> tuple[Any, ...]:
    key = one.key
    return penalty_rank(key["penalty"]), key["prior"] != "uniform", key["l2_kind"], key["l2"]
