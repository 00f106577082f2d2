"""From the summary's tables to verdicts: nothing here is a matter of taste."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from firthshot.experiments.schema import KEYS, METHOD, grouped
from firthshot.experiments.statistics import trials_needed
from firthshot.report.verdict.findings import Claim, find
from firthshot.report.verdict.outcomes import (
    Again,
    Condition,
    Contrast,
    Effect,
    Outcome,
    Row,
    kind_of,
    turned,
)

if TYPE_CHECKING:
    from firthshot.experiments.checks import Check
    from firthshot.report.gather import Gathered

# What makes a method on a bank; what is left of the keys are its conditions.
_CONDITION = ("split", "ways", "actual_ways", "shots", "shots_scheme", "query_rule")
GROUP = tuple(name for name in KEYS if name not in _CONDITION)
_TELLING = ("bank", "extraction", "transform", "solver", "l2_kind", "l2", "source", "artificial")


class Lean(NamedTuple):
    """Mean confidence and accuracy of the head without penalty in a setting."""

    confidence: float
    accuracy: float

    @property
    def gap(self) -> float:
        """Return by how much confidence exceeds accuracy."""
        return self.confidence - self.accuracy


@dataclass(frozen=True)
class Verdict:
    """One method (bank, head, penalty) over all its ways and shots."""

    key: Row  # the values of GROUP by name
    # the names in the key that tell it from others with the same head and penalty
    telling: tuple[str, ...]
    outcomes: tuple[Outcome, ...]  # one per setting, in the order of ways and shots
    contrasts: tuple[Contrast, ...] = ()  # it against other methods on the same trials
    # how sure and how right the head is without penalty, where that is known
    leans: dict[Condition, Lean] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()  # what its runs found of start, step and optimum

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Return its settings."""
        return tuple(outcome.condition for outcome in self.outcomes)

    @cached_property
    def findings(self) -> tuple[Claim, ...]:
        """Return what holds, what matters most first."""
        return tuple(find(self))

    def count(self, kind: str) -> int:
        """Return the number of settings with this outcome."""
        return sum(outcome.kind == kind for outcome in self.outcomes)

    @property
    def references(self) -> list[Contrast]:
        """Return the contrasts with heads without penalty where this helps."""
        helped = {outcome.condition for outcome in self.outcomes if outcome.kind == "helps"}
        return [one for one in self.contrasts if one.is_reference and one.condition in helped]

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
    keys = [dict(zip(GROUP, key, strict=True)) for key in groups]
    return [
        Verdict(
            key,
            _telling(key, keys),
            _outcomes(gathered, key, rows),
            _contrasts(gathered, key),
            _leans(gathered.bins, key),
            _checks(gathered, key),
        )
        for key, rows in zip(keys, groups.values(), strict=True)
    ]


def main_verdicts(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts that the report's first answer is about: on Firth, else on all."""
    firth = [verdict for verdict in verdicts if verdict.key["penalty"] == "firth"]
    return [v for v in firth if v.key["prior"] == "uniform"] or firth or list(verdicts)


def _groups(chosen: pl.DataFrame) -> dict[tuple[Any, ...], list[Row]]:
    rows = chosen.filter(pl.col("penalty") != "none").to_dicts()
    rows.sort(key=lambda row: (row["penalty"] != "firth", row["prior"] != "uniform"))
    return grouped(rows, itemgetter(*GROUP))


def _telling(key: Row, among: list[Row]) -> tuple[str, ...]:
    """Return what tells a method from others with the same head and penalty."""
    same = ("penalty", "prior", "head")
    alike = [other for other in among if all(other[name] == key[name] for name in same)]
    vary = [name for name in _TELLING if len({other[name] for other in alike}) > 1]
    none_drawn = ("artificial",) if key["source"] else ()
    return tuple(name for name in vary if key[name] or name in none_drawn)


def _outcomes(gathered: Gathered, key: Row, rows: list[Row]) -> tuple[Outcome, ...]:
    needed, compared = _trials_needed(gathered)
    tried = _largest_candidates(gathered.summary.all, key)
    again = {
        (Condition.of(check.key), check.coefficient): _again(check)
        for check in _checks(gathered, key)
    }
    found = []
    for row in rows:
        condition = Condition.of(row)
        kind = kind_of(row["improvement"], row["p_holm"], row["coefficient"])
        spoken_of = row["coefficient"], row["theory_coefficient"]
        others = (again.get((condition, value), Again()) for value in spoken_of)
        told, only_zero = max(needed, compared), tried.get(condition) == 0
        found.append(Outcome(condition, kind, row, needed, told, only_zero, *others))
    return tuple(sorted(found, key=lambda outcome: outcome.condition))


def _trials_needed(gathered: Gathered) -> tuple[int, int]:
    """Return the trials that a test needs in ``chosen`` and in ``contrasts``, Holm's families."""
    penalised = gathered.summary.chosen.filter(pl.col("penalty") != "none")
    return trials_needed(len(penalised)), trials_needed(len(gathered.summary.contrasts))


def _again(check: Check) -> Again:
    place = Condition.of(check.key)
    known = ((check.zero, check.zero_ci), (check.optimum_gain, check.optimum_ci))
    return Again(*(None if mean is None else Effect(place, mean, width) for mean, width in known))


def _checks(gathered: Gathered, key: Row) -> tuple[Check, ...]:
    return tuple(
        check for check in gathered.checks if all(check.key[name] == key[name] for name in GROUP)
    )


def _largest_candidates(lines: pl.DataFrame, key: Row) -> dict[Condition, float]:
    """Return the largest coefficient that the validation classes could choose in each setting."""
    tried = lines.filter(*_same(key), pl.col("split") == "val", ~pl.col("theory"))
    found: dict[Condition, float] = {}
    for row in tried.to_dicts():
        place = Condition.of(row)
        found[place] = max(found.get(place, 0.0), row["coefficient"])
    return found


def _leans(bins: pl.DataFrame, key: Row) -> dict[Condition, Lean]:
    plain = bins.filter(
        *_same(key), pl.col("split") == "novel", pl.col("coefficient") == 0, ~pl.col("theory")
    )
    sums = pl.col("count", "confidence_sum", "correct_sum").sum()
    settings = plain.group_by("ways", "shots", "shots_scheme").agg(sums).filter(pl.col("count") > 0)
    return {
        Condition.of(row): Lean(
            row["confidence_sum"] / row["count"], row["correct_sum"] / row["count"]
        )
        for row in settings.to_dicts()
    }


def _contrasts(gathered: Gathered, key: Row) -> tuple[Contrast, ...]:
    contrasts, (chosen, needed) = gathered.summary.contrasts, _trials_needed(gathered)
    told = max(chosen, needed)
    heads = contrasts.filter(
        pl.col("head") != pl.col("against_head"), pl.col("against_penalty") != "none", *_turned(key)
    )
    rows = [*contrasts.filter(*_same(key)).to_dicts(), *map(turned, heads.to_dicts())]
    return tuple(
        Contrast(Condition.of(row), kind_of(row["difference"], row["p_holm"]), row, needed, told)
        for row in rows
    )


def _same(key: Row) -> list[pl.Expr]:
    return [pl.col(name).eq_missing(pl.lit(key[name])) for name in GROUP]


def _turned(key: Row) -> list[pl.Expr]:
    names = {name: f"against_{name}" if name in METHOD else name for name in GROUP}
    return [pl.col(other).eq_missing(pl.lit(key[name])) for name, other in names.items()]
