"""The sentences of a verdict, each computed from the lines of the summary's tables.

What is said of probabilities (nll, ECE) has no test: it counts the settings that move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firthshot.report.outcomes import (
    MARGIN_WORDS,
    MUCH,
    SAME_ECE,
    SAME_NLL,
    WIDER,
    Contrast,
    Effect,
    Outcome,
    Remark,
    Row,
    effects,
    needed_words,
    phrases,
    unchanged_by_reason,
)
from firthshot.report.wording import (
    Condition,
    capital,
    head_name,
    listed,
    parts,
    penalty_name,
    where,
)

_LOSS = f"a loss of {MARGIN_WORDS}"
_LEANS = 0.02  # confidence and accuracy that differ by less are as good as equal

# What λ = K rank/(2N) is derived for, and where it is compared with a chosen λ at length.
_WHY = (
    " It is derived to remove the first-order bias of the weights, not to raise accuracy; "
    "studies/reproduction compares it with a chosen λ."
)


def accuracy(key: Row, outcomes: Sequence[Outcome]) -> Iterator[Remark]:
    """Say where it helps, where it costs, and where nothing can be told."""
    name = penalty_name(key["penalty"], key["prior"])
    among = [outcome.condition for outcome in outcomes]
    for kind, words, tone in (
        ("helps", f"{name} helps", "good"),
        ("costs", f"{name} costs accuracy", "bad"),
        ("unclear", "no significant effect", "plain"),
    ):
        own = effects(o for o in outcomes if o.kind == kind and not o.too_few)
        if own:
            listed_parts = "; ".join(phrases(own, among))
            yield Remark("accuracy", tone, f"{capital(words)} {listed_parts}.")
    if few := [outcome for outcome in outcomes if outcome.too_few]:
        places = "; ".join(phrases(effects(few), among))
        yield Remark("accuracy", "plain", f"Too few trials to tell {places}: {needed_words(few)}.")
    for why, unchanged in unchanged_by_reason(outcomes).items():
        places = _places(unchanged, among)
        yield Remark("accuracy", "plain", f"{capital(why)} {places}: there it is left out.")


def _places(some: Sequence[Condition], among: Sequence[Condition]) -> str:
    return listed(where(part, among) for part in parts(some, among))


def over_classes(outcomes: Sequence[Outcome]) -> Iterator[Remark]:
    """Say where a gain may be a matter of these classes, and how much wider such intervals are."""
    among = [outcome.condition for outcome in outcomes]
    loose = [o for o in outcomes if o.kind in ("helps", "costs") and not o.sure_over_classes]
    if loose:
        places = _places([o.condition for o in loose], among)
        yield Remark(
            "classes",
            "bad",
            f"Other classes could tell otherwise {places}: the interval that also resamples "
            "classes includes zero there.",
        )
    ratios = sorted(filter(None, map(_widening, outcomes)))
    if ratios and (median := ratios[len(ratios) // 2]) >= WIDER:
        yield Remark(
            "classes",
            "plain",
            f"Intervals over classes are about {median:.1f} times as wide as those over trials: "
            "more trials will not settle what other classes would do.",
        )


def _widening(outcome: Outcome) -> float | None:
    """Return how much wider the interval over classes is than that over trials."""
    row = outcome.row
    width, low = row["improvement_ci"], row["improvement_classes_low"]
    if not width or low is None:
        return None
    return float((row["improvement_classes_high"] - low) / (2 * width))


def theory(outcomes: Sequence[Outcome]) -> Iterator[Remark]:
    """Say where the tuning-free coefficient costs accuracy, is safe, or cannot be judged."""
    known = [outcome for outcome in outcomes if outcome.theory_standing]
    among = [outcome.condition for outcome in known]
    for standing, words, tone in (
        ("costs", "is not safe: its interval is below zero", "bad"),
        ("open", f"cannot be judged: its interval leaves room for {_LOSS}", "plain"),
        ("safe", f"is safe: its interval leaves no room for {_LOSS}", "good"),
    ):
        own = [_theory_effect(o) for o in known if o.theory_standing == standing]
        if own:
            why = _WHY if standing == "costs" and min(mean for _, mean, _ in own) <= -MUCH else ""
            said = "; ".join(phrases(own, among))
            yield Remark("theory", tone, f"The tuning-free λ of the theory {words} {said}.{why}")


def _theory_effect(outcome: Outcome) -> Effect:
    row = outcome.row
    return outcome.condition, row["theory_improvement"], row["theory_improvement_ci"]


@dataclass(frozen=True)
class Lean:
    """Mean confidence and accuracy of the head without penalty in a setting."""

    confidence: float
    accuracy: float

    @property
    def gap(self) -> float:
        """Return by how much confidence exceeds accuracy."""
        return self.confidence - self.accuracy


def calibration(outcomes: Sequence[Outcome], leans: Mapping[Condition, Lean]) -> Iterator[Remark]:
    """Say what the chosen coefficient does to the probabilities."""
    moved = [o for o in outcomes if o.kind != "unchanged"]
    known = [o for o in moved if o.row["ece_pooled"] is not None]
    if not known:
        return
    nll = _moves(known, "base_nll", "nll", SAME_NLL)
    ece = _moves(known, "base_ece_pooled", "ece_pooled", SAME_ECE)
    worse, better = nll[0] + ece[0], nll[1] + ece[1]
    word, tone = ("worse", "bad") if worse > better else ("better", "good")
    if worse == better:
        word, tone = "neither better nor worse", "plain"
    elif worse and better:
        word, tone = f"mostly {word}", "plain"
    most = max(known, key=lambda o: abs(o.row["ece_pooled"] - o.row["base_ece_pooled"])).row
    move = f"from {most['base_ece_pooled']:.2f} to {most['ece_pooled']:.2f}"
    if len(known) > 1:
        move = f"the largest move is {move} at {Condition.of(most).words}"
    yield Remark(
        "calibration",
        tone,
        f"Its probabilities are {word}: nll {_moved(nll, len(known))}, calibration error (ECE) "
        f"{_moved(ece, len(known))}, {move}.{_leaning([o.condition for o in known], leans)}",
    )


def _moves(outcomes: list[Outcome], before: str, after: str, same: float) -> tuple[int, int]:
    """Count the settings in which a loss rises and falls."""
    changes = [o.row[after] - o.row[before] for o in outcomes]
    return sum(c > same for c in changes), sum(c < -same for c in changes)


def _moved(counts: tuple[int, int], total: int) -> str:
    rises, falls = counts
    if total == 1 and rises + falls:
        return "rises" if rises else "falls"
    said = [f"{word} in {n}" for word, n in (("rises", rises), ("falls", falls)) if n]
    return f"{' and '.join(said)} of {total}" if said else "stays"


def _leaning(settings: Sequence[Condition], leans: Mapping[Condition, Lean]) -> str:
    """Say how confident the head is without penalty in the settings that the remark is about."""
    known = {one: leans[one] for one in settings if one in leans}
    over = sum(lean.gap >= _LEANS for lean in known.values())
    under = sum(lean.gap <= -_LEANS for lean in known.values())
    if not over + under:
        return ""
    place, most = max(known.items(), key=lambda each: abs(each[1].gap))
    counts = [f"{how}-confident in {n}" for how, n in (("over", over), ("under", under)) if n]
    words, at = f"{' and '.join(counts)} of {len(known)}, most", f" at {place.words}"
    if len(known) == 1:
        words, at = f"{'over' if over else 'under'}-confident", ""
    return (
        f" Without penalty the head is {words}{at}: {most.confidence:.0%} mean confidence at "
        f"{most.accuracy:.0%} accuracy."
    )


def _by_opponent(
    contrasts: list[Contrast], name: Callable[[Row], str]
) -> dict[str, list[Contrast]]:
    groups: dict[str, list[Contrast]] = {}
    for one in contrasts:
        groups.setdefault(name(one.row), []).append(one)
    return groups


def rivals(key: Row, contrasts: list[Contrast]) -> Iterator[Remark]:
    """Compare with the other penalties of the same head, each at its own chosen coefficient."""
    rivals = [one for one in contrasts if one.row["against_penalty"] != "none"]
    name = penalty_name(key["penalty"], key["prior"])
    for other, own_rivals in _by_opponent(rivals, _opponent_penalty).items():
        among = [one.condition for one in own_rivals]
        tested = [one for one in own_rivals if not _both_zero(one)]
        for kind, words, tone in (
            ("helps", f"{name} beats {other}", "good"),
            ("costs", f"{other} beats {name}", "bad"),
            ("unclear", f"{name} and {other} do not differ significantly", "plain"),
        ):
            own = [one for one in tested if one.kind == kind and not one.too_few]
            if own:
                said = "; ".join(phrases(_leads(own, turned=kind == "costs"), among))
                yield Remark("rivals", tone, f"{capital(words)} {said}.")
        yield from _too_few("rivals", name, other, tested, among)
        if same := [one.condition for one in own_rivals if _both_zero(one)]:
            text = f"{capital(name)} and {other} both have λ = 0 {_places(same, among)}."
            yield Remark("rivals", "plain", text)


def _too_few(
    topic: str, name: str, other: str, tested: list[Contrast], among: Sequence[Condition]
) -> Iterator[Remark]:
    """Say where a method's lead over another rests on too few trials for any test."""
    if few := [one for one in tested if one.too_few]:
        said = "; ".join(phrases(_leads(few), among))
        text = f"Too few trials to tell {name} from {other} {said}: {needed_words(few)}."
        yield Remark(topic, "plain", text)


