"""The plots of a report: what the paper shows, for any run, and some that it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firthshot.report.gather import Gathered
    from firthshot.report.plots.style import Drawing


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

    ``drawn`` is told after each figure how many there are.
    """
    from firthshot.report.listing import write_listing
    from firthshot.report.plots.style import style, write_drawing

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


def drawings(gathered: Gathered, family: str = "") -> Iterator[Drawing]:
    """Draw the figures one after the other; to be called within `style.style`.

    ``family`` is the beginning of the names of those that are wanted.
    """
    from firthshot.report.plots import against, geometric, rope, settings

    families = {
        "geometric": geometric.draw,
        "improvement relative baseline": against.draw,
        "methods unbalanced": against.draw_methods,
        "lambda tradeoff": settings.draw_curves,
        "reliability differences": settings.draw_distributions,
        "rope": rope.draw,
    }
    for names, draw in families.items():
        if any(name.startswith(family.partition("-")[0]) for name in names.split()):
            yield from (one for one in draw(gathered) if one.name.startswith(family))
