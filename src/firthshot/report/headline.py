"""The answer at the top of the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from firthshot.report.outcomes import SAME_ECE, SMALL, Outcome
from firthshot.report.verdict import Verdict
from firthshot.report.wording import (
    Condition,
    capital,
    counted,
    everywhere,
    head_name,
    penalty_name,
    points,
    points_ci,
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


def make_headline(verdicts: Sequence[Verdict]) -> Headline:
    """Answer the question of the page from the verdicts on Firth, else on what was run."""
    main = [v for v in verdicts if (v.key["penalty"], v.key["prior"]) == ("firth", "uniform")]
    main = main or [v for v in verdicts if v.key["penalty"] == "firth"] or list(verdicts)
    if not main:
        return Headline("What was found?", "No setting is finished on novel classes.", "plain")
    names = dict.fromkeys(penalty_name(v.key["penalty"], v.key["prior"]) for v in main)
    name = next(iter(names)) if len(names) == 1 else "a penalty"
    outcomes = [outcome for verdict in main for outcome in verdict.outcomes]
    answer, tone = _answer(outcomes)
    lines = [
        *_best_and_worst(main),
        *_headline_references(main),
        *_headline_theory(outcomes),
        *_headline_others(main),
    ]
    return Headline(f"Does {name} help here?", answer, tone, tuple(lines), _counts(outcomes))


def _counts(outcomes: Sequence[Outcome]) -> tuple[tuple[str, int, str], ...]:
    """Count the outcomes, but not where there is but one setting."""
    words = {"helps": "help", "costs": "cost", "unclear": "not significant", "unchanged": "λ = 0"}
    found = [(kind, sum(o.kind == kind for o in outcomes), word) for kind, word in words.items()]
    return tuple(each for each in found if each[1]) if len(outcomes) > 1 else ()


def _answer(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    total = len(outcomes)
    count = {kind: sum(o.kind == kind for o in outcomes) for kind in ("helps", "costs")}
    if count["helps"] and count["costs"]:
        both = f"helps in {count['helps']} and costs accuracy in {count['costs']}"
        return f"It depends: it {both} of {total} settings.", "mixed"
    if count["costs"]:
        return f"No: it costs accuracy in {count['costs']} of {total} settings.", "bad"
    if not count["helps"]:
        return f"No effect that can be told from chance in {counted(total, 'setting')}.", "plain"
    if count["helps"] == total:
        return (f"Yes, {everywhere(total)}." if total > 1 else "Yes."), "good"
    if 2 * count["helps"] < total:
        return f"Only in {count['helps']} of {total} settings.", "mixed"
    return f"Yes, in {count['helps']} of {total} settings.", "good"


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
    small = sum(outcome.row["improvement"] < SMALL for _, outcome in helps)
    if not small:
        return ""
    return f" {small} of the {len(helps)} gains {'is' if small == 1 else 'are'} below 0.1 points."


def _quiet(outcomes: Sequence[Outcome], costs: bool) -> Iterator[str]:
    """Say in how many settings nothing can be told, or nothing was changed."""
    unclear = sum(outcome.kind == "unclear" for outcome in outcomes)
    unchanged = sum(outcome.kind == "unchanged" for outcome in outcomes)
    said = []
    if unclear:
        said.append(f"in {counted(unclear, 'setting')} the effect is not significant")
    if unchanged:
        said.append(f"in {counted(unchanged, 'setting')} the validation classes chose λ = 0")
    if not costs:
        said.append("it costs accuracy significantly nowhere")
    if said:
        yield f"{capital('; '.join(said))}."


def _effect(verdict: Verdict, outcome: Outcome) -> str:
    row = outcome.row
    effect = points_ci(row["improvement"], row["improvement_ci"])
    return f"{effect} points ({verdict.title}, {outcome.condition.words})"


def _headline_references(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Say where a head without any penalty is not worse, as far as the tests can tell."""
    known = sum(len(verdict.referenced) for verdict in verdicts)
    matched = sum(len(verdict.matched) for verdict in verdicts)
    if not known:
        return
    settings = f"settings where it helps{' and they were run' if _partly(verdicts) else ''}"
    count = {0: f"none of the {known}", known: f"all {known}"}.get(
        matched, f"{matched} of the {known}"
    )
    yield (
        "A reference head (nearest class mean or least squares, no penalty) is not significantly "
        f"worse in {count} {settings}."
    )


def _partly(verdicts: Sequence[Verdict]) -> bool:
    return any(len(verdict.referenced) < verdict.count("helps") for verdict in verdicts)


def _headline_theory(outcomes: Sequence[Outcome]) -> Iterator[str]:
    known = [o.row for o in outcomes if o.row["theory_improvement_ci"] is not None]
    bad = [r for r in known if r["theory_improvement"] + r["theory_improvement_ci"] < 0]
    if bad:
        worst = min(bad, key=lambda row: row["theory_improvement"])
        yield (
            f"Without tuning (λ from theory) it costs accuracy in {len(bad)} of {len(known)} "
            f"settings, up to {points(worst['theory_improvement'])} points "
            f"({head_name(worst['head'])} head, {Condition.of(worst).words})."
        )
    elif known:
        yield (
            "Without tuning (λ from theory) it costs accuracy significantly in none of "
            f"{counted(len(known), 'setting')}."
        )


def _headline_others(verdicts: Sequence[Verdict]) -> Iterator[str]:
    moved = [o.row for v in verdicts for o in v.outcomes if o.kind != "unchanged"]
    moved = [row for row in moved if row["ece_pooled"] is not None]
    if not moved:
        return
    changes = [row["ece_pooled"] - row["base_ece_pooled"] for row in moved]
    worse, better = sum(c > SAME_ECE for c in changes), sum(c < -SAME_ECE for c in changes)
    if worse or better:
        word, count = ("worse", worse) if worse >= better else ("better", better)
        yield (
            f"Probabilities get {word} calibrated in {count} of {len(moved)} settings where it is "
            "in use."
        )
