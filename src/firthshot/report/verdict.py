"""Verdicts in words, computed from the summary's tables: nothing here is a matter of taste."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from firthshot.experiments.schema import KEYS
from firthshot.report import remarks
from firthshot.report.gather import Gathered
from firthshot.report.outcomes import Outcome, Remark, Row, kind_of
from firthshot.report.wording import Condition, capital, head_name, penalty_name

# What makes a method on a bank; what is left of the keys are its conditions.
_CONDITION = ("split", "ways", "actual_ways", "shots", "shots_scheme", "query_rule")
GROUP = tuple(name for name in KEYS if name not in _CONDITION)
_TELLING = ("bank", "extraction", "transform", "solver", "l2_kind", "l2", "source", "artificial")


@dataclass(frozen=True)
class Verdict:
    """One method (bank, head, penalty) over all its ways and shots.

    Attributes
    ----------
    key : the values of GROUP by name
    title : what tells it from the others
    outcomes : one per setting, in the order of ways and shots
    remarks : the verdict in sentences, what matters most first
    """

    key: Row
    title: str
    outcomes: tuple[Outcome, ...]
    remarks: tuple[Remark, ...]

    def count(self, kind: str) -> int:
        """Return the number of settings with this outcome."""
        return sum(outcome.kind == kind for outcome in self.outcomes)


def make_verdicts(gathered: Gathered) -> list[Verdict]:
    """Return a verdict for every method that has a penalty, Firth first."""
    groups = _groups(gathered.summary.chosen)
    titles = _titles(list(groups))
    return [
        _verdict(gathered, key, rows, title)
        for (key, rows), title in zip(groups.items(), titles, strict=True)
    ]


def _groups(chosen: pl.DataFrame) -> dict[tuple[Any, ...], list[Row]]:
    rows = chosen.filter(pl.col("penalty") != "none").to_dicts()
    rows.sort(key=lambda row: (row["penalty"] != "firth", row["prior"] != "uniform"))
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in GROUP), []).append(row)
    return groups


def _titles(keys: list[tuple[Any, ...]]) -> list[str]:
    """Name each group by penalty and head, and by whatever tells it from another of that name."""
    named = [dict(zip(GROUP, key, strict=True)) for key in keys]
    short = [
        f"{capital(penalty_name(key['penalty'], key['prior']))}, {head_name(key['head'])} head"
        for key in named
    ]
    titles = []
    for title, key in zip(short, named, strict=True):
        alike = [other for other, its in zip(named, short, strict=True) if its == title]
        vary = [name for name in _TELLING if len({other[name] for other in alike}) > 1]
        titles.append(", ".join([title, *(_detail(name, key[name]) for name in vary if key[name])]))
    return titles


def _detail(name: str, value: Any) -> str:
    if name == "l2":
        return f"with L2 {value:g}"
    if name == "artificial":
        return f"{value} artificial samples"
    return f"from {value}" if name == "source" else str(value)


def _verdict(gathered: Gathered, key: tuple[Any, ...], rows: list[Row], title: str) -> Verdict:
    named = dict(zip(GROUP, key, strict=True))
    outcomes = tuple(
        sorted(
            (
                Outcome(
                    Condition.of(row),
                    kind_of(row["improvement"], row["p_holm"], row["coefficient"]),
                    row,
                )
                for row in rows
            ),
            key=lambda outcome: outcome.condition,
        )
    )
    contrasts = _contrasts(gathered.summary.contrasts, named)
    said = [
        *remarks.accuracy(named, outcomes),
        *remarks.over_classes(outcomes),
        *remarks.theory(outcomes),
        *remarks.calibration(outcomes, _lean(gathered, named)),
        *remarks.rivals(named, contrasts),
        *remarks.references(named, outcomes, contrasts),
        *remarks.edge(outcomes),
    ]
    return Verdict(named, title, outcomes, tuple(said))


def _lean(gathered: Gathered, key: Row) -> remarks.Lean | None:
    same = [pl.col(name).eq_missing(pl.lit(key[name])) for name in GROUP]
    bins = gathered.bins.filter(
        *same, pl.col("split") == "novel", pl.col("coefficient") == 0, ~pl.col("theory")
    )
    count = int(bins["count"].sum())
    if not count:
        return None
    sums = [float(bins[name].sum()) for name in ("confidence_sum", "correct_sum")]
    return remarks.Lean(sums[0] / count, sums[1] / count)


def _contrasts(contrasts: pl.DataFrame, key: Row) -> list[Row]:
    same = [pl.col(name).eq_missing(pl.lit(key[name])) for name in GROUP]
    return contrasts.filter(*same).to_dicts()
