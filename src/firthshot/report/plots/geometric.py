"""The geometric experiment (Fig 1): estimates against sample size, and the slope of the bias."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from firthshot.experiments.geometric import GeometricResult, signed
from firthshot.figures import GREY
from firthshot.report.gather import Gathered
from firthshot.report.plots.declare import BLUE, GREEN, RED
from firthshot.report.plots.style import Drawing, panels

FIRTH, PLAIN = BLUE, RED  # as in every picture of estimates
_SHOWN = 30  # sizes of the left panel: beyond them both curves lie on the truth


def draw(gathered: Gathered) -> Iterator[Drawing]:
    """Draw both panels of Fig 1 for each geometric run."""
    for name, result in gathered.named_geometric:
        figure, (left, right) = panels(1, 2)
        _estimates(left, result)
        _biases(right, result)
        yield Drawing(name, "Bias of maximum likelihood and of Firth", caption(result), figure)


def caption(result: GeometricResult) -> str:
    """Say what the panels show, with the numbers."""
    size, t = result.largest_t
    first, last = result.spec.slope
    return (
        f"Geometric distribution, p = {result.spec.p:g}, {result.trials:,} trials. Left: "
        "mean of the maximum-likelihood estimate 1/ȳ and of Firth's (N − 1)/(Nȳ − 1) against the "
        "sample size N; at N = 1 Firth follows the paper's rule, N taken as 1.01. Right: absolute "
        f"bias; the slope of log |bias| over N = {first} to {last} is {signed(result.slope)} ± "
        f"{result.slope_ci:.3f} for maximum likelihood (exactly {signed(result.exact_slope)}). "
        f"From N = 2 the bias of Firth is farthest from 0 at N = {size}, t = {signed(t, 2)}; the "
        "shaded band is the half-width of its 95 % interval. Bars are 95 % intervals."
    )


def _estimates(axes: Axes, result: GeometricResult) -> None:
    table = result.table.head(_SHOWN)
    axes.axhline(result.spec.p, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), label="true p")
    for name, colour, marker, label in (
        ("mle", PLAIN, "o", "maximum likelihood"),
        ("firth", FIRTH, "s", "Firth"),
    ):
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3, "linewidth": 1}
        axes.errorbar(table["size"], table[name], table[f"{name}_ci"], label=label, **look)
    axes.set_xlabel("sample size N")
    axes.set_ylabel("mean estimate of p")
    axes.set_xticks([1, *range(5, len(table["size"]) + 1, 5)])
    axes.legend(loc="upper right")


def _biases(axes: Axes, result: GeometricResult) -> None:
    table = {column.name: column.to_numpy() for column in result.table}
    sizes, p = table["size"], result.spec.p
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot(sizes, np.abs(table["mle_bias"]), "o", color=PLAIN, markersize=3)
    axes.plot(sizes, table["mle_exact"] - p, color=GREEN, linewidth=0.9, label="exact")
    fit = f"slope {signed(result.slope)} ± {result.slope_ci:.3f}"
    axes.plot(*fitted_line(result), color="black", linewidth=1.2, linestyle="--", label=fit)
    noise = table["firth_ci"][1:]
    axes.fill_between(sizes[1:], noise, noise / 1e3, color=FIRTH, alpha=0.15, linewidth=0)
    axes.plot(sizes[1:], np.abs(table["firth_bias"][1:]), "s", color=FIRTH, markersize=2)
    above = 1.5 * noise[min(len(noise) - 1, 12)]
    axes.text(sizes[-1], above, "Firth, and its noise", color=FIRTH, ha="right")
    axes.text(1.1, 0.2 * abs(table["mle_bias"][1]), "maximum likelihood", color=PLAIN, va="top")
    lowest = float(np.median(noise)) / 30
    axes.set_ylim(lowest, 2 * float(np.abs(table["mle_bias"]).max()))
    axes.set_xlabel("sample size N")
    axes.set_ylabel("|bias|")
    ticks = [n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000) if n <= len(sizes)]
    axes.set_xticks(ticks, [f"{tick}" for tick in ticks])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: _power(value))
    axes.legend(loc="upper right", labelspacing=0.3)


def fitted_line(result: GeometricResult) -> tuple[Any, Any]:
    """Return the ends of the fitted line over the sizes of the slope."""
    first, last = result.spec.slope
    sizes = np.arange(first, last + 1)
    log_bias = np.log(np.abs(result.table["mle_bias"].to_numpy()[first - 1 : last]))
    middle = np.log(sizes).mean()
    ends = np.array([first, last])
    return ends, np.exp(log_bias.mean() + result.slope * (np.log(ends) - middle))


def _power(value: float) -> str:
    """Return a power of ten as 10⁻³, without mathematical typesetting."""
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return f"10{str(round(np.log10(value))).translate(raised)}"
