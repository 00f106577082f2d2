"""Figures for a paper: odds ratios with their intervals, and profiles of the likelihood."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError, check_choice
from firthshot.figures import (
    COLOURS,
    GREY,
    ONE_COLUMN,
    TWO_COLUMNS,
    house_style,
    shortened,
    write_figure,
)
from firthshot.jeffreys._profile import Profile, chi2_quantile
from firthshot.jeffreys._separation import INTERCEPT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from firthshot.jeffreys.estimator import JeffreysLogisticRegression

KINDS = ("forest", "profiles")
_LINE = 0.24  # inches of a line of the forest plot
_BESIDE = 10, 150  # points from its right edge, where odds ratios begin and p-values end
_MOST_LINES, _MOST_PANELS = 80, 24  # beyond, a figure cannot be read
_FARTHEST = 1e4  # odds ratios beyond it, or below its inverse, get an arrow
_DEPTH = 2.5  # of the panel of a profile, in distances from the maximum to the level


@dataclass(frozen=True)
class _Row:
    """A line of the forest plot: an odds ratio, or the name of a contrast."""

    label: str
    ratio: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    p_value: float = math.nan
    is_head: bool = False


def draw(
    model: JeffreysLogisticRegression,
    path: str | Path | None = None,
    *,
    kind: str = "forest",
    level: float = 0.95,
    method: str = "profile",
) -> Figure:
    """Draw odds ratios or profiles of all slopes, and write them if there is a path."""
    check_choice("kind", kind, KINDS)
    with house_style():
        figure = _forest(model, level, method) if kind == "forest" else _profiles(model, level)
    if path is not None:
        write_figure(figure, Path(path))
    return figure


def _forest(model: JeffreysLogisticRegression, level: float, method: str) -> Figure:
    lines = _lines(model, level, method)
    if not any(not line.is_head for line in lines) or len(lines) > _MOST_LINES:
        raise FirthshotError(
            f"There are {len(lines)} odds ratios to draw: the figure has room for 1 to "
            f"{_MOST_LINES}."
        )
    figure = _new_figure(TWO_COLUMNS, _LINE * (len(lines) + 1) + 0.55)
    axes = figure.add_subplot()
    for at, line in enumerate(lines):
        _draw_line(axes, at, line)
    axes.axvline(1.0, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    _dress_forest(axes, lines, f"{100.0 * level:g}% CI")
    contrast = f" ({_contrast(model, 0)})" if len(model.contrasts_) == 1 else ""
    axes.set_xlabel(f"odds ratio{contrast}, {'Wald' if method == 'wald' else 'profile'} interval")
    return figure


def _lines(model: JeffreysLogisticRegression, level: float, method: str) -> list[_Row]:
    lines, several = [], len(model.contrasts_) > 1
    head = None
    for row in model.summary(level, method, odds_ratios=True).to_dict()["coefficients"]:
        if row["term"] == INTERCEPT:
            continue
        if several and row["contrast"] != head:
            head = row["contrast"]
            lines.append(_Row(f"{head} against {model.reference_}", is_head=True))
        keys = ("odds_ratio", "odds_ratio_lower", "odds_ratio_upper", "p_value")
        ratio, lower, upper, p_value = (math.nan if row[k] is None else row[k] for k in keys)
        lines.append(_Row(shortened(row["term"], 40), ratio, lower, upper, p_value))
    return lines


def _draw_line(axes: Axes, at: int, line: _Row) -> None:
    if line.is_head:
        return
    _write_beside(axes, at, _estimate_text(line), _p_text(line.p_value))
    if not math.isfinite(line.ratio):
        return
    low, high = (_within(bound) for bound in (line.lower, line.upper))
    colour = COLOURS[0]
    axes.plot([low, high], [at, at], color=colour, linewidth=1.4, solid_capstyle="butt")
    axes.plot([_within(line.ratio)], [at], "s", color=colour, markersize=5)
    for shown, bound, marker in ((low, line.lower, "<"), (high, line.upper, ">")):
        if shown != bound:
            axes.plot([shown], [at], marker, color=colour, markersize=5, clip_on=False)


def _within(ratio: float) -> float:
    """Return an odds ratio as far as the axis may reach; NaN stays."""
    return min(max(ratio, 1.0 / _FARTHEST), _FARTHEST) if ratio == ratio else ratio


def _dress_forest(axes: Axes, lines: list[_Row], interval: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    numbers = [_within(x) for line in lines for x in (line.ratio, line.lower, line.upper)]
    finite = [x for x in numbers if math.isfinite(x)] + [1.0]
    margin = max((max(finite) / min(finite)) ** 0.05, 1.1)
    axes.set_xscale("log")
    axes.set_xlim(min(finite) / margin, max(finite) * margin)
    narrow = max(finite) / min(finite) < 30.0
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if narrow else (1.0,)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.7g}"))
    axes.set_ylim(len(lines) - 0.5, -1.5)
    axes.set_yticks(range(len(lines)), [line.label for line in lines])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for label, line in zip(axes.get_yticklabels(), lines, strict=True):
        label.set_fontweight("bold" if line.is_head else "normal")
    _write_beside(axes, -1.0, f"odds ratio ({interval})", "p", fontweight="bold")


def _write_beside(axes: Axes, at: float, estimate: str, p_value: str, **font: Any) -> None:
    """Write an odds ratio and its p-value right of the panel."""
    place: dict[str, Any] = {
        "xy": (1.0, at),
        "xycoords": axes.get_yaxis_transform(),
        "textcoords": "offset points",
        "va": "center_baseline",
    }
    axes.annotate(estimate, xytext=(_BESIDE[0], 0), **place, **font)
    axes.annotate(p_value, xytext=(_BESIDE[1], 0), ha="right", **place, **font)


def _estimate_text(line: _Row) -> str:
    if not math.isfinite(line.ratio):
        return "not determined"
    return f"{_number(line.ratio)} ({_number(line.lower)} to {_number(line.upper)})"


def _number(value: float) -> str:
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    if value >= 1e6 or 0.0 < value < 1e-4:
        return f"{value:.0e}"
    if value < 0.1:
        return f"{value:.2g}"
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.{1 if value >= 10.0 else 2}f}"


def _p_text(p_value: float) -> str:
    if math.isnan(p_value):
        return ""
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _contrast(model: JeffreysLogisticRegression, at: int) -> str:
    return f"{model.contrasts_[at]} against {model.reference_}"


def _profiles(model: JeffreysLogisticRegression, level: float) -> Figure:
    estimable = np.isfinite(model.bse())
    names = [
        name
        for name, determined in zip(model.parameter_names_, estimable, strict=True)
        if determined and not name.endswith(INTERCEPT)
    ]
    if not names or len(names) > _MOST_PANELS:
        raise FirthshotError(
            f"There are {len(names)} profiles to draw: draw one by one with plot_profile."
        )
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = _new_figure(ONE_COLUMN if columns == 1 else TWO_COLUMNS, 2.0 * rows + 0.3)
    for k, name in enumerate(names):
        axes = figure.add_subplot(rows, columns, k + 1)
        _draw_profile(axes, model.profile(name, level), shortened(model._label(name), 48))
        if k % columns:
            axes.set_ylabel("")
            axes.tick_params(labelleft=False)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(3, 2 * columns - 1))
    return figure


def plot_profile(profile: Profile, ax: Any = None, label: str | None = None) -> Any:
    """Draw a profile, the parabola of the Wald approximation, and the interval.

    On new axes unless given; the coefficient is called by its name unless there is a ``label``.
    """
    import matplotlib.pyplot as plt

    with house_style():
        if ax is None:
            figure = plt.figure(figsize=(ONE_COLUMN, 2.5), layout="constrained")
            ax = figure.add_subplot()
            _draw_profile(ax, profile, label or profile.name)
            figure.legend(loc="outside upper center", ncols=2)
        else:
            _draw_profile(ax, profile, label or profile.name)
            ax.legend(loc="lower center")
    return ax


def _draw_profile(axes: Axes, profile: Profile, label: str) -> None:
    drop = 0.5 * chi2_quantile(profile.level)
    wald = -0.5 * ((profile.values - profile.estimate) / profile.standard_error) ** 2
    heights = profile.loglik - profile.maximum
    axes.plot(profile.values, heights, color=COLOURS[0], lw=1.6, label="profile likelihood")
    axes.plot(profile.values, wald, color=GREY, ls="--", lw=1.0, label="Wald approximation")
    axes.axhline(-drop, color=GREY, linewidth=0.7, label=f"{100 * profile.level:g}% level")
    floor = -_DEPTH * drop
    for bound in np.array(profile.interval)[np.isfinite(profile.interval)]:
        axes.plot([bound, bound], [-drop, floor], color=COLOURS[1], lw=0.8, ls=":")
        axes.plot([bound], [-drop], "o", color=COLOURS[1], markersize=3)
        axes.annotate(
            f"{bound:.3g}".replace("-", "−"),
            (bound, floor),
            (2 if bound < profile.estimate else -2, 2),
            textcoords="offset points",
            ha="left" if bound < profile.estimate else "right",
            fontsize="small",
            color=COLOURS[1],
        )
    axes.plot([profile.estimate], [0.0], "o", color=COLOURS[0])
    axes.set_ylim(floor, 0.25 * drop)
    axes.set_xlim(profile.values[0], profile.values[-1])
    axes.set_xlabel(f"coefficient of {label}".replace(" (", "\n("))
    axes.set_ylabel("log-likelihood − maximum")


def _new_figure(width: float, height: float) -> Figure:
    """Return a figure that notebooks show and that pyplot does not keep."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as MplFigure

    figure = MplFigure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