def _both_zero(one: Contrast) -> bool:
    """Return whether two methods are the same head, both without their penalty."""
    return bool(one.row["coefficient"] == 0 and one.row["against_coefficient"] == 0)


def _opponent_penalty(row: Mapping[str, Any]) -> str:
    return penalty_name(row["against_penalty"], row["against_prior"])


def _leads(contrasts: Iterable[Contrast], *, turned: bool = False) -> list[Effect]:
    """Return the leads of a method over another, ``turned`` those of the other."""
    sign = -1 if turned else 1
    return [(place, sign * lead, width) for place, lead, width in (c.effect for c in contrasts)]


def references(
    key: Row, outcomes: Sequence[Outcome], contrasts: list[Contrast]
) -> Iterator[Remark]:
    """Say where a reference head wins, and where the penalty helps, whether it does as well."""
    name = penalty_name(key["penalty"], key["prior"])
    by_condition = {outcome.condition: outcome for outcome in outcomes}
    references = [one for one in contrasts if one.row["against_penalty"] == "none"]
    for head, own in _by_opponent(references, lambda row: head_name(row["against_head"])).items():
        among = [one.condition for one in own]
        yield from _beaten(name, head, [o for o in own if _beats_both(o, by_condition)], among)
        helped = [one for one in own if by_condition[one.condition].kind == "helps"]
        if level := [one.condition for one in helped if one.standing == "as well"]:
            text = f"{capital(head)} does as well as {name} {_places(level, among)}."
            yield Remark("references", "plain", text)
        if wide := [one for one in helped if one.standing == "open" and not one.too_few]:
            said = "; ".join(phrases(_leads(wide), among))
            text = f"Whether {head} does as well as {name} cannot be told {said}."
            yield Remark("references", "plain", text)
        yield from _too_few("references", name, head, helped, among)


