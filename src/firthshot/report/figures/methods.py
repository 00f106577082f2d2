"""Methods on one scale: Firth against L2 (Figs 2, A7, A13), and priors as bars (Figs 3, A10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from firthshot.experiments.schema import PENALTY, PLACE
from firthshot.experiments.statistics import ALPHA
from firthshot.objective import PENALTIES
from firthshot.report.figures.improvement import (
    IMPROVEMENT,
    draw_left_out,
    draw_panel,
    drawable,
    in_words,
    layout,
    left_out,
    marks_words,
)
from firthshot.report.figures.series import (
    CHOSEN,
    TRAINED,
    Group,
    Row,
    about,
    distinct,
    group,
    method_name,
    method_rank,
)
from firthshot.report.figures.style import (
    COLOURS,
    Drawing,
    legend_above,
    panels,
    shortened,
    zero_line,
)
from firthshot.report.verdict import Condition
from firthshot.report.wording import head_name, listed, setting_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from firthshot.report.gather import Gathered

_FRAME = tuple(name for name in TRAINED if name not in PENALTY)
_HATCHES = ("", "////", "....", "xxxx")


def draw(gathered: Gathered) -> Iterator[Drawing]:
    """Draw methods of a head side by side, and unbalanced shots as bars."""
    for part in group(gathered.summary.chosen, _FRAME):
        yield from _side_by_side(part)
        yield from _bars(part)


def _methods(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the lines by method, Firth first."""
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=method_rank):
        found.setdefault(method_name(row), []).append(row)
    return found


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in PLACE)


def _side_by_side(part: Group) -> Iterator[Drawing]:
    """Draw one panel per method over the places that all of them have, on one scale."""
    methods = _methods([row for row in part.rows if row["shots_scheme"] == "balanced"])
    if len(methods) < 2:
        return
    common = set.intersection(*({_place(row) for row in rows} for rows in methods.values()))
    methods = {
        name: [row for row in rows if _place(row) in common] for name, rows in methods.items()
    }
    rows = [row for some in methods.values() for row in some]
    x = next((x for x in ("shots", "ways") if drawable(rows, x)), None)
    if x is not None:
        caption = (
            f"Accuracy with {listed(methods)} minus accuracy without (λ = 0), against {x}, on one "
            f"scale. {about(part, rows)} {CHOSEN} {marks_words('markers', rows)} Bars: "
            f"{IMPROVEMENT.bars}."
        )
        title = f"{' and '.join(methods)}: {head_name(part.key['head'])} head"
        yield Drawing(f"methods-{part.label}", title, caption, _method_panels(methods, rows, x))


def _method_panels(methods: dict[str, list[Row]], rows: list[Row], x: str) -> Any:
    panel_of, series_of = layout(rows, x)
    lines = distinct(rows, panel_of) if panel_of else [None]
    figure, all_axes = panels(len(lines), len(methods), sharey=True, sharex=True)
    names = distinct(rows, series_of)
    places = iter(all_axes)
    for value in lines:
        for name, some in methods.items():
            axes = next(places)
            shown = [row for row in some if panel_of is None or row[panel_of] == value]
            draw_panel(axes, shown, x, IMPROVEMENT, names, series_of)
            axes.set_title(name if value is None else f"{name}, {in_words(str(panel_of), value)}")
    for axes in all_axes[:: len(methods)]:
        axes.set_ylabel(IMPROVEMENT.label)
    legend_above(figure)
    return figure


def _bars(part: Group) -> Iterator[Drawing]:
    """Draw the improvement with unbalanced shots, the methods as bars beside one another."""
    rows = [row for row in part.rows if row["shots_scheme"] != "balanced"]
    if not rows:
        return
    methods = _methods(rows)
    several = len({row["prior"] for row in rows}) > 1
    named = {_with_prior(name, some, several): some for name, some in methods.items()}
    caption = (
        f"Accuracy with {listed(named)} minus accuracy without (λ = 0), where classes have unequal "
        f"numbers of shots. {about(part, rows)} {CHOSEN} {marks_words('bars', rows)} Whiskers: "
        f"{IMPROVEMENT.bars}."
    )
    title = "Uniform and class-frequency prior" if several else "Unbalanced shots"
    yield Drawing(
        f"unbalanced-{part.label}",
        f"{title}: {head_name(part.key['head'])} head",
        caption,
        _bar_panels(named, rows),
    )


