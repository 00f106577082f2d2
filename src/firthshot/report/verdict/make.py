"""From the summary's tables to verdicts: nothing here is a matter of taste."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from firthshot.experiments.schema import KEYS, grouped
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
_group = itemgetter(*GROUP)
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
    summary = gathered.summary
    rows = summary.chosen.filter(pl.col("penalty") != "none").to_dicts()
    rows.sort(key=lambda row: (row["penalty"] != "firth", row["prior"] != "uniform"))
    tried = summary.all.filter(pl.col("split") == "val", ~pl.col("theory")).to_dicts()
    # the trials that a test needs in ``chosen`` and in ``contrasts``, Holm's families
    needed = trials_needed(len(rows)), trials_needed(len(summary.contrasts))
    groups, candidates = grouped(rows, _group), grouped(tried, _group)
    contrasts = grouped(_both_sides(summary.contrasts), _group)
    checks = grouped(gathered.checks, lambda check: _group(check.key))
    leans = _leans(gathered.bins)
    keys = [dict(zip(GROUP, key, strict=True)) for key in groups]
    return [
        Verdict(
            key,
            _telling(key, keys),
            _outcomes(own, candidates.get(group, []), checks.get(group, []), needed),
            tuple(_contrast(row, needed) for row in contrasts.get(group, [])),
            leans.get(group, {}),
            tuple(checks.get(group, [])),
        )
        for key, (group, own) in zip(keys, groups.items(), strict=True)
    ]


def main_verdicts(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts that the report's first answer is about: on Firth, else on all."""
    firth = [verdict for verdict in verdicts if verdict.key["penalty"] == "firth"]
    return [v for v in firth if v.key["prior"] == "uniform"] or firth or list(verdicts)


def _telling(key: Row, among: list[Row]) -> tuple[str, ...]:
    """Return what tells a method from others with the same head and penalty."""
    same = ("penalty", "prior", "head")
    alike = [other for other in among if all(other[name] == key[name] for name in same)]
    vary = [name for name in _TELLING if len({other[name] for other in alike}) > 1]
    none_drawn = ("artificial",) if key["source"] else ()
    return tuple(name for name in vary if key[name] or name in none_drawn)


def _outcomes(
    rows: list[Row], candidates: list[Row], checks: list[Check], needed: tuple[int, int]
) -> tuple[Outcome, ...]:
    again = {(Condition.of(check.key), check.coefficient): _again(check) for check in checks}
    tried = grouped(candidates, Condition.of)
    found = []
    for row in rows:
        condition = Condition.of(row)
        kind = kind_of(row["improvement"], row["p_holm"], row["coefficient"])
        spoken_of = row["coefficient"], row["theory_coefficient"]
        others = (again.get((condition, value), Again()) for value in spoken_of)
        largest = max((line["coefficient"] for line in tried.get(condition, [])), default=None)
        found.append(Outcome(condition, kind, row, needed[0], max(needed), largest == 0, *others))
    return tuple(sorted(found, key=lambda outcome: outcome.condition))


def _again(check: Check) -> Again:
    place = Condition.of(check.key)
    known = ((check.zero, check.zero_ci), (check.optimum_gain, check.optimum_ci))
    return Again(*(None if mean is None else Effect(place, mean, width) for mean, width in known))


def _leans(bins: pl.DataFrame) -> dict[tuple[Any, ...], dict[Condition, Lean]]:
    """Return how sure and how right heads are without penalty, by method and setting."""
    plain = bins.filter(pl.col("split") == "novel", pl.col("coefficient") == 0, ~pl.col("theory"))
    sums = pl.col("count", "confidence_sum", "correct_sum").sum()
    settings = plain.group_by(*GROUP, "ways", "shots", "shots_scheme").agg(sums)
    found: dict[tuple[Any, ...], dict[Condition, Lean]] = {}
    for row in settings.filter(pl.col("count") > 0).to_dicts():
        means = (row[name] / row["count"] for name in ("confidence_sum", "correct_sum"))
        found.setdefault(_group(row), {})[Condition.of(row)] = Lean(*means)
    return found


def _both_sides(contrasts: pl.DataFrame) -> Iterator[Row]:
    """Yield the contrasts, and those of two trained heads from the other's side too."""
    rows = contrasts.to_dicts()
    yield from rows
    for row in rows:
        if row["head"] != row["against_head"] and row["against_penalty"] != "none":
            yield turned(row)


def _contrast(row: Row, needed: tuple[int, int]) -> Contrast:
    kind = kind_of(row["difference"], row["p_holm"])
    return Contrast(Condition.of(row), kind, row, needed[1], max(needed))
