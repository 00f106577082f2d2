"""Verdicts in words, computed from the summary's tables: nothing here is a matter of taste."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from firthshot.experiments.schema import KEYS
from firthshot.experiments.statistics import trials_needed
from firthshot.report import remarks
from firthshot.report.gather import Gathered
from firthshot.report.outcomes import Contrast, Outcome, Remark, Row, kind_of
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
    details : what of it the title needs besides penalty, head and bank
    outcomes : one per setting, in the order of ways and shots
    remarks : the verdict in sentences, what matters most first
    references : where it helps, its contrasts with reference heads on the same trials
    """

    key: Row
    title: str
    details: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    remarks: tuple[Remark, ...]
    references: tuple[Contrast, ...] = ()

    def count(self, kind: str) -> int:
        """Return the number of settings with this outcome."""
        return sum(outcome.kind == kind for outcome in self.outcomes)

    @property
    def reference_standings(self) -> dict[Condition, str]:
        """Return how the best reference head does where this helps.

        ``matched`` where one does as well or better, ``worse`` where each is worse, else ``open``.
        """
        found: dict[Condition, set[str]] = {}
        for one in self.references:
            found.setdefault(one.condition, set()).add(one.standing)
        return {condition: _best(standings) for condition, standings in found.items()}


def _best(standings: set[str]) -> str:
    if standings & {"better", "as well"}:
        return "matched"
    return "open" if "open" in standings else "worse"


def make_verdicts(gathered: Gathered) -> list[Verdict]:
    """Return a verdict for every method that has a penalty, Firth first."""
    groups = _groups(gathered.summary.chosen)
    named = [dict(zip(GROUP, key, strict=True)) for key in groups]
    details = [_details(key, named) for key in named]
    return [
        _verdict(gathered, key, rows, telling)
        for key, rows, telling in zip(named, groups.values(), details, strict=True)
    ]


def _groups(chosen: pl.DataFrame) -> dict[tuple[Any, ...], list[Row]]:
    rows = chosen.filter(pl.col("penalty") != "none").to_dicts()
    rows.sort(key=lambda row: (row["penalty"] != "firth", row["prior"] != "uniform"))
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in GROUP), []).append(row)
    return groups


def _details(key: Row, among: list[Row]) -> dict[str, str]:
    """Return what tells a method from others with the same head and penalty, in words."""
    same = ("penalty", "prior", "head")
    alike = [other for other in among if all(other[name] == key[name] for name in same)]
    vary = [name for name in _TELLING if len({other[name] for other in alike}) > 1]
    none_drawn = ("artificial",) if key["source"] else ()
    return {name: _detail(name, key[name]) for name in vary if key[name] or name in none_drawn}


def _detail(name: str, value: Any) -> str:
    if name == "l2":
        return f"with L2 {value:g}"
    if name == "artificial":
        return f"{value or 'no'} artificial samples"
    return f"from {value}" if name == "source" else str(value)


def _verdict(gathered: Gathered, named: Row, rows: list[Row], details: dict[str, str]) -> Verdict:
    name = capital(penalty_name(named["penalty"], named["prior"]))
    title = ", ".join([name, f"{head_name(named['head'])} head", *details.values()])
    beside = tuple(words for what, words in details.items() if what != "bank")
    outcomes = _outcomes(gathered, named, rows)
    contrasts = _contrasts(gathered.summary.contrasts, named)
    said = [
        *remarks.accuracy(named, outcomes),
        *remarks.over_classes(outcomes),
        *remarks.theory(outcomes),
        *remarks.calibration(outcomes, _leans(gathered, named)),
        *remarks.rivals(named, contrasts),
        *remarks.references(named, outcomes, contrasts),
        *remarks.edge(outcomes),
    ]
    helped = {outcome.condition for outcome in outcomes if outcome.kind == "helps"}
    references = [
        one for one in contrasts if one.row["against_penalty"] == "none" and one.condition in helped
    ]
    return Verdict(named, title, beside, outcomes, tuple(said), tuple(references))


def _outcomes(gathered: Gathered, named: Row, rows: list[Row]) -> tuple[Outcome, ...]:
    needed = trials_needed(_tests(gathered.summary.chosen))
    tried = _largest_candidates(gathered.summary.all, named)
    found = [
        Outcome(
            Condition.of(row),
            kind_of(row["improvement"], row["p_holm"], row["coefficient"]),
            row,
            needed,
            only_zero=tried.get(Condition.of(row)) == 0,
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda outcome: outcome.condition))


def _largest_candidates(lines: pl.DataFrame, key: Row) -> dict[Condition, float]:
    """Return the largest coefficient that the validation classes could choose in each setting."""
    tried = lines.filter(*_same(key), pl.col("split") == "val", ~pl.col("theory"))
    found: dict[Condition, float] = {}
    for row in tried.to_dicts():
        place = Condition.of(row)
        found[place] = max(found.get(place, 0.0), row["coefficient"])
    return found


def _tests(chosen: pl.DataFrame) -> int:
    """Return the size of the family that Holm's rule corrects."""
    return len(chosen.filter(pl.col("penalty") != "none"))


def _leans(gathered: Gathered, key: Row) -> dict[Condition, remarks.Lean]:
    """Return mean confidence and accuracy of the head without penalty, per setting."""
    bins = gathered.bins.filter(
        *_same(key), pl.col("split") == "novel", pl.col("coefficient") == 0, ~pl.col("theory")
    )
    sums = pl.col("count", "confidence_sum", "correct_sum").sum()
    settings = bins.group_by("ways", "shots", "shots_scheme").agg(sums).filter(pl.col("count") > 0)
    return {
        Condition.of(row): remarks.Lean(
            row["confidence_sum"] / row["count"], row["correct_sum"] / row["count"]
        )
        for row in settings.to_dicts()
    }


def _contrasts(contrasts: pl.DataFrame, key: Row) -> list[Contrast]:
    needed = trials_needed(len(contrasts))
    return [
        Contrast(Condition.of(row), kind_of(row["difference"], row["p_holm"]), row, needed)
        for row in contrasts.filter(*_same(key)).to_dicts()
    ]


def _same(key: Row) -> list[pl.Expr]:
    """Return what lines of a method have in common."""
    return [pl.col(name).eq_missing(pl.lit(key[name])) for name in GROUP]
