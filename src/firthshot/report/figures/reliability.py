"""Reliability diagrams before and after, and the distribution of per-trial differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from firthshot.experiments.schema import SPLITLESS
from firthshot.report.figures.grid import Family, draw_settings, one_per_bank
from firthshot.report.figures.series import Row
from firthshot.report.figures.style import BLUE, GREY, RED, Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from firthshot.report.gather import Gathered

_STRIP = 0.22  # height of the histogram of confidences below a diagram

RELIABILITY = Family(
    "reliability",
    "Reliability before and after",
    "Share of correct predictions against mean confidence on the novel classes, in 15 bins of "
    "confidence pooled over all trials; on the dashed line, confidence is right. Before: λ = 0; "
    "after: the λ chosen on the validation classes. The steps below show how the predictions "
    "spread over the bins (shares of all, each scaled to the largest); bins with fewer than 50 "
    "predictions have small markers.",
    "confidence",
    "share correct",
    height=2.1,
)
DIFFERENCES = Family(
    "differences",
    "Per-trial differences",
    "Distribution over trials of the accuracy at the chosen λ minus that at λ = 0 of the same "
    "trial, on the novel classes (bars). Step line: the same at the theory value, where it was "
    "trained. Dashed: no difference; solid: the mean, with its 95 % interval.",
    "difference (points)",
    "share of trials (%)",
)
_FEW = 50


def draw(gathered: Gathered) -> Iterator[Drawing]:
    """Draw both kinds for every bank and method."""
    parts = one_per_bank(gathered.summary.chosen)
    if not parts:
        return
    bins = _by_method(gathered.bins.filter(pl.col("split") == "novel", ~pl.col("theory")))
    differences = _by_method(gathered.differences)
    for part in parts:
        binned = [row for row in part.rows if bins.get(_method(row))]
        yield from draw_settings(
            RELIABILITY, part, binned, lambda axes, row: _diagram(axes, row, bins[_method(row)])
        )
        varied = [row for row in part.rows if _vary(differences.get(_method(row), []))]
        yield from draw_settings(
            DIFFERENCES,
            part,
            varied,
            lambda axes, row: _histogram(axes, row, differences[_method(row)]),
        )


def _by_method(frame: pl.DataFrame) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in frame.to_dicts():
        found.setdefault(_method(row), []).append(row)
    return found


def _method(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in SPLITLESS)


def _vary(bins: list[Row]) -> bool:
    """Tell whether the chosen λ changes any trial."""
    return any(line["low"] * line["high"] > 0 for line in bins if not line["theory"])


def _diagram(axes: Axes, chosen: Row, bins: list[Row]) -> None:
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.7, linestyle=(0, (4, 2)), zorder=0)
    coefficients = {"before (λ = 0)": 0.0, "after (chosen λ)": chosen["coefficient"]}
    # Before is drawn larger: where the chosen λ is 0, both lie on one another.
    looks = {"before (λ = 0)": (BLUE, "o", 4.5), "after (chosen λ)": (RED, "s", 2.8)}
    for label, coefficient in coefficients.items():
        mine = [b for b in bins if b["coefficient"] == coefficient and b["count"]]
        _reliability(axes, mine, *looks[label], label)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-_STRIP - 0.06, 1.07)
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.5, 1])


def _reliability(
    axes: Axes, bins: list[Row], colour: str, marker: str, size: float, label: str
) -> None:
    counts = [b["count"] for b in bins]
    confidence = [b["confidence_sum"] / b["count"] for b in bins]
    correct = [b["correct_sum"] / b["count"] for b in bins]
    axes.plot(confidence, correct, color=colour, marker=marker, markersize=size, label=label)
    small = [(x, y) for x, y, n in zip(confidence, correct, counts, strict=True) if n < _FEW]
    for x, y in small:
        axes.plot([x], [y], marker="o", markersize=size + 0.5, color="white", zorder=3)
        axes.plot([x], [y], marker=marker, markersize=1.5, color=colour, zorder=4)
    _strip(axes, {b["bin"]: b["count"] for b in bins}, colour)


def _strip(axes: Axes, counts: dict[int, int], colour: str) -> None:
    """Draw the shares of the bins as steps below the diagram."""
    n_bins = 15
    bottom, largest = -_STRIP - 0.04, max(counts.values(), default=1)
    heights = [bottom + _STRIP * counts.get(b, 0) / largest for b in range(n_bins)]
    edges = [b / n_bins for b in range(n_bins + 1)]
    axes.stairs(heights, edges, baseline=bottom, color=colour, linewidth=0.8)
    axes.stairs(heights, edges, baseline=bottom, color=colour, alpha=0.15, fill=True)


def _histogram(axes: Axes, chosen: Row, bins: list[Row]) -> None:
    looks: dict[bool, dict[str, Any]] = {
        False: {"color": BLUE, "alpha": 0.55, "fill": True, "label": "chosen λ"},
        True: {"color": RED, "linewidth": 1.0, "label": "theory λ"},
    }
    for theory, its in looks.items():
        mine = [b for b in bins if b["theory"] is theory]
        if mine:
            axes.stairs(*_stairs(mine), **its)
    axes.axvline(0, color=GREY, linewidth=0.7, linestyle=(0, (4, 2)))
    mean, width = 100 * chosen["improvement"], 100 * (chosen["improvement_ci"] or 0.0)
    axes.axvline(mean, color="black", linewidth=1, label="mean at the chosen λ")
    band: dict[str, Any] = {
        "color": "black",
        "alpha": 0.15,
        "linewidth": 0,
        "label": "its 95 % interval",
    }
    axes.axvspan(mean - width, mean + width, **band)
    axes.set_ylim(bottom=0)


def _stairs(bins: list[Row]) -> tuple[list[float], list[float]]:
    """Return heights (% of trials) and edges (points) of a histogram without its empty bins."""
    low, width = bins[0]["low"], bins[0]["high"] - bins[0]["low"]
    places = [round((b["low"] - low) / width) for b in bins]
    heights = [0.0] * (max(places) + 1)
    for place, b in zip(places, bins, strict=True):
        heights[place] = 100 * b["count"] / b["trials"]
    return heights, [100 * (low + at * width) for at in range(len(heights) + 1)]
