"""The sentences of a method's card: three that a person needs, and the rest behind "more"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firthshot.experiments.schema import TINY_RIDGE
from firthshot.report.verdict import Claim, Condition, Effect, Outcome, Tested, Verdict
from firthshot.report.verdict.findings import LEANS, trials_of
from firthshot.report.verdict.make import Lean
from firthshot.report.verdict.outcomes import MARGIN, Again
from firthshot.report.wording import (
    capital,
    everywhere,
    head_name,
    listed,
    parts,
    penalty_name,
    points,
    points_ci,
    setting_words,
    where,
)

MUCH = 0.01  # a loss of a point of accuracy is worth a word on its cause
LOSS = f"a loss of {100 * MARGIN:g} points"
ZERO = {
    "chose zero": "the validation classes chose λ = 0",
    "only zero": "λ = 0 was the only candidate",
}
# What a remark begins with.
TOPICS = {
    "accuracy": "Accuracy.",
    "training": "Training.",
    "classes": "Other classes.",
    "theory": "No tuning.",
    "calibration": "Probabilities.",
    "rivals": "Other penalties.",
    "heads": "Trained heads.",
    "references": "Reference heads.",
    "edge": "Grid.",
}
_TONES = {
    **dict.fromkeys(("helps", "safe", "better"), "good"),
    **dict.fromkeys(("costs", "loose", "worse", "beaten", "beaten at zero"), "bad"),
}
_FEW = "There are too few trials to {what} {effects}. {needed}."
_TUNING_FREE = "The tuning-free λ of the theory"
_TRAINING = "{what} loses accuracy {{effects}}, but not {{blame}}."
_START = "when the weights start at zero: the random start is to blame"
_OPTIMUM = "at the optimum: the training is to blame"
_MORE = (
    " That is what the optimum shows. As trained, accuracy falls {effects}: the training is to "
    "blame for the rest."
)
_SOLVED = " That is as trained; at the optimum the difference is {effects}."
# By topic and standing; {effects} are places with amounts, {places} without.
_SENTENCES = {
    "accuracy": {
        "helps": "{name} helps {effects}.{solved}",
        "costs": "{name} costs accuracy {effects}.{more}",
        "training": _TRAINING.format(what="{name}"),
        "unclear": "The effect may be chance {effects}.",
        "few": _FEW,
        "chose zero": "The validation classes chose λ = 0 {places}.",
        "only zero": "λ = 0 was the only candidate {places}.",
    },
    "training": {
        "unstable": "Training with λ = {values} is unstable at this learning rate {places}"
        "{optimum}. Those trials are left out, so that {name} is not charged with them.",
        "separable": "Without penalty there is no optimum where the support is separable "
        f"{{places}}. λ = 0 stands for a ridge of {TINY_RIDGE:g}, close to the maximum margin.",
    },
    "classes": {
        "loose": "Other classes may give another result {places}. The interval that also "
        "resamples classes includes zero.",
        "wider": "Intervals over classes are about {ratio:.1f} times as wide as those over "
        "trials. More trials will not make them narrower.",
    },
    "theory": {
        "costs": f"{_TUNING_FREE} costs accuracy {{effects}}.{{more}}{{why}}",
        "training": _TRAINING.format(what=_TUNING_FREE),
        "open": f"{_TUNING_FREE} may cost accuracy: {LOSS} is possible {{effects}}.",
        "safe": f"{_TUNING_FREE} is safe {{effects}}: it loses less than {100 * MARGIN:g} points.",
    },
    "calibration": {
        "worse": "Probabilities get worse: {moves}.{leaning}",
        "better": "Probabilities get better: {moves}.{leaning}",
        "mostly worse": "Probabilities mostly get worse: {moves}.{leaning}",
        "mostly better": "Probabilities mostly get better: {moves}.{leaning}",
        "same": "Probabilities get neither better nor worse: {moves}.{leaning}",
    },
    "rivals": {
        "helps": "{name} beats {other} {effects}.",
        "costs": "{other} beats {name} {effects}.",
        "unclear": "The difference between {name} and {other} may be chance {effects}.",
        "few": _FEW,
        "both zero": "{name} and {other} both have λ = 0 {places}.",
    },
    "heads": {
        "helps": "This head beats {other} {effects}.",
        "costs": "{other} beats this head {effects}.",
        "unclear": "The difference from {other} may be chance {effects}.",
        "few": _FEW,
    },
    "references": {
        "beaten": "{other} beats this head with and without {name} {effects}.",
        "beaten at zero": "{other} beats this head, which has λ = 0, {effects}.",
        "as well": "{other} does as well as {name} {places}.",
        "open": "{other} may do as well as {name} {effects}.",
        "few": _FEW,
    },
    "edge": {
        "edge": "The chosen λ is the largest of the grid {places}. A larger λ might do better.",
    },
}
# What λ = K rank/(2N) is derived for, and where it is compared with a chosen λ at length.
_WHY = (
    " The theory removes the first-order bias of the weights; it does not aim at accuracy. "
    "studies/reproduction compares it with a chosen λ."
)


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
    text = _SENTENCES[finding.topic][finding.standing]
    own = verdict.key["head"]
    other = opponent_name(finding.opponent, own) if finding.opponent else ""
    words = {
        "name": name_of(verdict),
        "other": other,
        "what": f"compare {name_of(verdict)} with {other}" if other else "tell",
        "effects": "; ".join(phrases(finding.effects, finding.among)),
        "places": places(finding.conditions, finding.among) if finding.effects else "",
        "needed": needed_words(*finding.trials) if finding.trials else "",
        "why": _WHY if min((e.mean for e in finding.effects), default=0) <= -MUCH else "",
        **_numbers(finding),
    }
    tone = _TONES.get(finding.standing, "plain")
    return Remark(finding.topic, tone, capital(text.format(**words)))


def _numbers(finding: Claim) -> dict[str, Any]:
    """Return what else a sentence needs, in words where it is not a number."""
    numbers = finding.numbers or {}
    if finding.topic == "calibration":
        return _probabilities(finding)
    if "more" in numbers:
        more = "; ".join(phrases(numbers["more"], finding.among))
        return {
            "more": _MORE.format(effects=more) if more else "",
            "blame": _START if numbers["start"] else _OPTIMUM,
        }
    if "solved" in numbers:
        solved = "; ".join(phrases(numbers["solved"], finding.among))
        return {"solved": _SOLVED.format(effects=solved) if solved else ""}
    if "values" not in numbers:
        return numbers
    best = ""
    if numbers["optimum"]:
        low, high = (f"{100 * value:.0f}" for value in numbers["optimum"])
        best = f" ({low if low == high else f'{low} to {high}'} % at the optimum)"
    return {"values": listed(f"{value:g}" for value in numbers["values"]), "optimum": best}


def card_lead(verdict: Verdict) -> list[str]:
    """Return whether it helps, how much, and what would be better: a sentence each."""
    return [_does_it_help(verdict), *_how_much(verdict), _what_is_better(verdict)]


def name_of(verdict: Verdict) -> str:
    """Return what the penalty of a verdict is called."""
    return penalty_name(verdict.key["penalty"], verdict.key["prior"])


def title_of(verdict: Verdict) -> str:
    """Return what tells a method from the others of a report."""
    details = [_detail(name, verdict.key[name]) for name in verdict.telling]
    return ", ".join(
        [capital(name_of(verdict)), f"{head_name(verdict.key['head'])} head", *details]
    )


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
    noun = "trial" if there == 1 else "trials"
    return f"With {there} {noun} nothing can be significant; at least {needed} are needed"


def needed_sentence(tested: Iterable[Tested]) -> str:
    """Say how many trials are needed where some of the tests have too few, with a space before."""
    few = [one for one in tested if one.too_few]
    return f" {needed_words(*trials_of(few))}." if few else ""


def places(some: Sequence[Condition], among: Sequence[Condition]) -> str:
    """Name settings."""
    return listed(where(part, among) for part in parts(some, among))


def phrases(effects: Sequence[Effect], among: Sequence[Condition]) -> list[str]:
    """Return "where (amount)" for each part, the largest effect first."""
    at = {effect.condition: effect for effect in effects}
    groups = parts(list(at), among) if at else []
    groups.sort(key=lambda part: -max(abs(at[one].mean) for one in part))
    return [f"{where(part, among)} ({_amount([at[one] for one in part])})" for part in groups]


def _amount(effects: Sequence[Effect]) -> str:
    """Return one effect with its interval, or the smallest and the largest of several."""
    ordered = sorted(effects, key=lambda effect: effect.mean)
    low, high = (points_ci(each.mean, each.width) for each in (ordered[0], ordered[-1]))
    return f"{low} points" if low == high else f"{low} to {high} points"


def at_setting(effect: Effect) -> str:
    """Return an effect and its setting."""
    return f"{points_ci(effect.mean, effect.width)} points ({setting_words(effect.condition)})"


def at_optimum(trained: Effect, again: Again) -> str:
    """Say that a difference is as trained, and what it is at the optimum, where that differs."""
    solved = again.optimum
    if solved is None or points(solved.mean) == points(trained.mean):
        return ""
    return f" as trained, {points_ci(*solved[1:])} at the optimum"


def _does_it_help(verdict: Verdict) -> str:
    name, total = capital(name_of(verdict)), len(verdict.outcomes)
    standings = [outcome.standing for outcome in verdict.outcomes]
    helps, costs = standings.count("helps"), standings.count("costs")
    if helps and costs:
        return f"{name} helps in {helps} and costs accuracy in {costs} of {total} settings."
    for count, words in ((helps, "helps"), (costs, "costs accuracy")):
        if count:
            return f"{name} {words} {_in_some(count, verdict)}."
    if not set(standings) - set(ZERO):
        return f"{name} is not used: {listed(ZERO[one] for one in sorted(set(standings)))}."
    if "training" in standings:
        return f"{name} loses accuracy by its training alone."
    if "unclear" in standings:
        return f"{name} makes no significant difference."
    return "There are too few trials to tell."


def _in_some(count: int, verdict: Verdict) -> str:
    total = len(verdict.outcomes)
    if total == 1:
        return f"at {setting_words(verdict.conditions[0])}"
    return everywhere(total) if count == total else f"in {count} of {total} settings"


def _how_much(verdict: Verdict) -> Iterator[str]:
    gains = [o for o in verdict.outcomes if o.standing == "helps"]
    losses = [o for o in verdict.outcomes if o.standing == "costs"]
    said = [
        f"the largest {word} is {_trained_and_solved(pick(some, key=_counted))}"
        for word, pick, some in (("gain", max, gains), ("loss", min, losses))
        if some
    ]
    if said:
        yield f"{capital(' and '.join(said))}."
        return
    tested = [outcome for outcome in verdict.outcomes if outcome.kind == "unclear"]
    if needed := needed_sentence(tested):
        yield needed.strip()
    elif tested:
        most = max((o.effect for o in tested), key=lambda effect: abs(effect.mean))
        yield f"The largest difference is {at_setting(most)}, which may be chance."


def _counted(outcome: Outcome) -> float:
    return (outcome.charge or outcome.effect).mean


def _trained_and_solved(outcome: Outcome) -> str:
    solved = at_optimum(outcome.effect, outcome.again)
    amount = points_ci(*outcome.effect[1:])
    return f"{amount} points{solved} ({setting_words(outcome.condition)})"


def _what_is_better(verdict: Verdict) -> str:
    """Name what beats this method by most, else what does as well without a penalty."""
    winners = ("costs", "beaten", "beaten at zero")
    better = [
        (effect, finding)
        for finding in verdict.findings
        if finding.topic in ("rivals", "heads", "references") and finding.standing in winners
        for effect in finding.effects
    ]
    if better:
        effect, finding = max(better, key=lambda pair: pair[0].mean)
        assert finding.opponent is not None
        other = opponent_name(finding.opponent, verdict.key["head"])
        amount = at_setting(effect).removeprefix("+")
        return f"{capital(other)} is better, by up to {amount}."
    for finding in verdict.findings:
        if (finding.topic, finding.standing) == ("references", "as well"):
            return remark(finding, verdict).text
    if verdict.contrasts:
        return "No other method of this report is significantly better."
    return "This report compares it with no other method."


def _probabilities(finding: Claim) -> dict[str, str]:
    """Say how nll and ECE move, and how sure the head is without penalty."""
    numbers, total = finding.numbers or {}, len(finding.among)
    most = numbers["most"]
    move = f"from {most['base_ece_pooled']:.2f} to {most['ece_pooled']:.2f}"
    if total > 1:
        move = f"the largest change is {move} at {setting_words(Condition.of(most))}"
    moved = f"nll {_moved(numbers['nll'], total)}, calibration error (ECE) "
    moved += f"{_moved(numbers['ece'], total)}, {move}"
    return {"moves": moved, "leaning": _leaning(numbers["leans"])}


def _moved(counts: tuple[int, int], total: int) -> str:
    rises, falls = counts
    if total == 1 and rises + falls:
        return "rises" if rises else "falls"
    said = [f"{word} in {n}" for word, n in (("rises", rises), ("falls", falls)) if n]
    return f"{' and '.join(said)} of {total}" if said else "stays"


def _leaning(leans: Mapping[Condition, Lean]) -> str:
    """Say how confident the head is without penalty in the settings that the remark is about."""
    over = sum(lean.gap >= LEANS for lean in leans.values())
    under = sum(lean.gap <= -LEANS for lean in leans.values())
    if not over + under:
        return ""
    place, most = max(leans.items(), key=lambda each: abs(each[1].gap))
    counts = [f"{how}-confident in {n}" for how, n in (("over", over), ("under", under)) if n]
    words, at = f"{' and '.join(counts)} of {len(leans)} settings", f" at {setting_words(place)}"
    if len(leans) == 1:
        words, at = f"{'over' if over else 'under'}-confident", ""
    numbers = f"{most.confidence:.0%} mean confidence, {most.accuracy:.0%} accuracy"
    return f" Without penalty the head is {words} ({numbers}{at})."


_SIGNS = {"helps": "▲", "costs": "▼", "unclear": "○", "few": "○"}
_STANDINGS = {
    "helps": "helps",
    "costs": "costs accuracy",
    "training": "a loss of the training",
    "unclear": "not significant",
    "few": "too few trials to tell",
    "chose zero": "λ = 0 chosen",
    "only zero": "λ = 0, the only candidate",
}


def accuracies(outcome: Outcome) -> str:
    """Return the accuracy without and with the chosen coefficient; one number where λ = 0."""
    base, ours = (f"{100 * outcome.row[name]:.1f}" for name in ("base_accuracy", "accuracy"))
    return f"{base} %" if outcome.kind == "unchanged" else f"{base} → {ours} %"


def tile(outcome: Outcome) -> dict[str, str]:
    """Return the sign, numbers and hint of a setting."""
    row, word, unused = outcome.row, _STANDINGS[outcome.standing], outcome.kind == "unchanged"
    gain, _, width = points_ci(*outcome.effect[1:]).partition(" ± ")
    return {
        "kind": "unclear" if outcome.standing == "training" else outcome.kind,
        "sign": _SIGNS.get(outcome.standing, "–"),
        "word": word,
        "gain": "λ = 0" if unused else gain,
        "width": f"± {width}" if width and not unused else "",
        "base": accuracies(outcome).replace(" %", "\u00a0%"),  # on a phone it takes two lines
        "hint": (
            f"{word}; λ = {row['coefficient']:g}, accuracy "
            f"{100 * row['base_accuracy']:.2f} % without, {100 * row['accuracy']:.2f} % with; "
            f"{row['trials']:,} trial{'' if row['trials'] == 1 else 's'}, "
            f"p (Holm) {row['p_holm']:.2g}"
        ),
    }
