"""The answer at the top of the page and at the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from firthshot.experiments.checks import TRIALS
from firthshot.experiments.geometric import GeometricResult
from firthshot.experiments.summary import Unjudged
from firthshot.report.verdict import Outcome, Verdict, main_verdicts
from firthshot.report.verdict.make import SAME_ECE, calibrated, moves
from firthshot.report.verdict.outcomes import PRACTICAL
from firthshot.report.wording import (
    capital,
    counted,
    everywhere,
    head_name,
    listed,
    points_ci,
    setting_words,
    tally,
)
from firthshot.report.wording.cards import (
    TEXTS,
    ZERO,
    at_optimum,
    extremes,
    name_of,
    needed_sentence,
    remark,
    title_of,
)

_FEW_LINES, _FEW_NAMES = 2, 3
_WORDS = TEXTS["headline"]
_QUIET: dict[str, str] = _WORDS["quiet"] | ZERO


@dataclass(frozen=True)
class Headline:
    """The answer at the top of the page."""

    question: str
    answer: str
    tone: str  # good, bad, mixed or plain
    lines: tuple[str, ...] = ()  # how much, and what would do as well
    more: tuple[str, ...] = ()  # what else is to be known, in sentences
    counts: tuple[tuple[str, int, str], ...] = ()  # (kind of outcome, settings, words)


def make_headline(verdicts: Sequence[Verdict], unjudged: Sequence[Unjudged] = ()) -> Headline:
    """Answer the question of the page from the verdicts on Firth, else on what was run.

    Settings that could not be judged are counted, so that none is missed in silence.
    """
    main = main_verdicts(verdicts)
    if not main:
        lost = " ".join(_unjudged(unjudged))
        answer = lost or "No setting is finished on novel classes."
        return Headline("What was found?", answer, "plain")
    kinds = {(v.key["penalty"], v.key["prior"]) for v in main}
    names = list(dict.fromkeys(map(name_of, main)))
    name = names[0] if len(names) == 1 else "a penalty"
    outcomes = [outcome for verdict in main for outcome in verdict.outcomes]
    answer, tone = _answer(outcomes)
    lines = (
        *extremes([(title_of(verdict), o) for verdict in main for o in verdict.outcomes]),
        *_solved_gains(outcomes),
        *_training(main),
        *_references(main),
        *_unjudged([one for one in unjudged if (one.penalty, one.prior) in kinds]),
    )
    more = (*_quiet(outcomes), *_theory(main), *_probabilities(outcomes))
    return Headline(f"Does {name} help here?", answer, tone, lines, more, _counts(outcomes))


def geometric_headline(results: Sequence[GeometricResult]) -> Headline:
    """Answer for all geometric runs together; the least favourable of them decides."""
    if any(result.firth_is_biased for result in results):
        answer, tone = "Not wholly: a bias remains that noise does not explain.", "bad"
    elif not all(result.likelihood_is_biased for result in results):
        answer = "There are too few trials to tell: the bias of maximum likelihood does not show."
        tone = "plain"
    else:
        answer, tone = "Yes: from two samples on, Firth’s bias is within the noise.", "good"
    lines = tuple(line for result in results for line in result.sentences())
    return Headline("Does Firth remove the bias?", answer, tone, lines)


def nothing_chosen(penalised: bool) -> Headline:
    """Say why there are novel trials and no verdict."""
    answer = "No penalty was trained, so there is nothing to choose."
    if penalised:
        answer = "No λ was chosen, because the novel trials have no validation trials beside them."
    return Headline("What was found?", answer, "plain")


def _counts(outcomes: Sequence[Outcome]) -> tuple[tuple[str, int, str], ...]:
    """Count the outcomes, but not where there is but one setting."""
    counts = Counter(_counted_as(o) for o in outcomes)
    practical = f"{100 * PRACTICAL:g}"
    shown = [
        (kind, counts[one], words.format(practical=practical))
        for one, (kind, words) in _WORDS["counted"].items()
        if counts[one]
    ]
    return tuple(shown) if len(outcomes) > 1 else ()


def _counted_as(outcome: Outcome) -> str:
    if outcome.practical == "small":
        return "small"
    return "zero" if outcome.standing in ZERO else outcome.standing


def _answer(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    """Answer by the differences that a reader would act on: those of a tenth of a point or more."""
    total, counts = len(outcomes), Counter(outcome.practical for outcome in outcomes)
    helps, costs = counts["helps"], counts["costs"]
    if helps and costs:
        both = f"helps in {helps} and costs accuracy in {costs}"
        return f"It depends: it {both} of {total} settings.", "mixed"
    if costs:
        return f"It costs accuracy{_in(costs, total)}.", "bad"
    if helps == total:
        return f"Yes{',' * (total > 1)}{_in(helps, total)}.", "good"
    if helps:
        gains = sum(o.practical == "small" and o.row["improvement"] > 0 for o in outcomes)
        small = f", and by less than {100 * PRACTICAL:g} points in {gains} more" if gains else ""
        among = f"{_in(helps, total)}{small}."
        return (f"It helps{among}", "mixed") if 2 * helps < total else (f"Yes,{among}", "good")
    if counts["small"]:
        return f"No practical difference{_in(total, total)}.", "plain"
    return _nothing(outcomes), "plain"


def _nothing(outcomes: Sequence[Outcome]) -> str:
    """Answer where nothing is significant.

    A λ = 0 that was chosen is no null result, nor is a test that could not have found anything.
    """
    total, counts = len(outcomes), Counter(outcome.standing for outcome in outcomes)
    present = [(words, counts[one]) for one, words in _QUIET.items() if counts[one]]
    found = listed(f"{words}{_in(count, total)}" for words, count in present)
    if counts["few"] or counts["only zero"]:
        return f"{capital(found)}.{needed_sentence(outcomes)}"
    return f"No gain found: {found}."


def _in(count: int, total: int) -> str:
    """Return in how many settings, with a space before; nothing where there is but one."""
    if total == 1:
        return ""
    return f" {everywhere(total)}" if count == total else f" in {count} of {total} settings"


def _training(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Say what the optimiser did, so that no penalty is blamed for it."""
    said = [
        f"{title_of(verdict)}: {remark(finding, verdict).text}"
        for verdict in verdicts
        for finding in verdict.findings
        if finding.topic == "training"
    ]
    yield from said[:_FEW_LINES]
    if len(said) > _FEW_LINES:
        yield f"The same holds of {len(said) - _FEW_LINES} more methods: see their cards."


