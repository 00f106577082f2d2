"""Draw the declared plots with matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from firthshot.figures import GREY
from firthshot.report.plots.declare import BLUE, RED, Look, Mark, Plot, Row
from firthshot.report.plots.style import legend_above, look_of, panels

_DASHED: dict[str, Any] = {"color": GREY, "linewidth": 0.7, "linestyle": (0, (4, 2)), "zorder": 0}
_HATCHES = ("", "////", "....", "xxxx")
_STRIP = 0.22  # height of the histogram of confidences below a diagram
STATES = {"before (λ = 0)": (BLUE, "o", 4.5), "after (chosen λ)": (RED, "s", 2.8)}


@dataclass(frozen=True)
class Panel:
    """A panel of a figure: its title, its rows, and what dresses its axes."""

    title: str
    rows: list[Row]
    dress: Callable[[Axes], object]


@dataclass(frozen=True)
class _Series:
    name: str
    rows: list[Row]
    colour: str
    marker: str
    size: float = 4.0
    at: int = 0

    def column(self, name: str) -> Any:
        return np.array([row[name] for row in self.rows], float)


def draw_figure(
    plot: Plot,
    shown: Sequence[Panel],
    columns: int,
    names: Sequence[str] = ("",),
    *,
    height: float | None = None,
    fewest: int = 2,
    **options: Any,
) -> Figure:
    """Draw panels row by row, with one legend above them all.

    ``names`` are the series in their order, the same in every panel.
    """
    size = {} if height is None else {"height": height}
    figure, all_axes = panels(-(-len(shown) // columns), columns, **size, **options)
    for at, (axes, panel) in enumerate(zip(all_axes, shown, strict=False)):
        draw_panel(axes, plot, panel.rows, names)
        panel.dress(axes)
        axes.set_title(panel.title)
        axes.set_ylabel(plot.y.paper if at % columns == 0 else "")
        if options.get("sharex") or not options.get("sharey"):
            axes.set_xlabel(axes.get_xlabel() if at + columns >= len(shown) else "")
    for axes in all_axes[len(shown) :]:
        axes.set_visible(False)
    legend_above(figure, fewest)
    return figure


def draw_panel(axes: Axes, plot: Plot, rows: Sequence[Row], names: Sequence[str]) -> None:
    """Draw the marks of a plot, series by series."""
    for at, name in enumerate(names):
        own = [row for row in rows if row["series"] == name]
        look = STATES.get(name, (*look_of(name, at), 4.0))
        if own:
            for mark in plot.marks:
                if mark.kind in _MARKS and "paper" in mark.on:
                    some = [row for row in own if not (mark.on_grid and row["kind"] == "theory")]
                    _MARKS[mark.kind](axes, plot, mark, _Series(name, some, *look, at))
    for mark in plot.marks:
        if mark.kind == "zero":
            (axes.axvline if plot.x.column == "low" else axes.axhline)(0, **_DASHED)
        elif mark.kind == "diagonal":
            axes.plot([0, 1], [0, 1], **_DASHED)
        elif "paper" in mark.on:
            _name_looks(axes, mark, rows)
    if any(row.get("hollow") for row in rows):
        _name_fillings(axes)


def _line(axes: Axes, plot: Plot, _: Mark, own: _Series) -> None:
    """Draw the line; its markers are points of their own, but the legend shows them here."""
    look: dict[str, Any] = {"color": own.colour, "marker": own.marker, "markersize": own.size}
    axes.plot(
        own.column(plot.x.column), own.column(plot.y.column), markevery=[], label=own.name, **look
    )


def _interval(axes: Axes, plot: Plot, mark: Mark, own: _Series) -> None:
    """Draw bars; a band between few values of λ would tell of values between them."""
    value = own.column(plot.y.column)
    ends = [value - own.column(mark.low), own.column(mark.high) - value]
    colour = "black" if any(mark.kind == "columns" for mark in plot.marks) else own.colour
    look: dict[str, Any] = {"fmt": "none", "ecolor": colour, "elinewidth": 0.8, "zorder": 2.5}
    axes.errorbar(own.column(plot.x.column), value, ends, **look)


def _points(axes: Axes, plot: Plot, mark: Mark, own: _Series) -> None:
    plain = Look("", 0, size=own.size)
    columns = any(mark.kind == "columns" for mark in plot.marks)
    for row in own.rows:
        look = mark.looks.get(row.get(mark.by, "")) if mark.looks else plain
        if look is None or (columns and not look.name):  # columns say it
            continue
        style = _style(look, own.colour, own.marker, look.hollow or row.get("hollow", False))
        if row.get("few"):
            style["markersize"] = 1.5
        axes.plot(row[plot.x.column], row[plot.y.column], **style)


def _style(look: Look, colour: str, marker: str = "o", hollow: bool = False) -> dict[str, Any]:
    colour = look.colour or colour
    style = {"linestyle": "none", "marker": look.marker or marker, "color": colour, "zorder": 3}
    style |= {"markerfacecolor": "white" if hollow else colour, "markersize": look.size}
    bold = {"zorder": 4, "markeredgewidth": 1.2}
    return {**style, **bold} if look.marker in ("*", "D", "x") else style


def _name_looks(axes: Axes, mark: Mark, rows: Sequence[Row]) -> None:
    """Name the looks that occur in the legend, in a colour of no series."""
    for kind, look in mark.looks.items():
        if look.name and any(row.get(mark.by) == kind for row in rows):
            axes.plot([], [], label=look.name, **_style(look, GREY, hollow=look.hollow))


def _name_fillings(axes: Axes) -> None:
    """Say in the legend what filled and hollow marks mean."""
    for name, face in (("significant", GREY), ("not significant", "white")):
        look: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 4, "color": GREY}
        axes.plot([], [], label=name, markerfacecolor=face, **look)


def _columns(axes: Axes, plot: Plot, _: Mark, own: _Series) -> None:
    """Draw the bars of a method, hollow where they are not significant."""
    hatch = _HATCHES[own.at % len(_HATCHES)]
    filled: dict[str, Any] = {"color": own.colour, "edgecolor": "white", "linewidth": 0}
    hollow: dict[str, Any] = {"facecolor": "white", "edgecolor": own.colour, "linewidth": 0.9}
    axes.bar(0, 0, 0, label=own.name, hatch=hatch, **filled)  # the legend shows a filled one
    for row in (row for row in own.rows if row["use"] == "λ > 0"):
        look = hollow if row["hollow"] else filled
        axes.bar(row[plot.x.column], row[plot.y.column], row["width"], hatch=hatch, **look)
        top = max(row["high"], 0.0)  # above the interval, so that small bars are read too
        look = {"textcoords": "offset points", "ha": "center", "fontsize": 6}
        words = f"{row[plot.y.column]:+.1f}"
        axes.annotate(words, (row[plot.x.column], top), xytext=(0, 2), **look)


def _strip(axes: Axes, _plot: Plot, _: Mark, own: _Series) -> None:
    """Draw the shares of the bins of confidence as steps below the diagram."""
    counts = {row["bin"]: row["count"] for row in own.rows}
    bottom, largest = -_STRIP - 0.04, max(counts.values())
    heights = [bottom + _STRIP * counts.get(bin_, 0) / largest for bin_ in range(15)]
    edges = [bin_ / 15 for bin_ in range(16)]
    axes.stairs(heights, edges, baseline=bottom, color=own.colour, linewidth=0.8)
    axes.stairs(heights, edges, baseline=bottom, color=own.colour, alpha=0.15, fill=True)
    axes.set(xlim=(-0.02, 1.02), ylim=(bottom - 0.02, 1.07), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])


def _bars(axes: Axes, _plot: Plot, _: Mark, own: _Series) -> None:
    """Draw a histogram, whose empty bins are left out of the rows: filled, or as an outline."""
    first, width = own.rows[0]["low"], own.rows[0]["high"] - own.rows[0]["low"]
    places = [round((row["low"] - first) / width) for row in own.rows]
    heights = [0.0] * (max(places) + 1)
    for place, row in zip(places, own.rows, strict=True):
        heights[place] = row["part"]
    edges = [first + at * width for at in range(len(heights) + 1)]
    look: dict[str, Any] = {"alpha": 0.55, "fill": True} if own.at == 0 else {"linewidth": 1.0}
    axes.stairs(heights, edges, color=own.colour, label=own.name, **look)
    axes.set_ylim(bottom=0)


_MARKS = {
    "line": _line,
    "interval": _interval,
    "band": _interval,
    "points": _points,
    "columns": _columns,
    "strip": _strip,
    "bars": _bars,
}
