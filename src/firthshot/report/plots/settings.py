"""Small panels, one per setting: along λ (Fig A12), calibration, and differences of trials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from firthshot.experiments.schema import KEYS, SPLITLESS, grouped
from firthshot.report.gather import Gathered
from firthshot.report.plots.declare import PLOTS, RED, Row
from firthshot.report.plots.groups import TRAINED, Group, about, group
from firthshot.report.plots.paper import STATES, Panel, draw_figure
from firthshot.report.plots.style import Drawing, dress_lambda, number, panel_inches
from firthshot.report.verdict import Condition
from firthshot.report.wording import setting_words

MOST_PANELS = 12  # per figure: a page
_FEW = 50  # predictions in a bin
# A val line belongs to a novel one when these agree: a split may lack classes or rows.
_SAME = tuple(name for name in KEYS if name not in ("split", "actual_ways", "query_rule"))

MakePanel = Callable[[Row, list[Row]], Panel]  # from a line of ``chosen`` and its tidy rows


def draw_curves(gathered: Gathered) -> Iterator[Drawing]:
    """Draw validation accuracy and the trade-off along λ of every bank and method."""
    lines = gathered.summary.all.filter(pl.col("accuracy").is_not_null())
    val = _by(lines.filter(pl.col("split") == "val"), _SAME)
    novel = _by(lines.filter(pl.col("split") == "novel"), _SAME)
    for part in group(gathered.summary.chosen, (*TRAINED, "bank")):
        curved = _with(part, val, _SAME, _is_curve)
        yield from _pages("lambda", "path", part, curved, _curve)
        traded = _with(part, novel, _SAME, _is_calibrated)
        yield from _pages("tradeoff", "tradeoff", part, traded, _trade)


def draw_distributions(gathered: Gathered) -> Iterator[Drawing]:
    """Draw reliability and the differences of trials of every bank and method."""
    parts = group(gathered.summary.chosen, (*TRAINED, "bank"))
    if not parts:
        return
    bins = _by(gathered.reliability.filter(pl.col("series") != "theory"), SPLITLESS)
    differences = _by(gathered.differences, SPLITLESS)
    for part in parts:
        binned = _with(part, bins, SPLITLESS, bool)
        yield from _pages("reliability", "reliability", part, binned, _diagram, tuple(STATES), 2.1)
        varied = _with(part, differences, SPLITLESS, _changes_any)
        names = ("chosen λ", "theory λ")
        yield from _pages("differences", "differences", part, varied, _histogram, names)


def _by(frame: pl.DataFrame, names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    return grouped(frame.to_dicts(), itemgetter(*names))


def _with(
    part: Group,
    lines: dict[tuple[Any, ...], list[Row]],
    names: Sequence[str],
    enough: Callable[[list[Row]], bool],
) -> list[tuple[Row, list[Row]]]:
    """Return the lines of ``chosen`` for which there is enough to draw, with what there is."""
    pairs = [(row, lines.get(itemgetter(*names)(row), [])) for row in part.rows]
    found = [(row, own) for row, own in pairs if enough(own)]
    return sorted(found, key=lambda pair: Condition.of(pair[0]))


def _pages(
    name: str,
    kind: str,
    part: Group,
    found: list[tuple[Row, list[Row]]],
    make: MakePanel,
    names: Sequence[str] = ("",),
    height: float = 1.8,
) -> Iterator[Drawing]:
    """Draw a panel for each setting, on as many figures as needed."""
    plot, one_scale = PLOTS[kind], kind == "path"
    pages = [found[at : at + MOST_PANELS] for at in range(0, len(found), MOST_PANELS)]
    for page_number, page in enumerate(pages, 1):
        rows = [row for row, _ in page]
        which = f"-{page_number}" if len(pages) > 1 else ""
        columns = _columns(rows)
        higher = height * (1.15 if columns == 1 else 1.0)
        shown = [make(row, own) for row, own in page]
        yield Drawing(
            f"{name}-{part.label}{which}",
            f"{plot.title}: {part.method}, {part.key['bank']}",
            f"{plot.caption} {about(part, rows)}{_largest(kind, page)}",
            draw_figure(plot, shown, columns, names, height=higher, fewest=1, sharey=one_scale),
        )


def _columns(rows: Sequence[Row]) -> int:
    """Return as many columns as there are shots where that fits, else up to three."""
    shots = len({Condition.of(row).label for row in rows})
    return shots if shots in (2, 3, 4) else min(len(rows), 3)


def _largest(kind: str, page: Sequence[tuple[Row, list[Row]]]) -> str:
    """Name the λ at the end of the trade-off's lines."""
    if kind != "tradeoff":
        return ""
    ends = sorted({_grid(own)[-1]["coefficient"] for _, own in page})
    return f" The largest λ is {' or '.join(map(number, ends))}."