def _solved_gains(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Say how many gains the optimum shows too, so that none is Firth's by its training alone."""
    solved = [o.again.optimum for o in outcomes if o.standing == "helps" and o.again.optimum]
    if solved:
        clear = sum(effect.turned.is_a_loss for effect in solved)
        some = (
            f"{counted(len(solved), 'setting')} with a gain {'was' if len(solved) == 1 else 'were'}"
        )
        yield (
            f"Gains are as trained. {some} also solved to the optimum, on at most {TRIALS} trials: "
            f"the gain is clear there in {clear or 'none'}."
        )


def _quiet(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Say in how many settings nothing can be told, or nothing was changed, beside the others."""
    counts = Counter(outcome.standing for outcome in outcomes)
    if not counts["helps"] + counts["costs"]:
        return
    parts = [
        f"{words} in {counted(counts[one], 'setting')}"
        for one, words in _QUIET.items()
        if counts[one]
    ]
    parts += [] if counts["costs"] else ["no setting loses accuracy significantly"]
    if parts:
        yield f"{capital(listed(parts))}.{needed_sentence(outcomes)}"


def _references(verdicts: Sequence[Verdict]) -> Iterator[str]:
    counts = Counter(s for verdict in verdicts for s in verdict.reference_standings.values())
    if not counts:
        return
    names = dict.fromkeys(one.opponent[0] for verdict in verdicts for one in verdict.references)
    which = f"The best of {len(names)} heads"
    if len(names) <= _FEW_NAMES:
        which = capital(listed(map(head_name, names), "or"))
    among = f"{counted(counts.total(), 'compared setting')} where the penalty helps"
    said = tally({words: counts[one] for one, words in _WORDS["references"].items()}, among)
    needed = needed_sentence(one for verdict in verdicts for one in verdict.references)
    yield f"{which}, without a penalty, {said}.{needed}"


def _theory(verdicts: Sequence[Verdict]) -> Iterator[str]:
    known = [(v, o) for v in verdicts for o in v.outcomes if o.theory_standing]
    counts = Counter(o.theory_standing for _, o in known)
    if not known:
        return
    among = counted(len(known), "setting")
    said = tally({words: counts[one] for one, words in _WORDS["theory"].items()}, among)
    yield f"Without tuning (λ from theory), accuracy {said}."
    bad = [(v, o, charge) for v, o in known if (charge := o.theory_charge)]
    if bad:
        verdict, worst, _ = min(bad, key=lambda each: each[2].mean)
        lost = worst.theory_told
        solved = at_optimum(lost, worst.theory_again.optimum)
        place = f"{title_of(verdict)}, {setting_words(worst.condition)}"
        apart = " that training alone does not explain" if counts["training"] else ""
        yield f"Its largest loss{apart} is {points_ci(*lost[1:])} points{solved} ({place})."


def _probabilities(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Count both the settings with worse and those with better probabilities."""
    known = calibrated(outcomes)
    counts = zip(("worse", "better"), moves(known, "ece_pooled", SAME_ECE), strict=True)
    if said := tally(dict(counts), f"{counted(len(known), 'setting')} where λ > 0"):
        yield f"Calibration gets {said}."


def _unjudged(unjudged: Sequence[Unjudged]) -> Iterator[str]:
    for reason, count in Counter(one.reason for one in unjudged).items():
        yield f"{counted(count, 'setting')} could not be judged: {reason}."
