"""Against shots and ways: improvement (Figs 2, 4, A6, A7, A11, A13), relative (A8), baseline (A9).

Several banks are drawn as series, with a panel for each number of ways (or shots); for a single
bank the ways (or shots) are the series. Methods of a head stand side by side on one scale, and
unbalanced shots are bars (Figs 3, A10).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import msgspec
from matplotlib.axes import Axes

from firthshot.experiments.schema import PENALTY, PLACE, grouped
from firthshot.experiments.statistics import ALPHA
from firthshot.figures import shortened
from firthshot.objective import PENALTIES
from firthshot.report.gather import Gathered
from firthshot.report.plots.declare import PLOTS, QUANTITIES, Plot, Row
from firthshot.report.plots.groups import (
    CHOSEN,
    TRAINED,
    Group,
    about,
    distinct,
    drawn_words,
    group,
    method_name,
    method_rank,
)
from firthshot.report.plots.paper import Panel, draw_figure
from firthshot.report.plots.style import Drawing, dodged, dress_counts, panel_inches
from firthshot.report.verdict import Condition
from firthshot.report.wording import head_name, listed, setting_words

_BARS = QUANTITIES["improvement"].bars
_WITHOUT_PENALTY = ("head", "solver", "transform", "source", "artificial", "l2")
_FRAME = tuple(name for name in TRAINED if name not in PENALTY)
_place = itemgetter(*PLACE)


def _plot(what: str) -> Plot:
    """Return the plot of improvements with this quantity; accuracies have no zero line."""
    plot = PLOTS["improvement"]
    marks = tuple(mark for mark in plot.marks if mark.kind != "zero" or what != "baseline")
    axis = msgspec.structs.replace(plot.y, paper=QUANTITIES[what].label)
    return msgspec.structs.replace(plot, marks=marks, y=axis)


def _tidy(what: str, row: Row) -> Row:
    """Return value and interval in per cent, and how the point is marked."""
    base = what == "baseline"
    value = row["base_accuracy" if base else "improvement"]
    half = row["base_accuracy_ci" if base else "improvement_ci"] or 0.0
    # As in the paper, the baseline counts as exact where the improvement is divided by it.
    scale = 100 / (row["base_accuracy"] if what == "relative" else 1.0)
    unused = not base and row["coefficient"] == 0  # no null result: nothing was tested
    half = math.nan if unused else half
    return {
        "value": scale * value,
        "low": scale * (value - half),
        "high": scale * (value + half),
        "use": "λ = 0 chosen" if unused else "λ > 0",
        "hollow": not (base or unused or row["p_holm"] < ALPHA),
    }


def draw(gathered: Gathered) -> Iterator[Drawing]:
    """Draw improvement, relative improvement and baseline against shots and against ways."""
    chosen = gathered.summary.chosen
    for part in group(chosen):
        for x in ("shots", "ways"):
            yield from _against(part, x, "improvement")
        x = _main_axis(part.rows)
        rows = drawable(part.rows, x)
        if all(row["base_accuracy"] for row in rows) and any(row["improvement"] for row in rows):
            yield from _against(part, x, "relative")
    for part in group(chosen, _WITHOUT_PENALTY):
        # At λ = 0 the penalty does not matter: a place once.
        places = {(row["bank"], Condition.of(row)): row for row in part.rows}
        own = Group(part.key, tuple(places.values()), part.label)
        yield from _against(own, _main_axis(own.rows), "baseline")


def draw_methods(gathered: Gathered) -> Iterator[Drawing]:
    """Draw methods of a head side by side, and unbalanced shots as bars."""
    for part in group(gathered.summary.chosen, _FRAME):
        yield from _side_by_side(part)
        yield from _unbalanced(part)


def _balanced(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["shots_scheme"] == "balanced"]


def _main_axis(rows: Sequence[Row]) -> str:
    """Return ways where the run has more of them than balanced shots, else shots."""
    more = len(distinct(_balanced(rows), "ways")) > len(distinct(_balanced(rows), "shots"))
    return "ways" if more else "shots"


def drawable(rows: Sequence[Row], x: str) -> list[Row]:
    """Return the lines with balanced shots, where there are several values along ``x``.

    A group with one number of ways and one of shots is drawn against shots, that it is drawn.
    """
    balanced = _balanced(rows)
    counts = {name: len(distinct(balanced, name)) for name in ("shots", "ways")}
    alone = x == "shots" and counts == {"shots": 1, "ways": 1}
    return balanced if counts[x] > 1 or alone else []


def _marks_words(what: str, rows: Sequence[Row]) -> str:
    """Say what filled, hollow and crossed marks mean, as far as they occur."""
    filled = f"Filled {what}: significant after Holm's correction (p < {ALPHA:g})."
    crosses = " Crosses: λ = 0 was chosen, nothing is changed and nothing tested."
    return filled + (crosses if any(row["coefficient"] == 0 for row in rows) else "")


def _against(part: Group, x: str, what: str) -> Iterator[Drawing]:
    rows = drawable(part.rows, x)
    if not rows:
        return
    layout, own = _Layout.of(rows, x), QUANTITIES[what]
    shown = [layout.panel(rows, what, value) for value in layout.values]
    figure = draw_figure(_plot(what), shown, min(len(shown), 3), layout.names, sharey=True)
    who, note, words = f"{head_name(part.key['head'])} head{drawn_words(part.key)}", "", own.words
    if what != "baseline":
        who, note = part.method, f" {CHOSEN} {_marks_words('markers', rows)}"
        words = words.format(method=method_name(part.key))
    caption = f"{words}, against {x}. {about(part, rows)}{note} Bars: {own.bars}."
    yield Drawing(f"{what}-{x}-{part.label}", f"{own.title}: {who}", caption, figure)


def _in_words(column: str, value: Any) -> str:
    if column == "bank":
        return str(value)
    return f"{value} {column if value != 1 else column.removesuffix('s')}"


@dataclass(frozen=True)
class _Layout:
    """Which columns make the axis, panels and series; the values of panels, names of series."""

    x: str
    panel_of: str | None
    series_of: str
    values: list[Any]
    names: list[str]

    @classmethod
    def of(cls, rows: Sequence[Row], x: str) -> _Layout:
        other = "ways" if x == "shots" else "shots"
        one_bank = len(distinct(rows, "bank")) == 1
        panel_of = None if one_bank or len(distinct(rows, other)) == 1 else other
        values = sorted(distinct(rows, panel_of)) if panel_of else [None]
        series_of = other if one_bank else "bank"
        names = [shortened(_in_words(series_of, one)) for one in distinct(rows, series_of)]
        return cls(x, panel_of, series_of, values, names)

    def panel(self, rows: Sequence[Row], what: str, value: Any) -> Panel:
        """Return a panel of the lines that belong into it, series beside one another."""
        x, names = self.x, self.names
        mine = [row for row in rows if self.panel_of is None or row[self.panel_of] == value]
        values = sorted(distinct(mine, x))
        logarithmic = x == "ways" and len(values) > 2 and max(values) > 8 * min(values)
        tidy = []
        for row in sorted(mine, key=lambda row: row[x]):
            name = shortened(_in_words(self.series_of, row[self.series_of]))
            places = dodged(values, names.index(name), len(names), logarithmic)
            tidy.append({"x": places[values.index(row[x])], "series": name, **_tidy(what, row)})
        title = "" if self.panel_of is None else _in_words(self.panel_of, value)
        return Panel(title, tidy, lambda axes: dress_counts(axes, values, x, panel_inches(axes)))


def _methods(rows: Sequence[Row]) -> dict[str, list[Row]]:
    return grouped(sorted(rows, key=method_rank), method_name)


def _side_by_side(part: Group) -> Iterator[Drawing]:
    """Draw one panel per method over the places that all of them have, on one scale."""
    methods = _methods(_balanced(part.rows))
    if len(methods) < 2:
        return
    common = set.intersection(*({_place(row) for row in rows} for rows in methods.values()))
    methods = {
        name: [row for row in rows if _place(row) in common] for name, rows in methods.items()
    }
    rows = [row for some in methods.values() for row in some]
    x = next((x for x in ("shots", "ways") if drawable(rows, x)), None)
    if x is None:
        return
    layout, shown = _Layout.of(rows, x), []
    for value in layout.values:
        for name, some in methods.items():
            panel = layout.panel(some, "improvement", value)
            shown.append(replace(panel, title=", ".join(filter(None, (name, panel.title)))))
    caption = (
        f"Accuracy with {listed(methods)} minus accuracy without (λ = 0), against {x}, on one "
        f"scale. {about(part, rows)} {CHOSEN} {_marks_words('markers', rows)} Bars: {_BARS}."
    )
    figure = draw_figure(
        _plot("improvement"), shown, len(methods), layout.names, sharey=True, sharex=True
    )
    title = f"{' and '.join(methods)}: {head_name(part.key['head'])} head"
    yield Drawing(f"methods-{part.label}", title, caption, figure)


def _unbalanced(part: Group) -> Iterator[Drawing]:
    """Draw the improvement with unbalanced shots, the methods as bars beside one another."""
    rows = [row for row in part.rows if row["shots_scheme"] != "balanced"]
    if not rows:
        return
    several = len({row["prior"] for row in rows}) > 1
    methods = {}
    for name, some in _methods(rows).items():
        penalty = PENALTIES.get(some[0]["penalty"])
        plain = penalty and penalty.takes_prior and some[0]["prior"] == "uniform"
        methods[f"{name} (uniform prior)" if several and plain else name] = some
    conditions, banks = sorted({Condition.of(row) for row in rows}), distinct(rows, "bank")
    if len(banks) == 1:
        ticks = {one: f"{one.ways} ways\n{one.label}" for one in conditions}
        shown = [_bars("", methods, ticks, Condition.of)]
    else:
        ticks = {bank: shortened(bank, 16) for bank in banks}
        shown = [
            _bars(setting_words(one), methods, ticks, lambda row: row["bank"], one)
            for one in conditions
        ]
    caption = (
        f"Accuracy with {listed(methods)} minus accuracy without (λ = 0), where classes have "
        f"unequal numbers of shots. {about(part, rows)} {CHOSEN} {_marks_words('bars', rows)} "
        f"Whiskers: {_BARS}."
    )
    title = "Uniform and class-frequency prior" if several else "Unbalanced shots"
    figure = draw_figure(PLOTS["unbalanced"], shown, min(len(shown), 2), list(methods), sharey=True)
    title = f"{title}: {head_name(part.key['head'])} head"
    yield Drawing(f"unbalanced-{part.label}", title, caption, figure)


def _bars(
    title: str,
    methods: dict[str, list[Row]],
    ticks: dict[Any, str],
    of: Any,
    only: Condition | None = None,
) -> Panel:
    width = min(0.8 / len(methods), 0.4)
    places = {key: at for at, key in enumerate(ticks)}
    tidy = []
    for at, (method, rows) in enumerate(methods.items()):
        shift = (at - (len(methods) - 1) / 2) * width
        for row in (row for row in rows if only in (None, Condition.of(row))):
            place = {"x": places[of(row)] + shift, "width": 0.92 * width, "series": method}
            tidy.append({**place, **_tidy("improvement", row)})
    longest = max(len(line) for name in ticks.values() for line in name.split("\n"))
    crowded = longest * len(ticks) > 40

    def dress(axes: Axes) -> None:
        look: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(len(ticks)), list(ticks.values()), **(look if crowded else {}))
        axes.set_xlim(-0.6, len(ticks) - 0.4)

    return Panel(title, tidy, dress)
