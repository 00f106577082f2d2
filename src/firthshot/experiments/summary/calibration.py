"""Distribution Calibration: choose artificial rows and λ together, on val or as published.

One line of ``calibration.csv`` per setting and way of choosing. *Before* is coefficient 0, *after*
the best coefficient, each with the number of artificial rows that is best for it. Both are chosen
on the validation classes (``chosen_on = "val"``), or, to reproduce the paper's Table 1, on the very
novel trials that are reported (``chosen_on = "novel (as published)"``), which favours both and is
no estimate of what a user would get.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from firthshot.experiments.schema import KEYS, grouped
from firthshot.experiments.statistics import first_best, half_width
from firthshot.experiments.summary.choice import Line, choose, paired_line
from firthshot.experiments.summary.columns import CHOSEN
from firthshot.experiments.summary.published import published_for
from firthshot.experiments.summary.scores import Scored

PUBLISHED_WAY = "novel (as published)"
_KEYS = {name: CHOSEN[name] for name in KEYS if name in CHOSEN and name != "artificial"}

CALIBRATION: dict[str, Any] = {
    **_KEYS,
    "chosen_on": pl.String,
    "before_artificial": pl.Int32,
    "artificial": pl.Int32,
    "coefficient": pl.Float64,
    "trials": pl.Int64,
    **dict.fromkeys(
        (
            *("base_accuracy", "accuracy", "accuracy_ci", "improvement", "improvement_ci"),
            *("improvement_ci_as_published", "p_wilcoxon"),
            *("published_before", "published_after"),
            *("published_improvement", "published_improvement_ci"),
        ),
        pl.Float64,
    ),
}


def calibration_lines(drawn: list[tuple[Scored, Scored]]) -> Iterator[Line]:
    """Yield the lines of every setting, both ways of choosing.

    A setting has validation and novel trials for each number of artificial rows.
    """
    setting = itemgetter(*_KEYS)
    for some in grouped(drawn, lambda one: setting(one[1].key)).values():
        vals, novels = zip(*sorted(some, key=lambda one: one[1].key["artificial"]), strict=True)
        yield _line(novels, vals, "val")
        yield _line(novels, novels, PUBLISHED_WAY)


def _line(novels: Sequence[Scored], judged: Sequence[Scored], chosen_on: str) -> Line:
    coefficients = [choose(one).coefficient for one in judged]
    # They stand in the order of their artificial rows: of equals, the fewest.
    before = first_best(np.array([_mean(one, 0.0) for one in judged]))
    pairs = zip(judged, coefficients, strict=True)
    after = first_best(np.array([_mean(one, lam) for one, lam in pairs]))
    lam = coefficients[after]
    ours, base = novels[after], novels[before]
    _, mine, theirs = np.intersect1d(ours.trials, base.trials, return_indices=True)
    at_lam, at_zero = ours.at(lam), ours.at(0.0)
    accuracy = ours.scores["accuracy"][at_lam, mine]
    differences = accuracy - base.scores["accuracy"][base.at(0.0), theirs]
    own = ours.scores["accuracy"][at_lam] - ours.scores["accuracy"][at_zero]
    ok = np.isfinite(differences)
    return {
        **{name: ours.key[name] for name in _KEYS},
        "chosen_on": chosen_on,
        "before_artificial": base.key["artificial"],
        "artificial": ours.key["artificial"],
        "coefficient": lam,
        **paired_line("improvement", differences[ok], ours.trials[mine][ok], None),
        "base_accuracy": float((accuracy - differences)[ok].mean()),
        "accuracy": float(accuracy[ok].mean()),
        "accuracy_ci": half_width(accuracy[ok]),
        "improvement_ci_as_published": half_width(own[np.isfinite(own)]),
        **_published(ours.key),
    }


def _mean(scored: Scored, coefficient: float) -> float:
    return float(np.nanmean(scored.scores["accuracy"][scored.at(coefficient)]))


def _published(key: dict[str, Any]) -> Line:
    """Return the paper's number that is itself a choice among numbers of artificial rows."""
    for entry in published_for(key):
        if entry.artificial is None:
            values = {name: getattr(entry, name) for name in ("before", "after", "improvement")}
            columns: Line = {f"published_{name}": value for name, value in values.items()}
            return columns | {"published_improvement_ci": entry.ci}
    return {}
