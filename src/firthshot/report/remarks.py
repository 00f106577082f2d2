"""The sentences of a verdict, each computed from the lines of the summary's tables.

What is said of probabilities (nll, ECE) has no test: it counts the settings that move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firthshot.report.outcomes import (
    MUCH,
    SAME_ECE,
    SAME_NLL,
    WIDER,
    Effect,
    Outcome,
    Remark,
    Row,
    amount,
    effects,
    kind_of,
    needed_words,
    phrases,
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

# What λ = K rank/(2N) is derived for, and where it is compared with a chosen λ at length.
_WHY = (
    " It is derived to remove the first-order bias of the weights, not to raise accuracy; "
    "docs/reproduction.md compares it with a chosen λ."
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
    unchanged = [outcome.condition for outcome in outcomes if outcome.kind == "unchanged"]
    if unchanged:
        places = listed(where(part, among) for part in parts(unchanged, among))
        yield Remark(
            "accuracy",
            "plain",
            f"The validation classes chose λ = 0 {places}: there it is left out.",
        )


def over_classes(outcomes: Sequence[Outcome]) -> Iterator[Remark]:
    """Say where a gain may be a matter of these classes, and how much wider such intervals are."""
    among = [outcome.condition for outcome in outcomes]
    loose = [o for o in outcomes if o.kind in ("helps", "costs") and not o.sure_over_classes]
    if loose:
        places = listed(where(part, among) for part in parts([o.condition for o in loose], among))
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
    """Say whether the tuning-free coefficient is safe."""
    known = [o for o in outcomes if o.row["theory_improvement_ci"] is not None]
    if not known:  # not trained, or once only, which has no interval
        return
    among = [outcome.condition for outcome in known]
    effects = [
        (o.condition, o.row["theory_improvement"], o.row["theory_improvement_ci"]) for o in known
    ]
    bad = [(c, mean, ci) for c, mean, ci in effects if mean + ci < 0]
    if bad:
        text = f"interval is below zero {'; '.join(phrases(bad, among))}"
        much = min(mean for _, mean, _ in bad) <= -MUCH
        yield Remark(
            "theory",
            "bad",
            f"The tuning-free λ of the theory is not safe: its {text}.{_WHY if much else ''}",
        )
    else:
        good = sum(mean - ci > 0 for _, mean, ci in effects)
        yield Remark(
            "theory",
            "good",
            f"The tuning-free λ of the theory is safe here: its {_intervals(good, len(effects))} "
            f"({amount([(mean, ci) for _, mean, ci in effects])}).",
        )


def _intervals(above: int, total: int) -> str:
    """Say where intervals lie of which none is below zero."""
    if total == 1:
        return "interval is above zero" if above else "interval includes zero"
    return f"interval is below zero in no setting, above zero in {above} of {total}"


@dataclass(frozen=True)
class Lean:
    """Mean confidence and accuracy of the head without penalty, over all novel queries."""

    confidence: float
    accuracy: float


def calibration(outcomes: Sequence[Outcome], lean: Lean | None) -> Iterator[Remark]:
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
        f"{_moved(ece, len(known))}, {move}.{_leaning(lean)}",
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


def _leaning(lean: Lean | None) -> str:
    if lean is None or abs(lean.confidence - lean.accuracy) < 0.02:
        return ""
    how = "under" if lean.confidence < lean.accuracy else "over"
    return (
        f" Without penalty the head is {how}-confident: {lean.confidence:.0%} mean confidence at "
        f"{lean.accuracy:.0%} accuracy."
    )


def _by_opponent(contrasts: list[Row], name: Callable[[Row], str]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in contrasts:
        groups.setdefault(name(row), []).append(row)
    return groups


def rivals(key: Row, contrasts: list[Row]) -> Iterator[Remark]:
    """Compare with the other penalties of the same head, each at its own chosen coefficient."""
    rivals = [row for row in contrasts if row["against_penalty"] != "none"]
    name = penalty_name(key["penalty"], key["prior"])
    for other, rows in _by_opponent(rivals, _opponent_penalty).items():
        among = [Condition.of(row) for row in rows]
        tested = [row for row in rows if not _both_zero(row)]
        for kind, words, tone in (
            ("helps", f"{name} beats {other}", "good"),
            ("costs", f"{other} beats {name}", "bad"),
            ("unclear", f"{name} and {other} do not differ significantly", "plain"),
        ):
            own = [row for row in tested if kind_of(row["difference"], row["p_holm"]) == kind]
            if own:
                said = "; ".join(phrases(_differences(own, turned=kind == "costs"), among))
                yield Remark("rivals", tone, f"{capital(words)} {said}.")
        if same := [Condition.of(row) for row in rows if _both_zero(row)]:
            places = listed(where(part, among) for part in parts(same, among))
            text = f"{capital(name)} and {other} both chose λ = 0 {places}."
            yield Remark("rivals", "plain", text)


def _both_zero(row: Row) -> bool:
    """Return whether two methods are the same head, both without their penalty."""
    return bool(row["coefficient"] == 0 and row["against_coefficient"] == 0)


def _opponent_penalty(row: Mapping[str, Any]) -> str:
    return penalty_name(row["against_penalty"], row["against_prior"])


def _differences(rows: Iterable[Row], *, turned: bool = False) -> list[Effect]:
    """Return the differences of contrasts, ``turned`` from the other's side."""
    sign = -1 if turned else 1
    return [(Condition.of(row), sign * row["difference"], row["difference_ci"]) for row in rows]


def references(key: Row, outcomes: Sequence[Outcome], contrasts: list[Row]) -> Iterator[Remark]:
    """Say where a reference head beats both, and where it cannot be told from the penalty's."""
    name = penalty_name(key["penalty"], key["prior"])
    kinds = {outcome.condition: outcome for outcome in outcomes}
    references = [row for row in contrasts if row["against_penalty"] == "none"]
    for head, rows in _by_opponent(references, lambda row: head_name(row["against_head"])).items():
        among = [Condition.of(row) for row in rows]
        beats = [row for row in rows if _beats_both(row, kinds)]
        if beats:
            said = "; ".join(phrases(_differences(beats, turned=True), among))
            yield Remark(
                "references",
                "bad",
                f"{capital(head)} beats this head, with and without {name}, {said}.",
            )
        level = [
            Condition.of(row)
            for row in rows
            if kinds[Condition.of(row)].kind == "helps"
            and kind_of(row["difference"], row["p_holm"]) == "unclear"
        ]
        if level:
            places = listed(where(part, among) for part in parts(level, among))
            yield Remark(
                "references",
                "plain",
                f"{capital(head)} and {name} do not differ significantly {places}.",
            )


def _beats_both(row: Row, outcomes: Mapping[Condition, Outcome]) -> bool:
    base = outcomes[Condition.of(row)].row["base_accuracy"]
    lost = kind_of(row["difference"], row["p_holm"]) == "costs"
    return lost and bool(row["against_accuracy"] > base)


def edge(outcomes: Sequence[Outcome]) -> Iterator[Remark]:
    """Say where the grid of coefficients may have ended too early."""
    among = [outcome.condition for outcome in outcomes]
    at_edge = [outcome.condition for outcome in outcomes if outcome.row["at_edge"]]
    if at_edge:
        places = listed(where(part, among) for part in parts(at_edge, among))
        yield Remark(
            "edge",
            "plain",
            f"The chosen λ is the largest of the grid {places}: a larger one might do better.",
        )
