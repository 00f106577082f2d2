"""The sentences of a method's card: three that a person needs, and the rest behind "more"."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firthshot.experiments.schema import TINY_RIDGE
from firthshot.report.verdict import Claim, Condition, Effect, Outcome, Tested, Verdict
from firthshot.report.verdict.make import LEANS, Lean, trials_of
from firthshot.report.verdict.outcomes import MARGIN
from firthshot.report.wording import (
    capital,
    counted,
    head_name,
    in_some,
    is_transductive,
    listed,
    parts,
    penalty_name,
    points,
    points_ci,
    setting_words,
    tally,
    where,
)

TEXTS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
ZERO: dict[str, str] = TEXTS["zero"]
TOPICS: dict[str, str] = TEXTS["topics"]  # what a remark begins with


@dataclass(frozen=True)
class Remark:
    """A sentence, what it is about, and its tone: ``good``, ``bad`` or ``plain``."""

    topic: str
    tone: str
    text: str


def remarks(verdict: Verdict) -> list[Remark]:
    """Return every finding of a verdict as a sentence."""
    return [remark(finding, verdict) for finding in verdict.findings]


def remark(finding: Claim, verdict: Verdict) -> Remark:
    """Say a finding."""
    name, numbers = name_of(verdict), dict(finding.numbers)
    other = opponent_name(finding.opponent, verdict.key["head"]) if finding.opponent else ""
    if finding.topic == "calibration":
        numbers = _probabilities(finding)
    elif finding.standing == "unstable":
        ends = sorted({f"{100 * value:.0f}" for value in numbers["optimum"] or ()}, key=int)
        numbers["optimum"] = f" ({' to '.join(ends)} % at the optimum)" if ends else ""
        numbers["values"] = listed(f"{value:g}" for value in numbers["values"])
    among, solved = finding.among, phrases(finding.solved, finding.among)
    places = parts(finding.conditions, among) if finding.effects else []
    words = {
        "name": name,
        "other": other,
        "what": f"compare {name} with {other}" if other else "tell",
        "effects": phrases(finding.effects, among),
        "solved": f" That is as trained; at the optimum: {solved}." if solved else "",
        "places": listed(where(part, among) for part in places) if places else "",
        "needed": needed_words(*finding.trials) if finding.trials else "",
        "blame": TEXTS["blame"]["start" if numbers.pop("start", False) else "training"],
        "margin": f"{100 * MARGIN:g}",
        "ridge": f"{TINY_RIDGE:g}",
        **numbers,
    }
    texts = TEXTS["sentences"][finding.topic]
    text = texts.get(finding.standing, texts.get("any")).format(**words)
    return Remark(finding.topic, TEXTS["tones"].get(finding.standing, "plain"), capital(text))


def card_lead(verdict: Verdict) -> list[str]:
    """Return whether it helps, how much, and what would be better: a sentence each."""
    how_much = list(extremes([("", outcome) for outcome in verdict.outcomes]))
    return [_does_it_help(verdict), *(how_much or _chance(verdict)), _what_is_better(verdict)]


def name_of(verdict: Verdict) -> str:
    """Return what the penalty of a verdict is called."""
    return penalty_name(verdict.key["penalty"], verdict.key["prior"])


def title_of(verdict: Verdict) -> str:
    """Return what tells a method from the others of a report."""
    details = [_detail(name, verdict.key[name]) for name in verdict.telling]
    head = f"{head_name(verdict.key['head'])} head"
    return ", ".join([capital(name_of(verdict)), head, *details])


def penalty_title(verdict: Verdict) -> str:
    """Return what tells the penalty from others of the same head and bank."""
    name = capital(name_of(verdict)).removeprefix("The ")
    details = [_detail(each, verdict.key[each]) for each in verdict.telling if each != "bank"]
    return capital(", ".join([name, *details]))


def _detail(name: str, value: Any) -> str:
    if name == "l2":
        return f"with L2 {value:g}"
    if name == "artificial":
        return f"{value or 'no'} artificial samples"
    return f"from {value}" if name == "source" else str(value)


def opponent_name(opponent: tuple[str, str, str], own_head: str) -> str:
    """Return a penalty's name, with its head where it is another, or that of a head without."""
    head, penalty, prior = opponent
    if penalty == "none":
        return head_name(head)
    named = penalty_name(penalty, prior)
    return named if head == own_head else f"the {head_name(head)} head with {named}"


