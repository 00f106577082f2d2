"""The figures of a report: what the paper shows, for any run, and some that it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firthshot.report.figures.style import Drawing
    from firthshot.report.gather import Gathered


@dataclass(frozen=True)
class FigureFile:
    """A figure on disk: what it is called, what it says, and its files by format."""

    name: str
    title: str
    caption: str
    paths: dict[str, Path]


def write_figures(
    gathered: Gathered, folder: Path, drawn: Callable[[int], None] | None = None
) -> list[FigureFile]:
    """Draw every figure for which the runs have data, as SVG, PDF and PNG.

    Parameters
    ----------
    gathered : Gathered
    folder : Path
        Made where it is not there.
    drawn : callable, optional
        Told after each figure how many there are.
    """
    from firthshot.report.figures.style import style, write_drawing
    from firthshot.report.listing import write_listing

    files = []
    with style():
        for drawing in drawings(gathered):
            paths = write_drawing(drawing, folder)
            files.append(FigureFile(drawing.name, drawing.title, drawing.caption, paths))
            if drawn is not None:
                drawn(len(files))
    written = [path.name for file in files for path in file.paths.values()]
    write_listing(folder, {file.title: file.caption for file in files}, written)
    return files


def drawings(gathered: Gathered) -> Iterator[Drawing]:
    """Draw the figures one after the other; to be called within `style.style`."""
    from firthshot.report.figures import curves, geometric, improvement, methods, reliability, rope

    for family in (geometric, improvement, methods, curves, reliability, rope):
        yield from family.draw(gathered)
