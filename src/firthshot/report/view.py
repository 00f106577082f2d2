"""From what was gathered to what the templates of the page show."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any

from firthshot.experiments.summary import not_judged, penalised
from firthshot.report.gather import Gathered
from firthshot.report.headline import Headline, make_headline
from firthshot.report.outcomes import Outcome
from firthshot.report.runs import TRIALS
from firthshot.report.verdict import Verdict
from firthshot.report.wording import Condition, counted, listed, points, shots_words

_SIGNS = {"helps": "▲", "costs": "▼", "unclear": "○", "unchanged": "–"}
# What a remark begins with.
TOPICS = {
    "accuracy": "",
    "classes": "Other classes.",
    "theory": "No tuning.",
    "calibration": "Probabilities.",
    "rivals": "Other penalties.",
    "references": "Other heads.",
    "edge": "Grid.",
}
_WORDS = {
    "helps": "helps",
    "costs": "costs accuracy",
    "unclear": "not significant",
    "unchanged": "λ = 0 chosen",
}


def headline_of(gathered: Gathered, verdicts: Sequence[Verdict]) -> Headline:
    """Return the answer at the top: on the trials, else on the geometric experiment."""
    unjudged = gathered.summary.unjudged
    if not verdicts and not unjudged and "novel" in gathered.summary.all["split"]:
        return Headline("What was found?", _nothing_chosen(gathered), "plain")
    if verdicts or any(run.kind == TRIALS for run in gathered.runs):
        headline = make_headline(verdicts, unjudged)
        lines = (*headline.lines, *not_judged(gathered.summary))
        return dataclasses.replace(headline, lines=lines)
    return _geometric_headline(gathered)


def _nothing_chosen(gathered: Gathered) -> str:
    if not penalised(gathered.summary):
        return "No penalty was trained: there is nothing to choose."
    return "No λ was chosen: the novel trials have no validation trials beside them."


def _geometric_headline(gathered: Gathered) -> Headline:
    """Answer for all geometric runs together; the least favourable of them decides."""
    from firthshot.experiments.geometric.run import read_geometric

    results = [read_geometric(run.path) for run in gathered.runs]
    if any(result.firth_is_biased for result in results):
        answer, tone = "Not wholly: a bias remains that noise does not explain.", "bad"
    elif not all(result.likelihood_is_biased for result in results):
        answer = "Too few trials to tell: not even the bias of maximum likelihood shows."
        tone = "plain"
    else:
        answer, tone = "Yes: from two samples on, no bias can be told from noise.", "good"
    lines = tuple(line for result in results for line in result.sentences())
    return Headline("Does Firth remove the bias?", answer, tone, lines)


def eyebrow_of(gathered: Gathered) -> str:
    """Return what the report is about, in one line."""
    names = dict.fromkeys(run.name for run in gathered.runs)
    banks = dict.fromkeys(bank.name for run in gathered.runs for bank in run.tried)
    said = [listed(names)]
    if banks:
        said.append(f"on {listed(banks)}" if len(banks) <= 3 else f"on {len(banks)} banks")
    trials = gathered.summary.chosen["trials"].to_list()
    if trials:
        low, high = min(trials), max(trials)
        number = counted(low, "trial") if low == high else f"{low:,} to {high:,} trials"
        said.append(f"{number} per setting")
    return " · ".join(said)


def today() -> str:
    """Return the date as people write it."""
    now = datetime.datetime.now(datetime.UTC)
    return f"{now.day} {now:%B %Y, %H:%M} UTC"


def verdict_view(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as a grid of tiles, ways down and shots across, and its sentences."""
    by_condition = {outcome.condition: outcome for outcome in verdict.outcomes}
    columns = sorted({_shots(condition) for condition in by_condition})
    lines = [
        (ways, [_tile(by_condition.get(Condition(ways, *shots))) for shots in columns])
        for ways in sorted({condition.ways for condition in by_condition})
    ]
    return {
        # A title that breaks after "3-" is hard to read.
        "title": verdict.title.replace("3-layer", "3\N{NON-BREAKING HYPHEN}layer"),
        "bank": verdict.key["bank"],
        "title_has_bank": verdict.key["bank"] in verdict.title,
        "columns": [shots_words(Condition(0, *shots)) for shots in columns],
        "lines": lines,
        "remarks": verdict.remarks,
    }


def _shots(condition: Condition) -> tuple[bool, int, str]:
    return condition.unbalanced, condition.shots, condition.scheme


def _tile(outcome: Outcome | None) -> dict[str, str] | None:
    if outcome is None:
        return None
    row = outcome.row
    unchanged = outcome.kind == "unchanged"
    width = row["improvement_ci"]
    word = "too few trials to tell" if outcome.too_few else _WORDS[outcome.kind]
    if unchanged and outcome.only_zero:
        word = "λ = 0, the only candidate"
    return {
        "kind": outcome.kind,
        "sign": _SIGNS[outcome.kind],
        "word": word,
        "gain": "λ = 0" if unchanged else points(row["improvement"]),
        "width": "" if unchanged or width is None else f"± {100 * width:.2f}",
        "hint": (
            f"{word}; λ = {row['coefficient']:g}, accuracy "
            f"{100 * row['base_accuracy']:.2f} % without, {100 * row['accuracy']:.2f} % with; "
            f"{counted(row['trials'], 'trial')}, p (Holm) {row['p_holm']:.2g}"
        ),
    }