def _panel(row: Row, rows: list[Row], dress: Callable[[Axes], object]) -> Panel:
    return Panel(setting_words(Condition.of(row)), rows, dress)


def _grid(lines: list[Row]) -> list[Row]:
    on_grid = (line for line in lines if not line["theory"])
    return sorted(on_grid, key=lambda line: line["coefficient"])


def _is_curve(lines: list[Row]) -> bool:
    return len({line["coefficient"] for line in lines if not line["theory"]}) > 1


def _is_calibrated(lines: list[Row]) -> bool:
    return _is_curve(lines) and all(line["ece_pooled"] is not None for line in lines)


def _kinds(chosen: Row, lines: list[Row]) -> Iterator[tuple[Row, str]]:
    """Yield the grid in the order of λ, then the theory's line, each with its kind."""
    for line in _grid(lines):
        picked = line["coefficient"] == chosen["coefficient"]
        yield line, "chosen on val" if picked else "of the grid"
    yield from ((line, "theory") for line in lines if line["theory"])


def _curve(chosen: Row, lines: list[Row]) -> Panel:
    coefficients, rows = [line["coefficient"] for line in lines], []
    for line, kind in _kinds(chosen, lines):
        value, half = 100 * line["improvement"], 100 * (line["improvement_ci"] or 0.0)
        ends = {"low": value - half, "high": value + half}
        rows.append({"x": line["coefficient"], "value": value, **ends, "kind": kind, "series": ""})

    def dress(axes: Axes) -> None:
        dress_lambda(axes, coefficients, panel_inches(axes))
        for row in rows:  # the gain below the star: beside large losses it would vanish
            if row["kind"] == "chosen on val":
                words = f"{row['value']:+.1f}" if round(row["value"], 1) else "0"
                place: dict[str, Any] = {"xytext": (0, -7), "textcoords": "offset points"}
                place |= {"ha": "center", "va": "top"}
                axes.annotate(words, (row["x"], row["value"]), color=RED, **place)

    return _panel(chosen, rows, dress)


def _trade(chosen: Row, lines: list[Row]) -> Panel:
    rows = [
        {
            "loss": 100 * line["ece_pooled"],
            "percent": 100 * line["accuracy"],
            "kind": kind,
            "series": "",
        }
        for line, kind in _kinds(chosen, lines)
    ]
    on_grid = [row for row in rows if row["kind"] != "theory"]
    on_grid[0]["end"], on_grid[-1]["end"] = "first", "last"

    def dress(axes: Axes) -> None:
        axes.margins(0.08, 0.12)  # for the marks at the ends
        axes.set_xlabel(PLOTS["tradeoff"].x.paper)

    return _panel(chosen, rows, dress)


def _diagram(chosen: Row, bins: list[Row]) -> Panel:
    before, after = STATES
    rows = [
        {**line, "series": name, "few": line["count"] < _FEW}
        for name, coefficient in ((before, 0.0), (after, chosen["coefficient"]))
        for line in bins
        if line["coefficient"] == coefficient
    ]
    return _panel(chosen, rows, lambda axes: axes.set_xlabel(PLOTS["reliability"].x.paper))


def _changes_any(bins: list[Row]) -> bool:
    """Tell whether the chosen λ changes any trial."""
    return any(line["low"] * line["high"] > 0 for line in bins if not line["theory"])


def _histogram(chosen: Row, bins: list[Row]) -> Panel:
    rows = [
        {
            "low": 100 * line["low"],
            "high": 100 * line["high"],
            "part": 100 * line["count"] / line["trials"],
            "series": "theory λ" if line["theory"] else "chosen λ",
        }
        for line in bins
    ]
    mean, half = 100 * chosen["improvement"], 100 * (chosen["improvement_ci"] or 0.0)

    def dress(axes: Axes) -> None:
        axes.axvline(mean, color="black", linewidth=1, label="mean at the chosen λ")
        band: dict[str, Any] = {"color": "black", "alpha": 0.15, "linewidth": 0}
        axes.axvspan(mean - half, mean + half, label="its 95 % interval", **band)
        axes.set_xlabel(PLOTS["differences"].x.paper)

    return _panel(chosen, rows, dress)