def _with_prior(name: str, rows: list[Row], several: bool) -> str:
    """Name the uniform prior too where another one is beside it."""
    penalty = PENALTIES.get(rows[0]["penalty"])
    plain = penalty and penalty.takes_prior and rows[0]["prior"] == "uniform"
    return f"{name} (uniform prior)" if several and plain else name


def _bar_panels(methods: dict[str, list[Row]], rows: list[Row]) -> Any:
    conditions = sorted({Condition.of(row) for row in rows})
    banks = distinct(rows, "bank")
    if len(banks) == 1:
        figure, all_axes = panels(1, 1)
        names = [f"{one.ways} ways\n{one.label}" for one in conditions]
        _bar_panel(all_axes[0], methods, conditions, names, Condition.of)
    else:
        columns = min(len(conditions), 2)
        figure, all_axes = panels(-(-len(conditions) // columns), columns, sharey=True)
        for axes, condition in zip(all_axes, conditions, strict=False):
            some = {
                name: [row for row in lines if Condition.of(row) == condition]
                for name, lines in methods.items()
            }
            names = [shortened(bank, 16) for bank in banks]
            _bar_panel(axes, some, banks, names, lambda row: row["bank"])
            axes.set_title(setting_words(condition))
        for axes in all_axes[len(conditions) :]:
            axes.set_visible(False)
    for axes in all_axes[:: 1 if len(banks) == 1 else columns]:
        axes.set_ylabel(IMPROVEMENT.label)
    legend_above(figure)
    return figure


def _bar_series(
    axes: Axes, places: list[float], rows: list[Row], width: float, at: int, label: str
) -> None:
    """Draw the bars of a method, hollow where they are not significant."""
    colour, hatch = COLOURS[at % len(COLOURS)], _HATCHES[at % len(_HATCHES)]
    filled: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
    hollow: dict[str, Any] = {"facecolor": "white", "edgecolor": colour, "linewidth": 0.9}
    axes.bar(0, 0, 0, label=label, **filled)  # the legend shows a filled one
    for place, row in zip(places, rows, strict=True):
        value, half = IMPROVEMENT.value(row)
        axes.bar(
            place,
            value,
            width,
            yerr=half,
            error_kw={"elinewidth": 0.9},
            **(filled if row["p_holm"] < ALPHA else {**hollow, "hatch": hatch}),
        )


def _bar_panel(
    axes: Axes, methods: dict[str, list[Row]], groups: Sequence[Any], names: list[str], of: Any
) -> None:
    """Draw one bar per group and method; filled where significant, a cross where λ = 0."""
    width = min(0.8 / len(methods), 0.4)
    for at, (method, rows) in enumerate(methods.items()):
        places = {
            id(row): groups.index(of(row)) + (at - (len(methods) - 1) / 2) * width for row in rows
        }
        used = [row for row in rows if not left_out(row)]
        _bar_series(axes, [places[id(row)] for row in used], used, 0.92 * width, at, method)
        if zeros := [places[id(row)] for row in rows if left_out(row)]:
            draw_left_out(axes, zeros, COLOURS[at % len(COLOURS)])
    crowded = max(map(len, names)) * len(names) > 40
    axes.set_xticks(
        range(len(groups)),
        names,
        rotation=30 if crowded else 0,
        ha="right" if crowded else "center",
        rotation_mode="anchor" if crowded else "default",
    )
    axes.set_xlim(-0.6, len(groups) - 0.4)
    zero_line(axes)
