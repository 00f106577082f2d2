"""The answer at the top of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from firthshot.experiments.summary import Unjudged
from firthshot.report.outcomes import (
    MARGIN_WORDS,
    SAME_ECE,
    SMALL,
    Outcome,
    needed_words,
    unchanged_by_reason,
)
from firthshot.report.verdict import Verdict
from firthshot.report.wording import (
    capital,
    counted,
    everywhere,
    penalty_name,
    points,
    points_ci,
    rounded_points,
)


@dataclass(frozen=True)
class Headline:
    """The answer at the top of the page.

    Attributes
    ----------
    question, answer : str
    tone : {"good", "bad", "mixed", "plain"}
    lines : what stands behind the answer, in sentences
    counts : (kind of outcome, settings, words)
    """

    question: str
    answer: str
    tone: str
    lines: tuple[str, ...] = ()
    counts: tuple[tuple[str, int, str], ...] = ()


def make_headline(verdicts: Sequence[Verdict], unjudged: Sequence[Unjudged] = ()) -> Headline:
    """Answer the question of the page from the verdicts on Firth, else on what was run.

    Settings that could not be judged are counted, so that none is missed in silence.
    """
    main = [v for v in verdicts if (v.key["penalty"], v.key["prior"]) == ("firth", "uniform")]
    main = main or [v for v in verdicts if v.key["penalty"] == "firth"] or list(verdicts)
    if not main:
        lost = " ".join(_headline_unjudged(unjudged))
        answer = lost or "No setting is finished on novel classes."
        return Headline("What was found?", answer, "plain")
    kinds = {(v.key["penalty"], v.key["prior"]) for v in main}
    names = dict.fromkeys(penalty_name(v.key["penalty"], v.key["prior"]) for v in main)
    name = next(iter(names)) if len(names) == 1 else "a penalty"
    outcomes = [outcome for verdict in main for outcome in verdict.outcomes]
    answer, tone = _answer(outcomes)
    lines = [
        *_best_and_worst(main),
        *_headline_references(main),
        *_headline_theory(main),
        *_headline_others(main),
        *_headline_unjudged([one for one in unjudged if (one.penalty, one.prior) in kinds]),
    ]
    return Headline(f"Does {name} help here?", answer, tone, tuple(lines), _counts(outcomes))


def _counts(outcomes: Sequence[Outcome]) -> tuple[tuple[str, int, str], ...]:
    """Count the outcomes, but not where there is but one setting."""
    words = {"helps": "help", "costs": "cost", "unclear": "not significant", "unchanged": "λ = 0"}
    kinds = ["few" if o.too_few else o.kind for o in outcomes]
    found = [(kind, kinds.count(kind), word) for kind, word in words.items()]
    if few := kinds.count("few"):
        found.append(("unclear", few, "too few trials"))
    return tuple(each for each in found if each[1]) if len(outcomes) > 1 else ()


def _answer(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    total = len(outcomes)
    count = {kind: sum(o.kind == kind for o in outcomes) for kind in ("helps", "costs")}
    if count["helps"] and count["costs"]:
        both = f"helps in {count['helps']} and costs accuracy in {count['costs']}"
        return f"It depends: it {both} of {total} settings.", "mixed"
    if count["costs"]:
        among = f" in {count['costs']} of {total} settings" if total > 1 else ""
        return f"No: it costs accuracy{among}.", "bad"
    if not count["helps"]:
        return _nothing(outcomes), "plain"
    if count["helps"] == total:
        return (f"Yes, {everywhere(total)}." if total > 1 else "Yes."), "good"
    if 2 * count["helps"] < total:
        return f"Only in {count['helps']} of {total} settings.", "mixed"
    return f"Yes, in {count['helps']} of {total} settings.", "good"


def _nothing(outcomes: Sequence[Outcome]) -> str:
    """Answer where nothing is significant.

    A λ = 0 that was chosen is no null result, nor is a test that could not have found anything.
    """
    total, few = len(outcomes), [outcome for outcome in outcomes if outcome.too_few]
    others = [(len(places), why) for why, places in unchanged_by_reason(outcomes).items()]
    unchanged = sum(count for count, _ in others)
    if unchanged == total:
        return f"Not in use: {_unused(others)}."
    unclear = total - unchanged - len(few)
    lead = "No effect that can be told from chance" if unclear else "Too few trials to tell"
    count = unclear or len(few)
    if few and unclear:
        others.insert(0, (len(few), "there are too few trials to tell"))
    rest = "".join(f"; in {_others(n, len(others))} {words}" for n, words in others)
    among = counted(total, "setting") if count == total else f"{count} of {total} settings"
    return f"{lead} in {among}{rest}{f': {needed_words(few)}' if few else ''}."


def _unused(reasons: Sequence[tuple[int, str]]) -> str:
    """Say why the coefficient is 0 in every setting."""
    if len(reasons) > 1:
        return "; ".join(f"{why} in {counted(count, 'setting')}" for count, why in reasons)
    ((count, why),) = reasons
    return f"{why} {everywhere(count)}" if count > 1 else why


def _others(count: int, kinds: int) -> str:
    """Name settings besides those named first: "the other", or a number where there are kinds."""
    if kinds > 1:
        return str(count)
    return f"the other {count}" if count > 1 else "the other"


def _best_and_worst(verdicts: Sequence[Verdict]) -> Iterator[str]:
    pairs = [(v, o) for v in verdicts for o in v.outcomes]
    helps = [pair for pair in pairs if pair[1].kind == "helps"]
    costs = [pair for pair in pairs if pair[1].kind == "costs"]
    if helps:
        best = max(helps, key=lambda pair: pair[1].row["improvement"])
        yield f"Largest gain in accuracy: {_effect(*best)}.{_small(helps)}"
    if costs:
        worst = min(costs, key=lambda pair: pair[1].row["improvement"])
        yield f"Largest loss: {_effect(*worst)}."
    if helps or costs:
        yield from _quiet([outcome for _, outcome in pairs], bool(costs))


def _small(helps: Sequence[tuple[Verdict, Outcome]]) -> str:
    limit = rounded_points(SMALL)
    small = sum(rounded_points(outcome.row["improvement"]) < limit for _, outcome in helps)
    if not small:
        return ""
    which = f"{small} of the {len(helps)} gains" if len(helps) > 1 else "It"
    return f" {which} {'is' if small == 1 else 'are'} below 0.1 points."


def _quiet(outcomes: Sequence[Outcome], costs: bool) -> Iterator[str]:
    """Say in how many settings nothing can be told, or nothing was changed."""
    few = [outcome for outcome in outcomes if outcome.too_few]
    unclear = sum(outcome.kind == "unclear" for outcome in outcomes) - len(few)
    said = []
    if unclear:
        said.append(f"in {counted(unclear, 'setting')} the effect is not significant")
    if few:
        where = f"in {counted(len(few), 'setting')}"
        said.append(f"{where} there are too few trials to tell ({needed_words(few)})")
    for why, places in unchanged_by_reason(outcomes).items():
        said.append(f"in {counted(len(places), 'setting')} {why}")
    if not costs:
        said.append("it costs accuracy significantly nowhere")
    if said:
        yield f"{capital('; '.join(said))}."


def _effect(verdict: Verdict, outcome: Outcome) -> str:
    row = outcome.row
    effect = points_ci(row["improvement"], row["improvement_ci"])
    return f"{effect} points ({verdict.title}, {outcome.condition.words})"


def _headline_references(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Say whether a head without any penalty does as well where this helps."""
    counts = Counter(s for verdict in verdicts for s in verdict.reference_standings.values())
    known = counts.total()
    if not known:
        return
    head = "a reference head without penalty (nearest class mean or least squares)"
    settings = f"where it helps{' and one was run' if _partly(verdicts) else ''}"
    standings = [standing for standing in _STANDINGS if counts[standing]]
    first, *others = standings
    said = f"In {_among(counts[first], known)} {settings}, {_STANDINGS[first].format(head=head)}"
    rest = "".join(f"; in {counts[one]} {_STANDINGS[one].format(head='it')}" for one in others)
    yield f"{said}{rest}{_why_open(verdicts)}."


