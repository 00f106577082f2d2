"""Along λ: validation accuracy (Fig A12), and accuracy against calibration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from firthshot.experiments.schema import KEYS
from firthshot.report.figures.axes import LambdaAxis, number, panel_inches
from firthshot.report.figures.grid import Family, draw_settings, one_per_bank
from firthshot.report.figures.labels import label_point
from firthshot.report.figures.series import Row
from firthshot.report.figures.style import BLUE, GREEN, RED, Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from firthshot.report.gather import Gathered

# A val line belongs to a novel one when these agree: a split may lack classes or rows.
_SAME = tuple(name for name in KEYS if name not in ("split", "actual_ways", "query_rule"))

CURVES = Family(
    "lambda",
    "Validation accuracy against λ",
    "Mean accuracy on the validation classes against λ. Star: the λ chosen there (largest mean "
    "accuracy, of equal ones the smallest); diamond: the tuning-free theory value K rank(X)/(2N), "
    "trained beside the grid. Bars: 95 % intervals of the paired difference to λ = 0.",
    "λ",
    "accuracy on\nvalidation classes (%)",
)
TRADE_OFF = Family(
    "tradeoff",
    "Accuracy and calibration along λ",
    "Accuracy against the expected calibration error (ECE, 15 bins pooled over all trials) on the "
    "novel classes; the line follows λ from 0 (hollow circle) to its largest value (labelled). "
    "Star: the λ chosen on the validation classes; diamond: the tuning-free theory value.",
    "ECE on novel classes (%)",
    "accuracy on\nnovel classes (%)",
)


def draw(gathered: Gathered) -> Iterator[Drawing]:
    """Draw validation curves and trade-offs of every bank and method."""
    all_lines = gathered.summary.all
    val, novel = _by_place(all_lines, "val"), _by_place(all_lines, "novel")
    for part in one_per_bank(gathered.summary.chosen):
        curved = [row for row in part.rows if _grid_size(val.get(_place(row), [])) > 1]
        yield from draw_settings(
            CURVES, part, curved, lambda axes, row: _curve(axes, row, val[_place(row)])
        )
        traded = [row for row in part.rows if _calibrated(novel.get(_place(row), []))]
        yield from draw_settings(
            TRADE_OFF, part, traded, lambda axes, row: _trade(axes, row, novel[_place(row)])
        )


def _by_place(frame: pl.DataFrame, split: str) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in frame.filter(pl.col("split") == split, pl.col("accuracy").is_not_null()).to_dicts():
        found.setdefault(_place(row), []).append(row)
    return found


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SAME)


def _grid_size(lines: list[Row]) -> int:
    return len({line["coefficient"] for line in lines if not line["theory"]})


def _calibrated(lines: list[Row]) -> bool:
    return _grid_size(lines) > 1 and all(line["ece_pooled"] is not None for line in lines)


def _parts(lines: list[Row]) -> tuple[list[Row], Row | None]:
    """Return the lines of the grid in the order of λ, and the theory's."""
    grid = sorted(
        (line for line in lines if not line["theory"]), key=lambda line: line["coefficient"]
    )
    return grid, next((line for line in lines if line["theory"]), None)


def _curve(axes: Axes, chosen: Row, lines: list[Row]) -> None:
    grid, theory = _parts(lines)
    axis = LambdaAxis([line["coefficient"] for line in lines])
    places = [axis.place(line["coefficient"]) for line in grid]
    accuracy = [100 * line["accuracy"] for line in grid]
    bars = [100 * (line["improvement_ci"] or 0.0) for line in grid]
    label = "bars: difference to λ = 0, paired"
    look: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 3, "elinewidth": 0.8}
    axes.errorbar(places, accuracy, bars, label=label, **look)
    marks = {line["coefficient"]: line for line in grid}
    star = marks.get(chosen["coefficient"])
    if star:
        _star(axes, axis.place(star["coefficient"]), 100 * star["accuracy"])
    if theory:
        _diamond(axes, axis.place(theory["coefficient"]), 100 * theory["accuracy"])
    axis.dress(axes, panel_inches(axes))


def _star(axes: Axes, x: float, y: float) -> None:
    axes.plot(
        [x], [y], linestyle="none", marker="*", markersize=10, color=RED, zorder=4, label="chosen λ"
    )


def _diamond(axes: Axes, x: float, y: float) -> None:
    axes.plot(
        [x],
        [y],
        linestyle="none",
        marker="D",
        markersize=5,
        color=GREEN,
        markerfacecolor="white",
        markeredgewidth=1.3,
        zorder=5,
        label="theory λ",
    )


def _trade(axes: Axes, chosen: Row, lines: list[Row]) -> None:
    grid, theory = _parts(lines)
    path = [_traded(line) for line in grid]
    stars = [_traded(line) for line in grid if line["coefficient"] == chosen["coefficient"]]
    diamonds = [_traded(theory)] if theory else []
    axes.plot(*zip(*path, strict=True), color=BLUE, marker="o", markersize=3)
    _hollow(axes, *path[0], ring=path[0] in stars)
    for place in stars:
        _star(axes, *place)
    for place in diamonds:
        _diamond(axes, *place)
    axes.margins(0.12, 0.22)
    words = f"λ = {number(grid[-1]['coefficient'])}"
    label_point(axes, words, -1, path, [path[0], *stars, *diamonds])


def _traded(line: Row) -> tuple[float, float]:
    return 100 * line["ece_pooled"], 100 * line["accuracy"]


def _hollow(axes: Axes, x: float, y: float, *, ring: bool) -> None:
    """Mark λ = 0 by a circle, or by a wide ring where a star will stand in it."""
    look: dict[str, Any] = {"linestyle": "none", "marker": "o", "color": BLUE, "zorder": 3}
    axes.plot([x], [y], markersize=6, markerfacecolor="white", label="λ = 0", **look)
    if ring:
        axes.plot([x], [y], markersize=12, markerfacecolor="white", markeredgewidth=0.8, **look)
