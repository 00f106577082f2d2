"""Paired comparisons on the same trials that a run's own summary does not make.

Within a run: the coefficient chosen on the validation classes against the tuning-free one of the
theory. Between two runs on the same trials: another start, another solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from firthshot.experiments.schema import KEYS
from firthshot.experiments.statistics import paired
from firthshot.experiments.summary.reading import Index, read_index
from firthshot.experiments.summary.scores import Scored, load_scored

_PLACE = ("bank", "head", "penalty", "prior", "ways", "shots", "shots_scheme", "artificial")
_SCORES = ("accuracy", "nll", "ece")
Line = dict[str, Any]

_FLOATS = ("accuracy", "against_accuracy", "difference", "difference_ci", "p_wilcoxon")
_KEYS: dict[str, Any] = {name: getattr(pl, KEYS[name]) for name in _PLACE}
_RESULTS: dict[str, Any] = {
    **dict.fromkeys(("coefficient", "against"), pl.Float64),
    "trials": pl.Int64,
    **dict.fromkeys((*_FLOATS, "difference_sd", "nll_difference", "ece_difference"), pl.Float64),
}
THEORY: dict[str, Any] = {**_KEYS, **_RESULTS}
BETWEEN: dict[str, Any] = {**_KEYS, "at": pl.String, **_RESULTS}


def against_theory(run: Path) -> pl.DataFrame:
    """Return chosen minus theory, on the novel classes, for every method that has both."""
    lines = []
    for scored, coefficient in _chosen(run):
        if scored.theory:
            ours = {name: scored.scores[name][scored.at(coefficient)] for name in _SCORES}
            theirs = {name: scored.theory[name] for name in _SCORES}
            line = {name: scored.key[name] for name in _PLACE}
            line |= {"coefficient": coefficient, "against": scored.theory_coefficient}
            lines.append(line | _difference(ours, theirs))
    return pl.DataFrame(lines, schema=THEORY, orient="row")


def between(one: Path, other: Path, zero_against_chosen: bool = False) -> pl.DataFrame:
    """Return one run minus another on the trials of both: at λ = 0, and each at its own choice.

    Methods are the same if place, head, penalty and prior are; solver, start and the fixed L2 may
    differ. ``zero_against_chosen`` asks too whether one without a penalty does as well as the other
    at its choice.
    """
    theirs = {_place(scored): (scored, chosen) for scored, chosen in _chosen(other)}
    lines = []
    for scored, chosen in _chosen(one):
        if _place(scored) not in theirs:
            continue
        against, their_choice = theirs[_place(scored)]
        compared = {"0": (0.0, 0.0), "chosen": (chosen, their_choice)}
        if zero_against_chosen:
            compared["0 against chosen"] = (0.0, their_choice)
        for at, coefficients in compared.items():
            line = {name: scored.key[name] for name in _PLACE} | {"at": at}
            line |= dict(zip(("coefficient", "against"), coefficients, strict=True))
            lines.append(line | _matched(scored, against, *coefficients))
    return pl.DataFrame(lines, schema=BETWEEN, orient="row")


def _chosen(run: Path) -> Iterator[tuple[Scored, float]]:
    """Yield the novel scores of every penalised method, with the coefficient chosen for it."""
    index: Index = read_index([run])
    chosen = pl.read_parquet(run / "summary" / "chosen.parquet")
    for row in chosen.filter(pl.col("penalty") != "none").iter_rows(named=True):
        key = tuple({**row, "split": "novel"}[name] for name in KEYS)
        yield load_scored(index, key), row["coefficient"]


def _place(scored: Scored) -> tuple[Any, ...]:
    return tuple(scored.key[name] for name in _PLACE)


def _matched(one: Scored, other: Scored, mine: float, theirs: float) -> Line:
    _, here, there = np.intersect1d(
        one.trials, other.trials, assume_unique=True, return_indices=True
    )
    ours = {name: one.scores[name][one.at(mine)][here] for name in _SCORES}
    against = {name: other.scores[name][other.at(theirs)][there] for name in _SCORES}
    return _difference(ours, against)


def _difference(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> Line:
    """Return means, the interval, the spread over trials and Wilcoxon's p of the accuracies."""
    both = np.isfinite(ours["accuracy"]) & np.isfinite(theirs["accuracy"])
    differences = (ours["accuracy"] - theirs["accuracy"])[both]
    found = paired(differences)
    line: Line = {"trials": found.trials}
    line |= {"accuracy": ours["accuracy"][both].mean()}
    line |= {"against_accuracy": theirs["accuracy"][both].mean()}
    line |= {"difference": found.mean, "difference_ci": found.ci, "p_wilcoxon": found.p}
    line |= {"difference_sd": float(differences.std(ddof=1)) if len(differences) > 1 else None}
    for name in _SCORES[1:]:
        line[f"{name}_difference"] = float(np.mean(ours[name][both] - theirs[name][both]))
    return line
