"""The KL rope (Fig A5) from a real fit: predictions on the simplex of three classes as λ grows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from firthshot.banks import load_bank
from firthshot.experiments.rope import SHOTS, Paths, fit_paths
from firthshot.figures import COLOURS, GREY, ONE_COLUMN, shortened
from firthshot.report.gather import Gathered
from firthshot.report.plots.style import MARKERS, Drawing, number, panels
from firthshot.report.wording import listed

Array = npt.NDArray[Any]

_MARKED = (0.1, 1.0, 10.0)  # λ at which the paths carry markers
_EMBEDDED = "clinc150-minilm"
_HEIGHT = np.sqrt(3) / 2


def draw(gathered: Gathered) -> Iterator[Drawing]:
    """Draw the rope on the first bank of the runs that can hold it, else on the embedded bank."""
    runs = [run for run in gathered.runs if run.kind == "trials"]
    for run in runs:
        for facts in run.banks:
            transform = str(run.spec.get("transform", "none"))
            if facts.bank is not None and (paths := fit_paths(facts.bank, transform)):
                yield draw_paths(paths)
                return
    if runs and (paths := fit_paths(load_bank(_EMBEDDED))):
        yield draw_paths(paths, "The run's own banks are not at hand or too small. ")


def kl_to_uniform(p: Array) -> Array:
    """Return KL(U‖p) of distributions along the last axis."""
    kl: Array = -np.log(p).mean(-1) - np.log(p.shape[-1])
    return kl


def to_plane(p: Array) -> Array:
    """Return the place (…, 2) of distributions (…, 3) on the triangle; class 1 is at its top."""
    corners = np.array([[0.0, 0.0], [0.5, _HEIGHT], [1.0, 0.0]])
    return np.asarray(p @ corners)


def draw_paths(paths: Paths, remark: str = "") -> Drawing:
    """Draw the simplex, the ropes of the support and the paths of the queries."""
    figure, (axes,) = panels(1, 1, height=ONE_COLUMN * 0.98)
    _triangle(axes, paths)
    for sample in range(paths.support.shape[1]):
        rope = to_plane(paths.support[:, sample])
        axes.plot(*rope.T, color=GREY, linewidth=0.9, linestyle=":", zorder=5)
    for number_, label in enumerate(paths.query_labels):
        _path(axes, paths, number_, int(label))
    _legend(figure)
    return Drawing("rope", "The KL rope from a real fit", remark + caption(paths), figure)


def caption(paths: Paths) -> str:
    """Say what was fitted and what the marks are."""
    low, high = paths.coefficients[0], paths.coefficients[-1]
    start, end = kl_to_uniform(paths.query[0]).mean(), kl_to_uniform(paths.query[-1]).mean()
    extra = "" if paths.transform == "none" else f" (features transformed by {paths.transform})"
    return (
        f"Predictions of a linear head on the simplex of three classes ({listed(paths.classes)}) "
        f"of bank {paths.bank}{extra} as λ grows from {low:g} to {high:g}; {SHOTS} shots, trained "
        f"to the optimum for every λ. Lines: {len(paths.query_labels)} queries, coloured by their "
        f"true class, markers at λ = {listed(map(number, _MARKED))}. Dotted: the "
        f"{len(paths.support_labels)} training samples, on the straight rope from their label to "
        "the uniform distribution U. Mean KL(U‖p) of the queries falls from "
        f"{start:.2f} to {end:.2g}; the tuning-free λ here is {paths.theory:.3g}."
    )


def _triangle(axes: Axes, paths: Paths) -> None:
    corners = to_plane(np.eye(3))
    axes.plot(*corners[[0, 1, 2, 0]].T, color="black", linewidth=0.8)
    for c, (x, y, ha) in enumerate(
        ((0, -0.05, "left"), (0.5, _HEIGHT + 0.05, "center"), (1, -0.05, "right"))
    ):
        va = "top" if y < 0 else "bottom"
        name = shortened(paths.classes[c], 22)
        axes.text(x, y, name, color=COLOURS[c], fontweight="bold", ha=ha, va=va)
    centre = to_plane(np.full(3, 1 / 3))
    axes.plot(*centre, marker="*", markersize=11, color="black", zorder=6)
    look: dict[str, Any] = {"textcoords": "offset points", "fontweight": "bold", "zorder": 6}
    axes.annotate("U, uniform", (centre[0], centre[1]), xytext=(6, 4), **look)
    axes.set_aspect("equal")
    axes.set_xlim(-0.06, 1.06)
    axes.set_ylim(-0.14, _HEIGHT + 0.12)
    axes.set_axis_off()


def _path(axes: Axes, paths: Paths, query: int, label: int) -> None:
    path = to_plane(paths.query[:, query])
    axes.plot(*path.T, color=COLOURS[label], linewidth=1.0, zorder=3)
    marked = [int(np.argmin(np.abs(np.log(paths.coefficients / value)))) for value in _MARKED]
    look: dict[str, Any] = {"marker": MARKERS[label], "color": COLOURS[label], "zorder": 4}
    look |= {"markeredgecolor": "white", "markeredgewidth": 0.3}
    for at, size in zip(marked, (4.5, 3.5, 2.5), strict=True):
        axes.plot(*path[at], markersize=size, **look)


def _legend(figure: Figure) -> None:
    handles = [
        Line2D([], [], color=GREY, linewidth=0.9, linestyle=":", label="training samples"),
        Line2D([], [], color=COLOURS[0], linewidth=1.0, label="queries; λ grows towards U"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