# How a reference head does; of several standings the first is told in full.
_STANDINGS = {
    "matched": "{head} does as well or better",
    "worse": "{head} is worse",
    "open": "it cannot be told whether {head} does as well",
}


def _among(count: int, known: int) -> str:
    if count < known:
        return f"{count} of the {known} settings"
    return {1: "the one setting", 2: "both settings"}.get(known, f"all {known} settings")


def _why_open(verdicts: Sequence[Verdict]) -> str:
    """Say how many trials it needs, where contrasts have too few for any test."""
    few = [one for verdict in verdicts for one in verdict.references if one.too_few]
    return f" ({needed_words(few)})" if few else ""


def _partly(verdicts: Sequence[Verdict]) -> bool:
    return any(len(v.reference_standings) < v.count("helps") for v in verdicts)


def _headline_theory(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Say where the tuning-free coefficient costs accuracy, and where it may."""
    known = [(v, o) for v in verdicts for o in v.outcomes if o.theory_standing]
    if not known:
        return
    bad = [(v, o) for v, o in known if o.theory_standing == "costs"]
    wide = sum(o.theory_standing == "open" for _, o in known)
    said = f"the gain’s interval is below zero {_of(len(bad), len(known))}"
    if bad:
        verdict, worst = min(bad, key=lambda pair: pair[1].row["theory_improvement"])
        loss = points(worst.row["theory_improvement"])
        said += f", down to {loss} points ({verdict.title}, {worst.condition.words})"
    if wide:
        said += f"; {_of(wide, len(known))} it leaves room for a loss of {MARGIN_WORDS}"
    yield f"Without tuning (λ from theory) {said}."


def _headline_others(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Count both the settings with worse and those with better probabilities."""
    moved = [o.row for v in verdicts for o in v.outcomes if o.kind != "unchanged"]
    moved = [row for row in moved if row["ece_pooled"] is not None]
    changes = [row["ece_pooled"] - row["base_ece_pooled"] for row in moved]
    counts = {"worse": sum(c > SAME_ECE for c in changes)}
    counts["better"] = sum(c < -SAME_ECE for c in changes)
    said = [(word, count) for word, count in counts.items() if count]
    if said:
        *first, (word, last) = said
        lead = "".join(f"{other} calibrated in {count}, " for other, count in first)
        words = word if first else f"{word} calibrated"
        yield f"Probabilities get {lead}{words} {_of(last, len(moved))} where it is in use."


def _headline_unjudged(unjudged: Sequence[Unjudged]) -> Iterator[str]:
    """Count the settings of which nothing can be said, by reason."""
    for reason, count in Counter(one.reason for one in unjudged).items():
        yield f"{counted(count, 'setting')} could not be judged: {reason}."


def _of(count: int, total: int) -> str:
    """Return "in 2 of 5 settings", and of one setting what is grammar."""
    if total == 1:
        return "in the one setting" if count else "nowhere"
    return f"in {count or 'none'} of {total} settings"
