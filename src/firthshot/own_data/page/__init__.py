"""The page of a fit: its report and the rows to look at as one self-contained HTML text."""

from __future__ import annotations

import datetime
import platform
from pathlib import Path
from typing import Any

import numpy as np

from firthshot import __version__
from firthshot.own_data._examples import Examples
from firthshot.own_data._report import (
    HELD,
    FitReport,
    answer_lines,
    chance_words,
    firth_words,
    labels_words,
    more_words,
    one_row,
    title_line,
)
from firthshot.own_data.assessment import Assessment
from firthshot.own_data.assessment.doubts import leaking_columns, near_copies
from firthshot.own_data.page.views import (
    FRAME,
    RowViews,
    curve_chart,
    gain_bars,
    reliability_chart,
)
from firthshot.pages import content_policy, own_script, page_style, page_templates, script_json

PAGE = Path(__file__).parent
MOST_CLASSES = 40  # rows and columns of the matrix; the classes with the most mistakes
MOST_COPIES = 12


def render_fit(report: FitReport, examples: Examples) -> str:
    """Return the page as one self-contained HTML text."""
    from markupsafe import Markup

    found = report.assessment
    script = own_script(PAGE / "fit.js")
    views = None if found is None else RowViews(examples, found)
    now = datetime.datetime.now(datetime.UTC)
    context: dict[str, Any] = {
        "title": report.source,
        "version": __version__,
        "written": f"{now.day} {now:%B %Y, %H:%M} UTC",
        "policy": content_policy([script]),
        "style": page_style() + Markup((PAGE / "fit.css").read_text("utf-8")),
        "script": Markup(script),
        "eyebrow": title_line(report),
        "why": report.why,
        "answer": answer_of(report),
        # the head stands at the end of the page
        "lines": [line for line in answer_lines(report) if line[0] != "head"],
        "found": found,
        "remarks": report.remarks,
        "frame": FRAME,
        "checks": _checks(examples),
        "copies": _copies(examples),
        "facts": _facts(report),
        "cells": script_json({}),
        **({} if found is None or views is None else _charts(report, found, views)),
    }
    return page_templates(PAGE).get_template("fit.html.j2").render(context)


def _charts(report: FitReport, found: Assessment, views: RowViews) -> dict[str, Any]:
    doubts, uncertain = views.doubts(), views.uncertain()  # they get pictures first
    return {
        "firth": firth_words(found),
        "labels": labels_words(report),
        "more": more_words(found),
        "gains": gain_bars(found),
        "reliability": reliability_chart(found),
        "curve": curve_chart(found),
        "matrix": matrix_view(found),
        "doubts": doubts,
        "hidden_doubts": len(found.doubts) - len(doubts),
        "uncertain": uncertain,
        "classes": class_table(report, found),
        "cells": script_json({"names": [str(one) for one in found.classes], "rows": views.cells()}),
    }


def answer_of(report: FitReport) -> dict[str, str]:
    """Return the large sentence of the page, and its tone."""
    if report.assessment is None:
        words = f"Every class has {one_row(report)}: add a second to test it."
        return {"tone": "plain", "words": words}
    one, guess = report.assessment.estimate, chance_words(report.assessment)
    low, share, high = (round(100 * part) for part in (one.low, one.accuracy, one.high))
    right = f"of 100 new {HELD[report.kind]} will be right"
    words = f"Between {low} and {high} {right}, probably about {share}."
    if low == high:
        words = f"About {share} {right}."
    return {"tone": "plain" if guess else "good", "words": words + guess}


def matrix_view(found: Assessment) -> dict[str, Any]:
    """Return the confusion matrix, or the part of it that has the most mistakes."""
    table = found.confusion
    mistakes = table.sum(axis=0) + table.sum(axis=1) - 2 * table.diagonal()
    order = np.arange(len(table))
    if len(table) > MOST_CLASSES:
        order = np.sort(np.argsort(-mistakes, kind="stable")[:MOST_CLASSES])
    totals = table.sum(axis=1)
    lines = [
        {
            "name": str(found.classes[i]),
            "cells": [_cell(table, int(i), int(j), int(totals[i])) for j in order],
        }
        for i in order
    ]
    return {
        "lines": lines,
        "names": [str(found.classes[j]) for j in order],
        "hidden": len(table) - len(order),
    }


def _cell(table: Any, i: int, j: int, total: int) -> dict[str, Any]:
    count = int(table[i, j])
    return {
        "key": f"{i}-{j}",
        "count": count,
        "shade": round(100 * count / total) if total and count else 0,
        "kind": ("right" if i == j else "wrong") + (" full" if 2 * count > total else ""),
    }


def class_table(report: FitReport, found: Assessment) -> list[dict[str, Any]]:
    """Return a line for each class: rows, left-out accuracy, and what it is taken for."""
    lines = []
    for k, name in enumerate(found.classes):
        row = found.confusion[k]
        tested, right = int(row.sum()), int(row[k])
        nearest = chance = ""
        if tested:
            mean = found.left.probabilities[found.left.labels == k].mean(axis=0)
            mean[k] = -1.0  # the nearest of the others
            nearest, chance = str(found.classes[mean.argmax()]), f"{100 * mean.max():.0f} %"
        lines.append(
            {
                "name": str(name),
                "rows": report.counts[str(name)],
                "tested": tested,
                "right": right,
                "share": round(100 * right / tested) if tested else None,
                "nearest": nearest,
                "chance": chance,
            }
        )
    return lines


def _checks(examples: Examples) -> list[str]:
    """Return sentences about columns; those of an embedding are nobody's to mend."""
    if examples.encoder is not None or examples.features.shape[1] >= 64:
        return []
    labels = examples.coded_labels()[1]
    names = examples.names or tuple(str(j + 1) for j in range(examples.features.shape[1]))
    return [
        f"Column {names[j]!r} tells all classes apart by itself: make sure that it is known before "
        "the label is."
        for j in leaking_columns(examples.features, labels)
    ]


def _copies(examples: Examples) -> dict[str, Any]:
    classes, labels = examples.coded_labels()
    pairs, names = near_copies(examples.features, labels), examples.row_names()
    shown = [
        {
            "one": names[pair.one],
            "other": names[pair.other],
            "torn": pair.torn,
            "labels": (str(classes[labels[pair.one]]), str(classes[labels[pair.other]])),
            "words": f"{100 * pair.distance:.0f} % of the usual distance to the nearest row"
            if pair.distance
            else "equal",
        }
        for pair in pairs[:MOST_COPIES]
    ]
    return {"shown": shown, "hidden": len(pairs) - len(shown)}


def _facts(report: FitReport) -> list[tuple[str, str]]:
    from importlib import metadata

    settings = ", ".join(f"{name} {_short(value)}" for name, value in report.settings.items())
    found = [("Source", report.source), ("Head", report.head), ("Settled", settings)]
    if report.encoder is not None:
        found.append(("Encoder", report.encoder))
    versions = [f"{name} {metadata.version(name)}" for name in ("numpy", "scikit-learn")]
    python = f"firthshot {__version__}, Python {platform.python_version()}"
    found.append(("Versions", ", ".join([python, *versions])))
    return found


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name} {_short(one)}" for name, one in value.items()) + ")"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
