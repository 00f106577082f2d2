"""Labels of points, placed where they hide neither a line nor a mark nor cross the panel's edge."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.report.figures.axes import panel_inches
from firthshot.report.figures.style import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = Any
Points = Sequence[tuple[float, float]]

_NEAR = (5.0, 8.0, 12.0, 17.0, 24.0)  # from the point to the label, in points
_AIR = 2.5  # kept around the label
_MARK = 5.0  # half the size of the largest mark
_STEP = 1.5  # between the places of a line that are looked at
_DIRECTIONS = np.array(
    [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)], float
)
# Where a label goes, and on which side of that place it stands: a label right of a point may also
# hang below or stand above the point's height.
_CHOICES = [(d, d) for d in _DIRECTIONS] + [(d * (1, 0), d) for d in _DIRECTIONS[4:]]


def label_point(axes: Axes, words: str, at: int, path: Points, marks: Points = ()) -> None:
    """Write a label beside a point of a path, a thin line between them.

    Limits of the axes must be final.

    Parameters
    ----------
    axes : Axes
    words : str
    at : int
        Which point of the path.
    path : sequence of (x, y)
        The corners of the line.
    marks : sequence of (x, y)
        Places of larger marks.
    """
    corners = _places(axes, path)
    taken = np.concatenate([_along(corners), _around(_places(axes, marks))])
    # Without the line, a label that had to go elsewhere seems to name the mark beside it.
    leader = {"arrowstyle": "-", "linewidth": 0.5, "color": GREY, "shrinkA": 0, "shrinkB": 1.5}
    text = axes.annotate(
        words, path[at], xytext=(0, 0), textcoords="offset points", arrowprops=leader
    )
    shift, side = _best(corners[at], _size(axes, text), taken, _inside(axes))
    text.set_position(tuple(shift))
    text.set_horizontalalignment(("right", "center", "left")[int(side[0]) + 1])
    text.set_verticalalignment(("top", "center", "bottom")[int(side[1]) + 1])


def _best(point: Array, size: Array, taken: Array, inside: Array) -> tuple[Array, Array]:
    """Return the shift and side that hide least, of equals the nearest, then the freest."""

    def cost(choice: tuple[float, Array, Array]) -> tuple[float, float, float]:
        near, direction, side = choice
        middle = point + near * _unit(direction) + side * size / 2
        outside = np.maximum(0, np.abs(middle - inside / 2) + size / 2 + _AIR - inside / 2).sum()
        # How far each taken place is from the label's box, per axis; inside where both are 0.
        gap = np.maximum(0, np.abs(taken - middle) - size / 2)
        away = np.hypot(gap[:, 0], gap[:, 1])
        return float((away < _AIR).sum() + 10 * outside), near, -float(away.min())

    near, direction, side = min(((near, *each) for near in _NEAR for each in _CHOICES), key=cost)
    return near * _unit(direction), side


def _unit(direction: Array) -> Array:
    return direction / np.hypot(*direction)


def _inside(axes: Axes) -> Array:
    """Return about how wide and high the inside of a panel is, in points."""
    figure, place = axes.get_figure(), axes.get_subplotspec()
    rows = place.get_gridspec().nrows if place else 1
    height = figure.bbox.height / figure.dpi / rows - 0.6 if figure else 1.0
    return 72 * np.array([panel_inches(axes), height])


def _places(axes: Axes, points: Points) -> Array:
    """Return places in points from the lower left corner of the panel, (n, 2)."""
    low, high = np.transpose([axes.get_xlim(), axes.get_ylim()])
    return (np.reshape(points, (-1, 2)) - low) / (high - low) * _inside(axes)


def _along(corners: Array) -> Array:
    """Return places along a line, close to one another."""
    pieces = [corners]
    for one, other in pairwise(corners):
        count = int(np.hypot(*(other - one)) / _STEP) + 2
        pieces.append(np.linspace(one, other, count))
    return np.concatenate(pieces)


def _around(marks: Array) -> Array:
    """Return the middle and the rim of marks."""
    rim = np.vstack([np.zeros((1, 2)), [_MARK * _unit(d) for d in _DIRECTIONS]])
    return (marks[:, None, :] + rim).reshape(-1, 2)


def _size(axes: Axes, text: Any) -> Array:
    from matplotlib.text import Text

    figure = axes.get_figure()
    assert figure is not None
    box = Text.get_window_extent(text)  # without the line to the point
    return np.array([box.width, box.height]) * 72 / figure.dpi
