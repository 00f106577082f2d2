"""From the summary's tables to verdicts and their findings: no words, no matter of taste."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple

import polars as pl

from firthshot.experiments.checks import Check
from firthshot.experiments.schema import KEYS, grouped
from firthshot.experiments.statistics import trials_needed
from firthshot.experiments.summary import RunSummary
from firthshot.report.verdict.outcomes import (
    Again,
    Condition,
    Contrast,
    Effect,
    Outcome,
    Row,
    Tested,
    kind_of,
    turned,
)

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


def make_verdicts(summary: RunSummary, found: Iterable[Check], bins: pl.DataFrame) -> list[Verdict]:
    """Return a verdict for every method that has a penalty, Firth first.

    ``found`` and ``bins`` are the checks of the runs and their pooled reliability bins.
    """
    rows = summary.chosen.filter(pl.col("penalty") != "none").to_dicts()
    rows.sort(key=lambda row: (row["penalty"] != "firth", row["prior"] != "uniform"))
    tried = summary.all.filter(pl.col("split") == "val", ~pl.col("theory")).to_dicts()
    # the trials that a test needs in ``chosen`` and in ``contrasts``, Holm's families
    needed = trials_needed(len(rows)), trials_needed(len(summary.contrasts))
    groups, candidates = grouped(rows, _group), grouped(tried, _group)
    contrasts = grouped(_both_sides(summary.contrasts), _group)
    checks = grouped(found, lambda check: _group(check.key))
    leans = _leans(bins)
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


SAME_ECE = SAME_NLL = 0.005
WIDER = 2.0  # intervals over classes are worth a sentence from this ratio on
LEANS = 0.02  # confidence and accuracy that differ by less are as good as equal
# What is said of a topic, what matters most first.
_ACCURACY = ("helps", "costs", "training", "unclear", "few", "only zero", "chose zero")
_THEORY = ("costs", "training", "open", "safe")
_RIVAL = ("helps", "costs", "unclear", "few", "both zero")
_REFERENCE = ("beaten", "beaten at zero", "as well", "open", "few")


@dataclass(frozen=True)
class Claim:
    """Settings of a method that share a standing."""

    # accuracy, training, classes, theory, calibration, rivals, heads, references or edge
    topic: str
    standing: str  # what holds in these settings
    effects: tuple[Effect, ...]  # where, with estimate and interval as trained
    among: tuple[Condition, ...]  # the settings that were looked at
    opponent: tuple[str, str, str] | None = None  # head, penalty and prior of the other method
    # the trials there are and those that a test needs, where there are too few
    trials: tuple[int, int] | None = None
    solved: tuple[Effect, ...] = ()  # the same effects at the optimum, where it is known
    numbers: dict[str, Any] = field(default_factory=dict)  # what else is told, by name

    @property
    def conditions(self) -> list[Condition]:
        """Return the settings."""
        return [effect.condition for effect in self.effects]


def find(verdict: Verdict) -> Iterator[Claim]:
    """Yield the findings of a verdict, what matters most first."""
    outcomes = verdict.outcomes
    yield from _claims("accuracy", _ACCURACY, outcomes, [o.standing for o in outcomes])
    yield from _training(verdict)
    yield from _classes(outcomes)
    yield from _theory(outcomes)
    yield from _calibration(verdict)
    others = [one for one in verdict.contrasts if not one.is_reference]
    for topic, elsewhere in (("rivals", False), ("heads", True)):
        some = [one for one in others if one.is_other_head is elsewhere]
        for own in grouped(some, lambda one: one.opponent).values():
            yield from _claims(topic, _RIVAL, own, list(map(_rival, own)))
    at = {outcome.condition: outcome for outcome in outcomes}
    references = [one for one in verdict.contrasts if one.is_reference]
    for own in grouped(references, lambda one: one.opponent).values():
        standings = [_reference(one, at[one.condition]) for one in own]
        yield from _claims("references", _REFERENCE, own, standings)
    edge = ["edge" if outcome.row["at_edge"] else "" for outcome in outcomes]
    yield from _claims("edge", ("edge",), outcomes, edge)


def trials_of(few: Sequence[Tested]) -> tuple[int, int]:
    """Return how many trials settings with too few of them have at most, and how many they need."""
    return max(one.row["trials"] for one in few), few[0].trials_told


def _claims(
    topic: str, order: Sequence[str], tested: Sequence[Tested], standings: Sequence[str]
) -> Iterator[Claim]:
    """Yield what holds of which lines of a table; a winning opponent's lead is told as its own."""
    among = tuple(one.condition for one in tested)
    for standing in order:
        own = [one for one, its in zip(tested, standings, strict=True) if its == standing]
        if own:
            lost = own[0].opponent and standing in ("costs", "beaten", "beaten at zero")
            effects = tuple(one.effect.turned if lost else one.effect for one in own)
            trials = trials_of(own) if standing == "few" else None
            solved = tuple(one.optimum for one in own if one.optimum)
            numbers = {"start": all(one.is_of_the_start for one in own)}
            yield Claim(topic, standing, effects, among, own[0].opponent, trials, solved, numbers)


