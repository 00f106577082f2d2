"""Verdicts as the templates of the page show them."""

from __future__ import annotations

import dataclasses
from typing import Any

from firthshot.experiments.summary import not_judged, penalised
from firthshot.report.gather import Gathered
from firthshot.report.runs import TRIALS
from firthshot.report.verdict import Condition, Verdict
from firthshot.report.wording.cards import card_lead, remarks, tile, title_of
from firthshot.report.wording.headline import (
    Headline,
    geometric_headline,
    make_headline,
    nothing_chosen,
)
from firthshot.report.wording.words import shots_words


def headline_of(gathered: Gathered) -> Headline:
    """Return the answer at the top: on the trials, else on the geometric experiment."""
    summary = gathered.summary
    if not gathered.verdicts and not summary.unjudged and "novel" in summary.all["split"]:
        return nothing_chosen(penalised(summary))
    if gathered.verdicts or any(run.kind == TRIALS for run in gathered.runs):
        headline = make_headline(gathered.verdicts, summary.unjudged)
        return dataclasses.replace(headline, lines=(*headline.lines, *not_judged(summary)))
    return geometric_headline(gathered.geometric)


def card(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as a grid of tiles, ways down and shots across, and its sentences."""
    tiles = {outcome.condition: tile(outcome) for outcome in verdict.outcomes}
    columns = sorted({(one.unbalanced, one.shots, one.scheme) for one in tiles})
    title = title_of(verdict)
    return {
        # A title that breaks after "3-" is hard to read.
        "title": title.replace("3-layer", "3\N{NON-BREAKING HYPHEN}layer"),
        "bank": verdict.key["bank"],
        "title_has_bank": verdict.key["bank"] in title,
        "columns": [shots_words(Condition(0, *shots)) for shots in columns],
        "lines": [
            (ways, [tiles.get(Condition(ways, *shots)) for shots in columns])
            for ways in sorted({condition.ways for condition in tiles})
        ],
        "lead": card_lead(verdict),
        "remarks": remarks(verdict),
    }
