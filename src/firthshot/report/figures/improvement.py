"""Against shots and ways: improvement (Figs 2, 4, A6, A7, A11, A13), relative (A8), baseline (A9).

Several banks are drawn as series, with a panel for each number of ways (or shots); for a single
bank the ways (or shots) are the series.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firthshot.experiments.statistics import ALPHA
from firthshot.report.figures.axes import dodged, dress_counts, panel_inches
from firthshot.report.figures.series import (
    CHOSEN,
    Group,
    Row,
    about,
    distinct,
    drawn_words,
    group,
    method_name,
)
from firthshot.report.figures.style import (
    GREY,
    Drawing,
    legend_above,
    look,
    panels,
    shortened,
    zero_line,
)
from firthshot.report.verdict import Condition
from firthshot.report.wording import head_name

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

    from firthshot.report.gather import Gathered


@dataclass(frozen=True)
class Quantity:
    """What is drawn upwards: its name, how it comes from a line of ``chosen``, and its words."""

    name: str
    label: str
    title: str
    words: str
    bars: str
    about_zero: bool = True

    def value(self, row: Row) -> tuple[float, float]:
        """Return value and half-width in per cent."""
        if self.name == "baseline":
            value, width = row["base_accuracy"], row["base_accuracy_ci"]
        else:
            value, width = row["improvement"], row["improvement_ci"]
        # As in the paper, the baseline counts as exact where the improvement is divided by it.
        scale = row["base_accuracy"] if self.name == "relative" else 1.0
        return 100 * value / scale, 100 * (width or 0.0) / scale


IMPROVEMENT = Quantity(
    "improvement",
    "improvement (points)",
    "Improvement",
    "Accuracy with {method} minus accuracy without (λ = 0)",
    "95 % intervals of the paired difference over trials",
)
RELATIVE = Quantity(
    "relative",
    "relative improvement (%)",
    "Relative improvement",
    "Improvement by {method} divided by the accuracy without (λ = 0)",
    "95 % intervals of the paired difference, divided by the same accuracy",
)
BASELINE = Quantity(
    "baseline",
    "accuracy at λ = 0 (%)",
    "Baseline accuracy",
    "Accuracy without penalty (λ = 0) on the novel classes",
    "95 % intervals over trials",
    about_zero=False,
)
_WITHOUT_PENALTY = ("head", "solver", "transform", "source", "artificial", "l2")
_ZERO = "λ = 0 chosen"


def draw(gathered: Gathered) -> Iterator[Drawing]:
    """Draw improvement, relative improvement and baseline against shots and against ways."""
    chosen = gathered.summary.chosen
    for part in group(chosen):
        for x in ("shots", "ways"):
            if rows := drawable(part.rows, x):
                yield _against(part, rows, x, IMPROVEMENT)
        x = main_axis(part.rows)
        if (rows := drawable(part.rows, x)) and _relative(rows):
            yield _against(part, rows, x, RELATIVE)
    for part in _baselines(chosen):
        x = main_axis(part.rows)
        if rows := drawable(part.rows, x):
            yield _against(part, rows, x, BASELINE)


def marks_words(what: str, rows: Sequence[Row]) -> str:
    """Say what filled, hollow and crossed marks mean, as far as they occur."""
    filled = f"Filled {what}: significant after Holm's correction (p < {ALPHA:g})."
    crosses = " Crosses: λ = 0 was chosen, nothing is changed and nothing tested."
    return filled + (crosses if any(map(left_out, rows)) else "")


def left_out(row: Row) -> bool:
    """Tell whether the chosen coefficient is 0: that is no null result."""
    return bool(row["coefficient"] == 0)


def draw_left_out(axes: Axes, places: Sequence[float], colour: str) -> None:
    """Mark settings whose chosen coefficient is 0 by crosses on the line of no improvement."""
    axes.plot(
        places, [0.0] * len(places), linestyle="none", marker="x", markersize=4.5, color=colour,
        markeredgewidth=1.2, zorder=4,
    )  # fmt: skip
    # The legend shows it in a colour of no series.
    axes.plot([], [], linestyle="none", marker="x", markersize=4.5, color=GREY, label=_ZERO)


def main_axis(rows: Sequence[Row]) -> str:
    """Return ways where the run has more of them than balanced shots, else shots."""
    balanced = [row for row in rows if row["shots_scheme"] == "balanced"]
    more = len(distinct(balanced, "ways")) > len(distinct(balanced, "shots"))
    return "ways" if more else "shots"


def drawable(rows: Sequence[Row], x: str) -> list[Row]:
    """Return the lines with balanced shots, where there are several values along ``x``.

    A group with one number of ways and one of shots is drawn against shots, that it is drawn.
    """
    balanced = [row for row in rows if row["shots_scheme"] == "balanced"]
    counts = {name: len(distinct(balanced, name)) for name in ("shots", "ways")}
    alone = x == "shots" and counts == {"shots": 1, "ways": 1}
    return balanced if counts[x] > 1 or alone else []


def _relative(rows: Sequence[Row]) -> bool:
    """Tell whether there is a relative improvement to be drawn."""
    return all(row["base_accuracy"] for row in rows) and any(row["improvement"] for row in rows)


def _baselines(chosen: pl.DataFrame) -> Iterator[Group]:
    """Return the lines of each head, a place once: at λ = 0 the penalty does not matter."""
    for part in group(chosen, _WITHOUT_PENALTY):
        places = {(row["bank"], Condition.of(row)): row for row in part.rows}
        yield Group(part.key, tuple(places.values()), part.label)


def _against(part: Group, rows: list[Row], x: str, what: Quantity) -> Drawing:
    figure = _figure(rows, x, what)
    words = what.words
    if what.about_zero:
        words = words.format(method=method_name(part.key))
    note = f" {CHOSEN} {marks_words('markers', rows)}" if what.about_zero else ""
    caption = f"{words}, against {x}. {about(part, rows)}{note} Bars: {what.bars}."
    head = f"{head_name(part.key['head'])} head{drawn_words(part.key)}"
    who = part.method if what.about_zero else head
    return Drawing(f"{what.name}-{x}-{part.label}", f"{what.title}: {who}", caption, figure)


def _figure(rows: list[Row], x: str, what: Quantity) -> Any:
    panel_of, series_of = layout(rows, x)
    values = distinct(rows, panel_of) if panel_of else [None]
    columns = min(len(values), 3)
    figure, all_axes = panels(-(-len(values) // columns), columns, sharey=True)
    names = distinct(rows, series_of)
    for axes, value in zip(all_axes, values, strict=False):
        shown = [row for row in rows if panel_of is None or row[panel_of] == value]
        draw_panel(axes, shown, x, what, names, series_of)
        if panel_of:
            axes.set_title(in_words(panel_of, value))
    for axes in all_axes[len(values) :]:
        axes.set_visible(False)
    for axes in all_axes[::columns]:
        axes.set_ylabel(what.label)
    legend_above(figure)
    return figure


def layout(rows: Sequence[Row], x: str) -> tuple[str | None, str]:
    """Return which column makes panels and which makes series."""
    other = "ways" if x == "shots" else "shots"
    if len(distinct(rows, "bank")) == 1:
        return None, other
    return (other if len(distinct(rows, other)) > 1 else None), "bank"


def in_words(column: str, value: Any) -> str:
    """Return a panel's or a series' name."""
    if column == "bank":
        return str(value)
    return f"{value} {column if value != 1 else column.removesuffix('s')}"


def draw_panel(
    axes: Axes, rows: list[Row], x: str, what: Quantity, names: list[Any], series_of: str
) -> None:
    """Draw every series of a panel, in the order and with the looks of ``names``."""
    values = sorted(distinct(rows, x))
    logarithmic = x == "ways" and len(values) > 2 and max(values) > 8 * min(values)
    for at, name in enumerate(names):
        mine = sorted((row for row in rows if row[series_of] == name), key=lambda row: row[x])
        if not mine:
            continue
        places = dict(zip(values, dodged(values, at, len(names), logarithmic), strict=True))
        _draw_series(axes, mine, x, places, what, at, shortened(in_words(series_of, name)))
    if what.about_zero:
        zero_line(axes)
    dress_counts(axes, values, x, panel_inches(axes))


def _draw_series(
    axes: Axes,
    rows: list[Row],
    x: str,
    places: dict[int, float],
    what: Quantity,
    at: int,
    label: str,
) -> None:
    across = [places[row[x]] for row in rows]
    values, widths = zip(*map(what.value, rows), strict=True)
    style = look(at)
    crossed = [what.about_zero and left_out(row) for row in rows]
    marked = [at for at, out in enumerate(crossed) if not out]
    bars = [math.nan if out else width for width, out in zip(widths, crossed, strict=True)]
    axes.errorbar(across, values, bars, label=label, elinewidth=0.8, markevery=marked, **style)
    if any(crossed):
        draw_left_out(
            axes, [x for x, out in zip(across, crossed, strict=True) if out], style["color"]
        )
    hollow = [at for at in marked if what.about_zero and not rows[at]["p_holm"] < ALPHA]
    if hollow:
        axes.plot(
            [across[at] for at in hollow],
            [values[at] for at in hollow],
            linestyle="none",
            marker=style["marker"],
            color=style["color"],
            markerfacecolor="white",
            zorder=3,
        )
