"""The plots of a report: what ``plots.toml`` says of each, once for page and paper.

`paper` draws them with matplotlib, `vega` writes them as Vega-Lite for the page.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec

Row = dict[str, Any]


class Look(msgspec.Struct, frozen=True):
    """How a kind of point looks: shape and area on the page; marker, size and name on paper.

    Without a marker it has that of its series, without a colour the series' own.
    """

    shape: str
    area: int
    marker: str = ""
    size: float = 4.0
    colour: str = ""
    hollow: bool = False
    name: str = ""


class Mark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A layer of a plot."""

    kind: str  # zero, diagonal, line, interval, band, points, bars, columns, strip or tag
    # fields of the ends of intervals, bands and bars
    low: str = "low"
    high: str = "high"
    by: str = ""  # field whose value chooses a `Look`
    on_grid: bool = False  # leave out the theory's λ
    on: tuple[str, ...] = ("page", "paper")  # where it is drawn
    look: dict[str, Any] = {}  # options of the Vega-Lite mark

    @property
    def looks(self) -> dict[str, Look]:
        """Return the looks that its field chooses from."""
        return _DECLARED.looks.get(self.by, {})


class Axis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An axis: its column, title (of the page, and of paper where that differs), and scale.

    ``scale`` is number, share (0 to 1), labelled (named ticks, which the page's script knows) or
    names (one line per name).
    """

    column: str
    title: str
    paper: str = ""
    scale: str = "number"
    options: dict[str, Any] = {}


class Plot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plot: what it shows along which fields, and what a point tells."""

    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    hints: dict[str, str] = {}
    series: str = "series"  # or "states": without penalty, chosen λ, theory λ
    panel: str = ""
    title: str = ""
    caption: str = ""


class Quantity(msgspec.Struct, frozen=True):
    """What is drawn upwards against shots and ways: labels and words."""

    label: str
    title: str
    words: str
    bars: str


class _Declared(msgspec.Struct, frozen=True):
    looks: dict[str, dict[str, Look]]
    plots: dict[str, Plot]
    quantities: dict[str, Quantity]


_TEXT = Path(__file__).with_name("plots.toml").read_text("utf-8")
_DECLARED = msgspec.convert(tomllib.loads(_TEXT), _Declared)
PLOTS, QUANTITIES = _DECLARED.plots, _DECLARED.quantities
CHARTS = ("improvement", "path", "tradeoff", "reliability", "differences", "contrasts")
BLUE, RED, GREEN = "#0072B2", "#D55E00", "#009E73"