def _beaten(
    name: str, head: str, lost: list[Contrast], among: Sequence[Condition]
) -> Iterator[Remark]:
    """Say where a reference head beats this one; where λ = 0 there is none with the penalty."""
    for words, own in (
        (f"with and without {name},", [one for one in lost if one.row["coefficient"] != 0]),
        ("which has λ = 0,", [one for one in lost if one.row["coefficient"] == 0]),
    ):
        if own:
            said = "; ".join(phrases(_leads(own, turned=True), among))
            text = f"{capital(head)} beats this head, {words} {said}."
            yield Remark("references", "bad", text)


def _beats_both(one: Contrast, outcomes: Mapping[Condition, Outcome]) -> bool:
    """Return whether a reference head beats the method, and the head without penalty too."""
    base = outcomes[one.condition].row["base_accuracy"]
    return one.kind == "costs" and bool(one.row["against_accuracy"] > base)


def edge(outcomes: Sequence[Outcome]) -> Iterator[Remark]:
    """Say where the grid of coefficients may have ended too early."""
    among = [outcome.condition for outcome in outcomes]
    at_edge = [outcome.condition for outcome in outcomes if outcome.row["at_edge"]]
    if at_edge:
        text = f"The chosen λ is the largest of the grid {_places(at_edge, among)}"
        yield Remark("edge", "plain", f"{text}: a larger one might do better.")
