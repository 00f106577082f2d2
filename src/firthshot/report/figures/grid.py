"""Small panels, one per number of ways and shots, for one bank and method at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from firthshot.report.figures.series import TRAINED, Group, Row, about, group
from firthshot.report.figures.style import Drawing, legend_above, panels
from firthshot.report.verdict import Condition
from firthshot.report.wording import setting_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PANELS = 12  # per figure: a page


@dataclass(frozen=True)
class Family:
    """A kind of figure made of small panels: its name, title, caption, labels and panel height."""

    name: str
    title: str
    caption: str
    across: str
    upwards: str
    height: float = 1.8


DrawPanel = Callable[["Axes", Row], None]  # draws one line of ``chosen``


def one_per_bank(chosen: pl.DataFrame) -> list[Group]:
    """Return the lines of ``chosen`` by bank and method: a figure each."""
    return group(chosen, (*TRAINED, "bank"))


def draw_settings(
    family: Family, part: Group, rows: Sequence[Row], draw_panel: DrawPanel
) -> Iterator[Drawing]:
    """Draw a panel for each of these lines of ``chosen``, on as many figures as needed."""
    ordered = sorted(rows, key=Condition.of)
    pages = [ordered[at : at + MOST_PANELS] for at in range(0, len(ordered), MOST_PANELS)]
    for number, page in enumerate(pages, 1):
        which = f"-{number}" if len(pages) > 1 else ""
        yield Drawing(
            f"{family.name}-{part.label}{which}",
            f"{family.title}: {part.method}, {part.key['bank']}",
            f"{family.caption} {about(part, page)}",
            _page(family, page, draw_panel),
        )


def _page(family: Family, rows: Sequence[Row], draw_panel: DrawPanel) -> Any:
    columns = _columns(rows)
    lines = -(-len(rows) // columns)
    height = family.height * (1.15 if columns == 1 else 1.0)
    figure, all_axes = panels(lines, columns, height=height)
    for axes, row in zip(all_axes, rows, strict=False):
        draw_panel(axes, row)
        axes.set_title(setting_words(Condition.of(row)))
    for axes in all_axes[len(rows) :]:
        axes.set_visible(False)
    for axes in all_axes[::columns]:
        axes.set_ylabel(family.upwards)
    for at, axes in enumerate(all_axes[: len(rows)]):
        lowest = at + columns >= len(rows)
        axes.set_xlabel(family.across if lowest else "")
    legend_above(figure, fewest=1)
    return figure


def _columns(rows: Sequence[Row]) -> int:
    """Return as many columns as there are shots where that fits, else up to three."""
    shots = len({Condition.of(row).label for row in rows})
    return shots if shots in (2, 3, 4) else min(len(rows), 3)
