"""One style for all figures: colours, sizes, axes, and equal files for equal data."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from firthshot.figures import (
    COLOURS,
    METADATA,
    ONE_COLUMN,
    PNG_DPI,
    TWO_COLUMNS,
    house_style,
)
from firthshot.files import write_whole, writing_to

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_PLACES: dict[str, int] = {}  # series whose place among the colours is settled

PANEL_HEIGHT = 2.3
FORMATS = ("svg", "pdf", "png")


@dataclass(frozen=True)
class Drawing:
    """A figure before it is written."""

    name: str  # of its files, without ending
    # ``caption`` says what is shown, on what, and what the bars are
    title: str
    caption: str
    figure: Figure


def look_of(series: str, at: int) -> tuple[str, str]:
    """Return colour and marker of a series, by its settled place or else by its number."""
    at = _PLACES.get(series, at)
    return COLOURS[at % len(COLOURS)], MARKERS[at % len(MARKERS)]


@contextmanager
def style(series: Sequence[str] = ()) -> Iterator[None]:
    """Draw and write figures in this style; nothing global stays changed.

    The named series have the same colour and marker in every figure, whichever others it has.
    """
    _PLACES.update({name: at for at, name in enumerate(series)})
    try:
        with house_style():
            yield
    finally:
        _PLACES.clear()


def panels(
    rows: int, columns: int, *, height: float = PANEL_HEIGHT, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a grid of axes, row by row; one column wide if there is one panel."""
    width = ONE_COLUMN if columns == 1 else TWO_COLUMNS
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, [axes for line in grid for axes in line]


def write_drawing(drawing: Drawing, folder: Path) -> dict[str, Path]:
    """Write a figure in all formats, each file whole or not at all; return paths by format."""
    rendered = _rendered(drawing.figure)
    paths = {kind: folder / f"{drawing.name}.{kind}" for kind in rendered}
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for kind, content in rendered.items():
            write_whole(paths[kind], content)
    return paths


def _rendered(figure: Figure) -> dict[str, bytes]:
    """Return a figure in all formats.

    The canvases are called themselves: ``savefig`` would lay the figure out and draw it twice for
    each of them.
    """
    figure.draw_without_rendering()  # lays it out
    figure.set_layout_engine("none")
    buffers = {kind: io.BytesIO() for kind in FORMATS}
    FigureCanvasSVG(figure).print_svg(buffers["svg"], metadata=METADATA["svg"])
    FigureCanvasPdf(figure).print_pdf(buffers["pdf"], metadata=METADATA["pdf"])
    figure.set_dpi(PNG_DPI)  # the other two set it to 72
    FigureCanvasAgg(figure).print_png(buffers["png"], metadata=METADATA["png"])
    return {kind: buffer.getvalue() for kind, buffer in buffers.items()}


def legend_above(figure: Figure, fewest: int = 2) -> None:
    """Put one legend above all panels, where it hides nothing, in as many columns as fit.

    With fewer than ``fewest`` names there is none: a single series needs no name.
    """
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    if len(found) < fewest:
        return
    letters = max(map(len, found)) + 7
    fit = max(1, int(figure.get_figwidth() * 19 / letters))
    figure.legend(
        list(found.values()),
        list(found),
        loc="outside upper center",
        ncols=min(fit, len(found)),
        columnspacing=1.2,
    )


_LETTER = 0.068  # width of a letter of a tick label, inches


def number(value: float) -> str:
    """Return a coefficient as people write it."""
    return f"{value:.4g}" if value < 1e4 else f"{value:.0f}" if value < 1e6 else f"{value:.0e}"


def dress_lambda(axes: Axes, coefficients: Sequence[float], inches: float) -> None:
    """Make an axis of λ logarithmic, with a place for λ = 0, and ticks at powers of ten."""
    positive = [value for value in coefficients if value > 0] or [1.0]
    low, high = math.log10(min(positive)), math.log10(max(positive))
    axes.set_xscale("symlog", linthresh=min(positive), linscale=max(0.22 * (high - low), 0.5))
    powers = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
    ticks = [0.0] if 0 in coefficients else []
    ticks += [10.0**power for power in powers] or [min(positive)]
    places = axes.xaxis.get_transform().transform(np.array(ticks))
    axes.set_xticks(ticks, thinned(list(places), [number(tick) for tick in ticks], inches))
    axes.set_xlabel("λ")


def dress_counts(axes: Axes, values: Sequence[int], label: str, inches: float) -> None:
    """Set the ticks of an axis of shots or ways at its values; logarithmic where they span much."""
    axes.set_xlabel(label)
    logarithmic = len(values) > 2 and label == "ways" and max(values) > 8 * min(values)
    if logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    places = [math.log(value) if logarithmic else float(value) for value in values]
    axes.set_xticks(values, thinned(places, [str(value) for value in values], inches))


def dodged(values: Sequence[int], at: int, among: int, logarithmic: bool = False) -> list[float]:
    """Shift a series sideways so that its bars do not hide those of the others."""
    if len(values) < 2:
        return [value + 0.1 * (at - (among - 1) / 2) for value in values]
    shift = 0.011 * (at - (among - 1) / 2)
    if logarithmic:
        return [value * (max(values) / min(values)) ** shift for value in values]
    return [value + shift * (max(values) - min(values)) for value in values]


def thinned(places: Sequence[float], names: Sequence[str], inches: float) -> list[str]:
    """Blank the labels that would touch the one before on an axis of this length."""
    span = (max(places) - min(places)) or 1.0
    out, free = [], -math.inf
    for place, name in zip(places, names, strict=True):
        middle = (place - min(places)) / span * inches * 0.9
        half = len(name) * _LETTER / 2
        fits = middle - half >= free
        out.append(name if fits else "")
        free = middle + half + 0.04 if fits else free
    return out


def panel_inches(axes: Axes) -> float:
    """Return about how wide the inside of a panel is."""
    figure, place = axes.get_figure(), axes.get_subplotspec()
    columns = place.get_gridspec().ncols if place else 1
    return float(figure.bbox.width / figure.dpi / columns - 0.55) if figure else 1.0
