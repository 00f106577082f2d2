"""The findings of a verdict: what is said of which settings, with the numbers, and no words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from firthshot.experiments.schema import grouped
from firthshot.report.verdict.outcomes import Again, Condition, Contrast, Effect, Outcome, Tested

if TYPE_CHECKING:
    from firthshot.report.verdict.make import Verdict

SAME_ECE = SAME_NLL = 0.005
WIDER = 2.0  # intervals over classes are worth a sentence from this ratio on
LEANS = 0.02  # confidence and accuracy that differ by less are as good as equal


@dataclass(frozen=True)
class Claim:
    """Settings of a method that share a standing."""

    # accuracy, training, classes, theory, calibration, rivals, heads, references or edge
    topic: str
    standing: str  # what holds in these settings
    effects: tuple[Effect, ...]  # where, with estimate and interval
    among: tuple[Condition, ...]  # the settings that were looked at
    opponent: tuple[str, str, str] | None = None  # head, penalty and prior of the other method
    # the trials there are and those that a test needs, where there are too few
    trials: tuple[int, int] | None = None
    numbers: dict[str, Any] | None = None  # what else is told, by name

    @property
    def conditions(self) -> list[Condition]:
        """Return the settings."""
        return [effect.condition for effect in self.effects]


def find(verdict: Verdict) -> Iterator[Claim]:
    """Yield the findings of a verdict, what matters most first."""
    yield from _accuracy(verdict.outcomes)
    yield from _training(verdict)
    yield from _classes(verdict.outcomes)
    yield from _theory(verdict.outcomes)
    yield from _calibration(verdict)
    others = [one for one in verdict.contrasts if not one.is_reference]
    for topic, elsewhere in (("rivals", False), ("heads", True)):
        some = [one for one in others if one.is_other_head is elsewhere]
        for own in grouped(some, lambda one: one.opponent).values():
            yield from _rival(topic, own)
    references = [one for one in verdict.contrasts if one.is_reference]
    for own in grouped(references, lambda one: one.opponent).values():
        yield from _reference(own, verdict.outcomes)
    edge = [outcome for outcome in verdict.outcomes if outcome.row["at_edge"]]
    yield from _claims("edge", "edge", edge, verdict.outcomes)


def trials_of(few: Sequence[Tested]) -> tuple[int, int]:
    """Return how many trials settings with too few of them have at most, and how many they need."""
    return max(one.row["trials"] for one in few), few[0].trials_told


def _accuracy(outcomes: Sequence[Outcome]) -> Iterator[Claim]:
    among = tuple(outcome.condition for outcome in outcomes)
    for standing in ("helps", "costs", "training", "unclear", "few", "only zero", "chose zero"):
        own = [outcome for outcome in outcomes if outcome.standing == standing]
        if own and standing in ("costs", "training"):
            judged = [(o.effect, o.charge, o.again) for o in own]
            yield _loss("accuracy", standing, judged, among)
        elif own and standing == "helps":
            solved = tuple(o.again.optimum for o in own if o.again.optimum)
            effects = tuple(o.effect for o in own)
            yield Claim("accuracy", standing, effects, among, numbers={"solved": solved})
        else:
            yield from _claims("accuracy", standing, own, outcomes)


def _loss(
    topic: str,
    standing: str,
    judged: Sequence[tuple[Effect, Effect | None, Again]],
    among: tuple[Condition, ...],
) -> Claim:
    """Tell losses as they are charged, and as trained where that is more or is not charged."""
    trained = [effect for effect, _, _ in judged]
    charged = [charge for _, charge, _ in judged if charge]
    more = [e for e, c, _ in judged if c and e.width is not None and e.is_below(c)]
    start = not charged and all(again.is_of_the_start(effect) for effect, _, again in judged)
    numbers = {"more": tuple(more), "start": start}
    return Claim(topic, standing, tuple(charged or trained), among, numbers=numbers)


def _claims(
    topic: str, standing: str, own: Sequence[Tested], all_: Sequence[Tested], turned: bool = False
) -> Iterator[Claim]:
    """Yield what holds of some settings among all; ``turned`` tells the opponent's lead."""
    if own:
        effects = tuple(one.effect.turned if turned else one.effect for one in own)
        among = tuple(one.condition for one in all_)
        trials = trials_of(own) if standing == "few" else None
        yield Claim(topic, standing, effects, among, own[0].opponent, trials)


