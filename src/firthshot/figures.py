"""The look of every figure: colours, sizes, and equal files for equal data."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firthshot.errors import FirthshotError, visible
from firthshot.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people with any colour vision tell apart; each with a marker.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
GREY = "#666666"
ONE_COLUMN, TWO_COLUMNS = 3.3, 6.9  # inches
PNG_DPI = 200

_STYLE = Path(__file__).with_name("house.mplstyle")
# No dates: equal data give equal files.
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "firthshot"},
    "pdf": {"CreationDate": None, "Creator": "firthshot", "Producer": "matplotlib"},
    "png": {"Software": "firthshot"},
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in this style; nothing global stays changed."""
    import matplotlib as mpl

    with warnings.catch_warnings():
        # A letter that the font lacks is a box in PNG and PDF and right in SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(mpl.rc_params_from_file(_STYLE, use_default_template=False))
            yield


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure whole or not at all, as PNG, SVG or PDF by the ending of its name."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in METADATA:
        raise FirthshotError(f"{path} is no figure: choose a name that ends in .png, .svg or .pdf.")
    with house_style(), replacing(path) as temporary:
        figure.savefig(temporary, dpi=PNG_DPI, format=kind, metadata=METADATA[kind])


def shortened(text: str, length: int = 28) -> str:
    """Return a name that fits into a figure: the middle of a long one is left out."""
    text, half = visible(text), (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"
