"""Compare methods on the same trials, each at its own chosen coefficient."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.experiments._summary_choice import Chosen, Line, classes_interval
from firthshot.experiments._summary_classes import ClassDesign
from firthshot.experiments._summary_reading import SCORES
from firthshot.experiments.statistics import paired

Array = npt.NDArray[Any]

REFERENCES = ("centroid", "least-squares")
# Where trials are the same, and within it what is trained besides the method.
PLACE = ("bank", "transform", "ways", "actual_ways", "shots", "shots_scheme", "query_rule")
FRAME = ("head", "solver", "source", "artificial")
METHOD = ("head", "solver", "penalty", "prior", "l2_kind", "l2")
# The first is compared against the others: ours minus theirs.
_ORDER = ("firth", "label-smoothing", "confidence", "l2", "none")


def pairs(chosen: list[Chosen]) -> Iterator[tuple[Chosen, Chosen]]:
    """Yield every pair of methods on one head and solver, and every method with every reference."""
    places: dict[tuple[Any, ...], list[Chosen]] = {}
    for one in chosen:
        places.setdefault(tuple(one.key[name] for name in PLACE), []).append(one)
    for there in places.values():
        references = [one for one in there if one.key["head"] in REFERENCES]
        methods = sorted((one for one in there if one.key["head"] not in REFERENCES), key=_rank)
        for one, other in combinations(methods, 2):
            if all(one.key[name] == other.key[name] for name in FRAME):
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
    order = _ORDER.index(key["penalty"]) if key["penalty"] in _ORDER else len(_ORDER)
    return order, key["prior"] != "uniform", key["l2_kind"], key["l2"]
