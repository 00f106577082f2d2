"""The findings of a verdict: what is said of which settings, with the numbers, and no words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from firthshot.experiments.schema import grouped
from firthshot.report.verdict.outcomes import Condition, Contrast, Effect, Outcome, Tested

if TYPE_CHECKING:
    from firthshot.report.verdict.make import Verdict

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
    astray = {
        "values": sorted({check.coefficient for check in unstable}),
        "optimum": (min(best), max(best)) if best else None,
    }
    lost = [check for check in verdict.checks if check.separable]
    for standing, checks, numbers in (("unstable", unstable, astray), ("separable", lost, {})):
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