def _training(verdict: Verdict) -> Iterator[Claim]:
    """Find coefficients whose training went astray, and λ = 0 without an optimum."""
    unstable = [check for check in verdict.checks if check.unstable]
    best = [check.optimum for check in unstable if check.optimum is not None]
    numbers = {
        "values": sorted({check.coefficient for check in unstable}),
        "optimum": (min(best), max(best)) if best else None,
    }
    lost = [check for check in verdict.checks if check.separable]
    for standing, checks in (("unstable", unstable), ("separable", lost)):
        places = sorted({Condition.of(check.key) for check in checks})
        effects = tuple(Effect(place, 0.0, None) for place in places)
        if effects:
            yield Claim("training", standing, effects, verdict.conditions, numbers=numbers)


def _classes(outcomes: Sequence[Outcome]) -> Iterator[Claim]:
    """Find gains that may be a matter of these classes, and how much wider such intervals are."""
    loose = ["loose" if o.is_loose_over_classes else "" for o in outcomes]
    yield from _claims("classes", ("loose",), outcomes, loose)
    ratios = [ratio for outcome in outcomes if (ratio := outcome.widening)]
    if ratios and (middle := median(ratios)) >= WIDER:
        among = tuple(outcome.condition for outcome in outcomes)
        yield Claim("classes", "wider", (), among, numbers={"ratio": middle})


def _theory(outcomes: Sequence[Outcome]) -> Iterator[Claim]:
    known = [outcome for outcome in outcomes if outcome.theory_standing]
    among = tuple(outcome.condition for outcome in known)
    for standing in _THEORY:
        own = [o for o in known if o.theory_standing == standing]
        if own:
            solved = tuple(o.theory_again.optimum for o in own if o.theory_again.optimum)
            effects = tuple(o.theory_told for o in own)
            start = all(o.theory_again.is_of_the_start(o.theory_effect) for o in own)
            numbers = {"start": start}
            yield Claim("theory", standing, effects, among, solved=solved, numbers=numbers)


def moves(outcomes: Iterable[Outcome], loss: str, same: float) -> tuple[int, int]:
    """Count the settings in which the chosen coefficient makes a loss rise and fall."""
    changes = [o.row[loss] - o.row[f"base_{loss}"] for o in outcomes]
    return sum(change > same for change in changes), sum(change < -same for change in changes)


def calibrated(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the settings in which the penalty is in use and probabilities are known."""
    return [o for o in outcomes if o.kind != "unchanged" and o.row["ece_pooled"] is not None]


def _calibration(verdict: Verdict) -> Iterator[Claim]:
    """Find what the chosen coefficient does to the probabilities; there is no test of it."""
    known = calibrated(verdict.outcomes)
    if not known:
        return
    nll, ece = moves(known, "nll", SAME_NLL), moves(known, "ece_pooled", SAME_ECE)
    worse, better = nll[0] + ece[0], nll[1] + ece[1]
    standing = "same" if worse == better else "worse" if worse > better else "better"
    mixed = "mostly " if worse and better and worse != better else ""
    most = max(known, key=lambda o: abs(o.row["ece_pooled"] - o.row["base_ece_pooled"])).row
    among = tuple(outcome.condition for outcome in known)
    leans = {one: verdict.leans[one] for one in among if one in verdict.leans}
    numbers = {"nll": nll, "ece": ece, "most": most, "leans": leans}
    effects = tuple(outcome.effect for outcome in known)
    yield Claim("calibration", mixed + standing, effects, among, numbers=numbers)


def _rival(one: Contrast) -> str:
    """Compare with another penalty or head, each at its own chosen coefficient."""
    if one.both_zero:
        return "both zero"
    return "few" if one.too_few else one.kind


def _reference(one: Contrast, here: Outcome) -> str:
    """Say whether a head without penalty wins, and where ours helps, whether it does as well."""
    if one.kind == "costs" and one.row["against_accuracy"] > here.row["base_accuracy"]:
        return "beaten at zero" if one.row["coefficient"] == 0 else "beaten"
    if here.kind != "helps":
        return ""
    return "few" if one.too_few else one.standing
