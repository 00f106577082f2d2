"""One style for all figures: colours, sizes, and files that are the same for the same data."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firthshot.errors import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people with any colour vision tell apart; each with a marker.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY = "#666666"

ONE_COLUMN, TWO_COLUMNS = 3.3, 6.9  # inches
PANEL_HEIGHT = 2.3
FORMATS = ("svg", "pdf", "png")
PNG_DPI = 200

_RC: dict[str, Any] = {
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica", "sans-serif"],
    "font.size": 7.5,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.unicode_minus": True,
    "axes.formatter.useoffset": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "errorbar.capsize": 1.5,
    "figure.facecolor": "white",
    "text.usetex": False,
    "text.parse_math": False,  # a bank may be called a$b$c
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "firthshot",
    "pdf.fonttype": 42,
}
# No dates: equal data give equal files.
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "firthshot"},
    "pdf": {"CreationDate": None, "Creator": "firthshot", "Producer": "matplotlib"},
    "png": {"Software": "firthshot"},
}


@dataclass(frozen=True)
class Drawing:
    """A figure before it is written.

    Attributes
    ----------
    name : str
        Of its files, without ending.
    title, caption : str
        ``caption`` says what is shown, on what, and what the bars are.
    figure : matplotlib Figure
    """

    name: str
    title: str
    caption: str
    figure: Figure


@contextmanager
def style() -> Iterator[None]:
    """Draw and write figures in this style; nothing global stays changed."""
    import matplotlib as mpl

    with warnings.catch_warnings():
        # A letter that the font lacks is a box in PNG and PDF and right in SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(_RC)
            yield


def panels(
    rows: int, columns: int, *, height: float = PANEL_HEIGHT, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a grid of axes, row by row; one column wide if there is one panel."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as MplFigure

    width = ONE_COLUMN if columns == 1 else TWO_COLUMNS
    figure = MplFigure(figsize=(width, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, [axes for line in grid for axes in line]


def write_drawing(drawing: Drawing, folder: Path) -> dict[str, Path]:
    """Write a figure in all formats, each file whole or not at all; return paths by format."""
    from firthshot.files import raise_clearly, write_whole

    paths = {}
    for kind, content in _rendered(drawing.figure).items():
        paths[kind] = folder / f"{drawing.name}.{kind}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(paths[kind], content)
        except OSError as error:
            raise_clearly(error, folder)
    return paths


def _rendered(figure: Figure) -> dict[str, bytes]:
    """Return a figure in all formats.

    The canvases are called themselves: ``savefig`` would lay the figure out and draw it twice for
    each of them.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    figure.draw_without_rendering()  # lays it out
    figure.set_layout_engine("none")
    buffers = {kind: io.BytesIO() for kind in FORMATS}
    FigureCanvasSVG(figure).print_svg(buffers["svg"], metadata=_METADATA["svg"])
    FigureCanvasPdf(figure).print_pdf(buffers["pdf"], metadata=_METADATA["pdf"])
    figure.set_dpi(PNG_DPI)  # the other two set it to 72
    FigureCanvasAgg(figure).print_png(buffers["png"], metadata=_METADATA["png"])
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


def shortened(text: str, length: int = 28) -> str:
    """Return a name that fits into a legend: the middle of a long one is left out."""
    text, half = visible(text), (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"