def needed_words(there: int, needed: int) -> str:
    """Say how many trials there are where no test can be significant, and how many it takes."""
    return (
        f"With {counted(there, 'trial')} nothing can be significant; at least {needed} are needed"
    )


def needed_sentence(tested: Iterable[Tested]) -> str:
    """Say how many trials are needed where some of the tests have too few, with a space before."""
    few = [one for one in tested if one.too_few]
    return f" {needed_words(*trials_of(few))}." if few else ""


def phrases(effects: Sequence[Effect], among: Sequence[Condition]) -> str:
    """Return "where (amount)" for each part, the largest effect first."""
    at = {effect.condition: effect for effect in effects}
    groups = parts(list(at), among) if at else []
    groups.sort(key=lambda part: -max(abs(at[one].mean) for one in part))
    return "; ".join(
        f"{where(part, among)} ({_amount([at[one] for one in part])})" for part in groups
    )


def _amount(effects: Sequence[Effect]) -> str:
    """Return one effect with its interval, or the smallest and the largest of several."""
    ordered = sorted(effects, key=lambda effect: effect.mean)
    low, high = (points_ci(each.mean, each.width) for each in (ordered[0], ordered[-1]))
    return f"{low} points" if low == high else f"{low} to {high} points"


def extremes(pairs: Sequence[tuple[str, Outcome]]) -> Iterator[str]:
    """Say the largest gain and the largest loss of outcomes, each with the name of its method."""
    for word, pick, standing in (("gain", max, "helps"), ("loss", min, "costs")):
        some = [pair for pair in pairs if pair[1].standing == standing]
        if some:
            title, most = pick(some, key=lambda pair: pair[1].charged.mean)
            place = ", ".join(filter(None, (title, setting_words(most.condition))))
            solved = at_optimum(most.effect, most.optimum)
            amount = f"{points_ci(*most.effect[1:])} points, {accuracies(most)}{solved}"
            yield f"The largest {word} is {amount} ({place})."


def at_optimum(trained: Effect, solved: Effect | None) -> str:
    """Say that a difference is as trained, and what it is at the optimum, where that differs."""
    if solved is None or points(solved.mean) == points(trained.mean):
        return ""
    return f" as trained, {points_ci(*solved[1:])} at the optimum"


def _does_it_help(verdict: Verdict) -> str:
    name, total = capital(name_of(verdict)), len(verdict.outcomes)
    standings = [outcome.standing for outcome in verdict.outcomes]
    helps, costs = standings.count("helps"), standings.count("costs")
    if helps and costs:
        return f"{name} helps in {helps} and costs accuracy in {costs} of {total} settings."
    if helps or costs:
        word = "helps" if helps else "costs accuracy"
        return f"{name} {word} {in_some(helps or costs, verdict.conditions)}."
    if not set(standings) - set(ZERO):
        return f"{name} is not used: {listed(ZERO[one] for one in sorted(set(standings)))}."
    if "training" in standings:
        return f"{name} loses accuracy by its training alone."
    if "unclear" in standings:
        return f"{name} makes no significant difference."
    return "There are too few trials to tell."


def _chance(verdict: Verdict) -> Iterator[str]:
    """Say what there is where nothing is significant."""
    tested = [outcome for outcome in verdict.outcomes if outcome.kind == "unclear"]
    if needed := needed_sentence(tested):
        yield needed.strip()
    elif tested:
        most = max((o.effect for o in tested), key=lambda effect: abs(effect.mean))
        yield f"The largest difference is {_at_setting(most)}, which may be chance."


def _at_setting(effect: Effect) -> str:
    return f"{points_ci(effect.mean, effect.width)} points ({setting_words(effect.condition)})"


