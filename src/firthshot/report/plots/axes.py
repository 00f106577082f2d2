"""Axes of shots, ways and λ: where values lie, and labels that do not overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LETTER = 0.068  # width of a letter of a tick label, inches


def number(value: float) -> str:
    """Return a coefficient as people write it."""
    return f"{value:.4g}" if value < 1e4 else f"{value:.0f}" if value < 1e6 else f"{value:.0e}"


class LambdaAxis:
    """A logarithmic axis for λ that also has a place for λ = 0, left of a break.

    Parameters
    ----------
    coefficients : all values that will be shown
    """

    def __init__(self, coefficients: Sequence[float]) -> None:
        positive = [value for value in coefficients if value > 0] or [1.0]
        self.low, self.high = math.log10(min(positive)), math.log10(max(positive))
        self.gap = max(0.22 * (self.high - self.low), 0.5)
        self.has_zero = any(value == 0 for value in coefficients)

    def place(self, coefficient: float) -> float:
        """Return where a coefficient lies."""
        return math.log10(coefficient) if coefficient > 0 else self.low - self.gap

    def dress(self, axes: Axes, inches: float) -> None:
        """Set limits, ticks at powers of ten, and the break."""
        left = self.low - self.gap if self.has_zero else self.low
        margin = 0.06 * (self.high - left) or 0.3
        axes.set_xlim(left - margin, self.high + margin)
        powers = range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)
        places = [float(power) for power in powers] or [self.low]
        names = [number(10.0**place) for place in places]
        if self.has_zero:
            places, names = [left, *places], ["0", *names]
        axes.set_xticks(places, thinned(places, names, inches))
        axes.set_xlabel("λ")
        if self.has_zero:
            self._break(axes)

    def _break(self, axes: Axes) -> None:
        """Mark the axis as interrupted between 0 and the smallest positive value."""
        middle, width = self.low - 0.5 * self.gap, 0.05 * self.gap
        line: dict[str, Any] = {"color": "black", "linewidth": 0.6, "clip_on": False, "zorder": 5}
        across = axes.get_xaxis_transform()  # λ across, fractions of the panel upwards
        axes.plot(
            [middle - width, middle + width], [0, 0], transform=across, **{**line, "color": "white"}
        )
        for shift in (-width, width):
            ends = [middle + shift - 0.6 * width, middle + shift + 0.6 * width]
            axes.plot(ends, [-0.022, 0.022], transform=across, **line)


def dress_counts(axes: Axes, values: Sequence[int], label: str, inches: float) -> None:
    """Set the ticks of an axis of shots or ways at its values; logarithmic where they span much."""
    axes.set_xlabel(label)
    logarithmic = len(values) > 2 and label == "ways" and max(values) > 8 * min(values)
    if logarithmic:
        from matplotlib.ticker import NullLocator

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
