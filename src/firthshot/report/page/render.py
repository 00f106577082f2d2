"""From what was gathered to one self-contained HTML text."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime
import gzip
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from firthshot import __version__
from firthshot.experiments.summary.columns import harmless_csv
from firthshot.files import user_cache, write_whole
from firthshot.pages import content_policy, own_script, page_style, page_templates, script_json
from firthshot.report.gather import Gathered
from firthshot.report.page import provenance
from firthshot.report.page.data import page_data
from firthshot.report.plots import FigureFile
from firthshot.report.plots.vega import make_charts
from firthshot.report.runs import TRIALS
from firthshot.report.tables.cells import Table, merged, shown_columns, to_csv
from firthshot.report.tables.rivals import ranking
from firthshot.report.verdict import Condition, Verdict
from firthshot.report.wording import counted, shots_words
from firthshot.report.wording.cards import TOPICS, card_lead, remarks, tile, title_of
from firthshot.report.wording.headline import (
    Headline,
    geometric_headline,
    make_headline,
    nothing_chosen,
)
from firthshot.report.wording.page import beside_words, eyebrow, folded_words, run_titles

PAGE = Path(__file__).parent
_SCRIPTS = ("data", "controls", "rows", "draw", "tables", "main")
_METHODS = "rivals-"  # tables that stand before the verdicts on single penalties
_OVER_CLASSES = ("improvement_classes_low", "theory_improvement_classes_low")
_PICTURES = 400_000  # bytes of figures that the page holds at most; the others lie beside it
_UNLIKE_CHARTS = ("geometric", "rope")  # figures that show what no chart of the page does


def render(
    gathered: Gathered, figures: Sequence[FigureFile] = (), tables: Sequence[Table] = ()
) -> str:
    """Return the page as one self-contained HTML text."""
    from markupsafe import Markup

    own = own_script(*(PAGE / "js" / f"{name}.js" for name in _SCRIPTS))
    charts = [vega_script().replace("</script", "<\\/script")] if gathered.verdicts else []
    scripts, chosen = [*charts, own], gathered.summary.chosen
    downloads, packed = _downloads(gathered, tables)
    now = datetime.datetime.now(datetime.UTC)
    context = {
        "title": ", ".join(dict.fromkeys(run.name for run in gathered.runs)),
        "version": __version__,
        "written": f"{now.day} {now:%B %Y, %H:%M} UTC",
        "policy": content_policy(scripts, evaluates=True),  # Vega does
        "style": page_style(),
        "scripts": [Markup(script) for script in scripts],
        "blocks": [*_data_blocks(gathered), *packed],
        "headline": headline_of(gathered),
        "eyebrow": eyebrow(gathered),
        "alerts": provenance.alerts(gathered),
        "topics": TOPICS,
        "class_intervals": any(chosen[name].is_not_null().any() for name in _OVER_CLASSES),
        "verdicts": [card(verdict) for verdict in gathered.verdicts],
        "methods": [table_view(table) for table in tables if table.name.startswith(_METHODS)],
        "tables": [table_view(table) for table in tables if not table.name.startswith(_METHODS)],
        "downloads": downloads,
        **(shown := _pictures(figures)),
        "folded_words": folded_words(len(figures), *map(len, shown.values())),
        "beside": beside_words(len(figures), len(tables)),
        "notes": provenance.notes(gathered),
        "runs": list(map(provenance.describe_run, gathered.runs, run_titles(gathered.runs))),
    }
    context["sections"] = _sections(context)
    return page_templates(PAGE / "templates").get_template("page.html.j2").render(context)


def _sections(context: dict[str, Any]) -> list[tuple[str, str]]:
    found = [("verdict", "Verdict"), ("charts", "Charts"), ("detail", "In detail")]
    found = found if context["verdicts"] else []
    found = [("methods", "Methods"), *found] if context["methods"] else found
    found += [("pictures", "Pictures")] if context["pictures"] else []
    return [*found, ("tables", "Tables"), ("notes", "Warnings"), ("run", "Runs"), ("cite", "Cite")]


def _data_blocks(gathered: Gathered) -> Iterator[tuple[str, str, Any]]:
    for name, content in (("chart-specs", make_charts()), ("page-data", page_data(gathered))):
        yield name, "application/json", script_json(content)


def _downloads(
    gathered: Gathered, tables: Sequence[Table]
) -> tuple[list[dict[str, str]], list[tuple[str, str, Any]]]:
    """Return the summary's tables as files that the page holds, and the packed files.

    Those of ``tables`` are packed too, each under the name of its own table.
    """
    from markupsafe import Markup

    names = ("all", "chosen", "calibration", "contrasts")
    found = {name: getattr(gathered.summary, name) for name in names}
    found = {name: frame for name, frame in found.items() if not frame.is_empty()}
    files = [
        {"id": f"file-{name}", "name": f"{name}.csv", "lines": counted(len(frame), "line")}
        for name, frame in found.items()
    ]
    texts = {f"file-{name}": harmless_csv(frame) for name, frame in found.items()}
    texts |= {f"table-{table.name}": to_csv(table) for table in tables}
    packed = {name: gzip.compress(text.encode(), mtime=0) for name, text in texts.items()}
    return files, [
        (name, "application/gzip+base64", Markup(base64.b64encode(content).decode()))
        for name, content in packed.items()
    ]


def _pictures(figures: Sequence[FigureFile]) -> dict[str, list[dict[str, str]]]:
    """Return figures as data URIs: those that no chart replaces, and the rest, while there is room.

    The page holds no more than _PICTURES bytes of them; all lie in ``figures/``.
    """
    held = 0
    found: dict[str, list[dict[str, str]]] = {"pictures": [], "folded_pictures": []}
    for figure in sorted(figures, key=lambda each: not each.name.startswith(_UNLIKE_CHARTS)):
        content = figure.paths["svg"].read_bytes()
        held += len(content)
        if held > _PICTURES:
            break
        source = f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"
        where = "pictures" if figure.name.startswith(_UNLIKE_CHARTS) else "folded_pictures"
        found[where].append({"title": figure.title, "caption": figure.caption, "source": source})
    return found


def headline_of(gathered: Gathered) -> Headline:
    """Return the answer at the top: on the trials, else on the geometric experiment."""
    summary = gathered.summary
    if not gathered.verdicts and not summary.unjudged and "novel" in summary.all["split"]:
        return nothing_chosen(summary.penalised)
    if gathered.verdicts or any(run.kind == TRIALS for run in gathered.runs):
        headline = trials_headline(gathered)
        return dataclasses.replace(headline, lines=(*headline.lines, *summary.not_judged))
    return geometric_headline(gathered.geometric)


def trials_headline(gathered: Gathered) -> Headline:
    """Answer on the trials; of many methods which is best is asked first, Firth second."""
    headline = make_headline(gathered.verdicts, gathered.summary.unjudged)
    answer, *places = ranking(gathered) or [""]
    if not answer:
        return headline
    lines = (*places, f"{headline.question} {headline.answer}", *headline.lines)
    return Headline("Which method is best here?", answer, "plain", lines, headline.more)


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


_FULL = 40  # lines; longer tables are folded
_OPEN = ("rivals", "artificial", "improvement", "published", "geometric")  # others are folded


def table_view(table: Table) -> dict[str, Any]:
    """Return what the template needs of a table: of a cell text, and what to sort by."""
    header, texts, _ = merged(table)
    places = shown_columns(table)
    rows = [
        [(text, _sort(row[at])) for text, at in zip(cells, places, strict=True)]
        for cells, row in zip(texts, table.rows, strict=True)
    ]
    return {
        "name": table.name,
        "title": table.title,
        "columns": header,
        "numbers": [any(isinstance(row[at], int | float) for row in table.rows) for at in places],
        "rows": rows,
        "note": table.note,
        "open": len(rows) <= _FULL and table.name.startswith(_OPEN),
    }


def _sort(value: Any) -> float | str | None:
    """Return a number, "" where there is nothing, which sorts last, and None for text."""
    if value is None:
        return ""
    return float(value) if isinstance(value, int | float) else None


def vega_script() -> str:
    """Return the script, which defines ``window.vegaEmbed``.

    The package ``vl-convert-python`` carries the libraries and bundles them in some seconds; the
    result is kept in the user's cache folder (``FIRTHSHOT_CACHE``), where it can be written.
    """
    kept = user_cache() / f"vega-{metadata.version('vl-convert-python')}.js"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return kept.read_text("utf-8")
    import vl_convert

    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, script.encode())
    return script