def _what_is_better(verdict: Verdict) -> str:
    """Name what beats this method by most, else what does as well without a penalty.

    An inductive method is measured by its like, as long as there is one.
    """
    winners, head = ("costs", "beaten", "beaten at zero"), verdict.key["head"]
    better = [
        (effect, finding.opponent)
        for finding in verdict.findings
        if finding.opponent and finding.standing in winners
        for effect in finding.effects
    ]
    fair = [pair for pair in better if is_transductive(pair[1][0]) <= is_transductive(head)]
    if fair:
        return f"{_by_most(fair, head)}."
    for finding in verdict.findings:
        if (finding.topic, finding.standing) == ("references", "as well"):
            return remark(finding, verdict).text
    if better:
        return f"{_by_most(better, head)}, but sees all queries at once."
    if verdict.contrasts:
        return "No other method of this report is significantly better."
    return "This report compares it with no other method."


def _by_most(better: Sequence[tuple[Effect, tuple[str, str, str]]], own_head: str) -> str:
    effect, opponent = max(better, key=lambda pair: pair[0].mean)
    other = capital(opponent_name(opponent, own_head))
    return f"{other} is better, by up to {_at_setting(effect).removeprefix('+')}"


def _probabilities(finding: Claim) -> dict[str, str]:
    """Say how nll and ECE move, and how sure the head is without penalty."""
    numbers, total = finding.numbers, len(finding.among)
    moved = []
    for name, loss in (("nll", "nll"), ("ece", "calibration error (ECE)")):
        rises, falls = numbers[name]
        moved.append(f"{loss} {tally({'rises': rises, 'falls': falls}, f'{total}', 'stays')}")
    most = numbers["most"]
    change = f"from {most['base_ece_pooled']:.2f} to {most['ece_pooled']:.2f}"
    moved.append(f"the largest change is {change} at {setting_words(Condition.of(most))}")
    words = "neither better nor worse" if finding.standing == "same" else finding.standing
    return {"change": words, "moves": ", ".join(moved), "leaning": _leaning(numbers["leans"])}


def _leaning(leans: Mapping[Condition, Lean]) -> str:
    """Say how confident the head is without penalty in the settings that the remark is about."""
    over = sum(lean.gap >= LEANS for lean in leans.values())
    under = sum(lean.gap <= -LEANS for lean in leans.values())
    if not over + under:
        return ""
    place, most = max(leans.items(), key=lambda each: abs(each[1].gap))
    counts = {"over-confident": over, "under-confident": under}
    numbers = f"{most.confidence:.0%} mean confidence, {most.accuracy:.0%} accuracy"
    return (
        f" Without penalty the head is {tally(counts, counted(len(leans), 'setting'))} "
        f"({numbers} at {setting_words(place)})."
    )


def accuracies(outcome: Outcome) -> str:
    """Return the accuracy without and with the chosen coefficient; one number where λ = 0."""
    base, ours = (f"{100 * outcome.row[name]:.1f}" for name in ("base_accuracy", "accuracy"))
    return f"{base} %" if outcome.kind == "unchanged" else f"{base} → {ours} %"


def tile(outcome: Outcome) -> dict[str, str]:
    """Return the sign, numbers and hint of a setting."""
    row, unused = outcome.row, outcome.kind == "unchanged"
    word = TEXTS["standings"][outcome.standing]
    gain, _, width = points_ci(*outcome.effect[1:]).partition(" ± ")
    return {
        "kind": "unclear" if outcome.standing == "training" else outcome.kind,
        "sign": TEXTS["signs"].get(outcome.standing, "–"),
        "word": word,
        "gain": "λ = 0" if unused else gain,
        "width": f"± {width}" if width and not unused else "",
        "base": accuracies(outcome).replace(" %", "\u00a0%"),  # on a phone it takes two lines
        "hint": (
            f"{word}; λ = {row['coefficient']:g}, accuracy "
            f"{100 * row['base_accuracy']:.2f} % without, {100 * row['accuracy']:.2f} % with; "
            f"{counted(row['trials'], 'trial')}, p (Holm) {row['p_holm']:.2g}"
        ),
    }