def _training(verdict: Verdict) -> Iterator[Claim]:
    """Find coefficients whose training went astray, and λ = 0 without an optimum."""
    among = verdict.conditions
    unstable = [check for check in verdict.checks if check.unstable]
    if unstable:
        places = tuple(dict.fromkeys(Condition.of(check.key) for check in unstable))
        best = [check.optimum for check in unstable if check.optimum is not None]
        numbers = {
            "values": sorted({check.coefficient for check in unstable}),
            "optimum": (min(best), max(best)) if best else None,
        }
        effects = tuple(Effect(place, 0.0, None) for place in places)
        yield Claim("training", "unstable", effects, among, numbers=numbers)
    lost = {Condition.of(check.key) for check in verdict.checks if check.separable}
    if lost:
        effects = tuple(Effect(place, 0.0, None) for place in sorted(lost))
        yield Claim("training", "separable", effects, among)


def _classes(outcomes: Sequence[Outcome]) -> Iterator[Claim]:
    """Find gains that may be a matter of these classes, and how much wider such intervals are."""
    loose = [o for o in outcomes if o.kind in ("helps", "costs") and not o.sure_over_classes]
    yield from _claims("classes", "loose", loose, outcomes)
    ratios = [ratio for outcome in outcomes if (ratio := outcome.widening)]
    if ratios and (middle := median(ratios)) >= WIDER:
        among = tuple(outcome.condition for outcome in outcomes)
        yield Claim("classes", "wider", (), among, numbers={"ratio": middle})


def _theory(outcomes: Sequence[Outcome]) -> Iterator[Claim]:
    known = [outcome for outcome in outcomes if outcome.theory_standing]
    among = tuple(outcome.condition for outcome in known)
    for standing in ("costs", "training", "open", "safe"):
        own = [o for o in known if o.theory_standing == standing]
        if own and standing in ("costs", "training"):
            judged = [(o.theory_effect, o.theory_charge, o.theory_again) for o in own]
            yield _loss("theory", standing, judged, among)
        elif own:
            yield Claim("theory", standing, tuple(o.theory_effect for o in own), among)


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


def _rival(topic: str, own: list[Contrast]) -> Iterator[Claim]:
    """Compare with another penalty or head, each at its own chosen coefficient."""
    tested = [one for one in own if not one.both_zero]
    for kind in ("helps", "costs", "unclear"):
        some = [one for one in tested if one.kind == kind and not one.too_few]
        yield from _claims(topic, kind, some, own, kind == "costs")
    yield from _claims(topic, "few", [one for one in tested if one.too_few], own)
    yield from _claims(topic, "both zero", [one for one in own if one.both_zero], own)


def _reference(own: list[Contrast], outcomes: Sequence[Outcome]) -> Iterator[Claim]:
    """Find where a head without penalty wins, and where ours helps, whether it does as well."""
    at = {outcome.condition: outcome for outcome in outcomes}
    lost = [
        one
        for one in own
        if one.kind == "costs"  # and beats the head without penalty too
        and one.row["against_accuracy"] > at[one.condition].row["base_accuracy"]
    ]
    for standing, unused in (("beaten", False), ("beaten at zero", True)):
        some = [one for one in lost if (one.row["coefficient"] == 0) is unused]
        yield from _claims("references", standing, some, own, True)
    helped = [one for one in own if at[one.condition].kind == "helps"]
    level = [one for one in helped if one.standing == "as well"]
    wide = [one for one in helped if one.standing == "open" and not one.too_few]
    yield from _claims("references", "as well", level, own)
    yield from _claims("references", "open", wide, own)
    yield from _claims("references", "few", [one for one in helped if one.too_few], own)
