"""Write the declared plots as Vega-Lite for the page.

Nothing that a spec or a bank is called enters an expression: labels come as values of parameters,
rows as data. Colours are the page's CSS variables, so that a chart follows light, dark and print.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from firthshot.report.plots.declare import CHARTS, PLOTS, Axis, Mark, Plot

Spec = dict[str, Any]

CONFIG: Spec = json.loads(Path(__file__).with_name("vega.json").read_text("utf-8"))
_SERIES, _MUTED = CONFIG["range"]["category"], "var(--muted)"
_ON_GRID = {"filter": "datum.kind !== 'theory'"}
_DASHED = {"strokeDash": [4, 3], "color": _MUTED}


def make_charts() -> dict[str, Spec]:
    """Return all charts by name, and their common configuration under ``config``."""
    return {"config": CONFIG, **{name: chart(PLOTS[name]) for name in CHARTS}}


def chart(plot: Plot) -> Spec:
    """Return a plot as Vega-Lite; its rows are the data set ``rows``."""
    layers = [_layer(plot, mark) for mark in plot.marks if "page" in mark.on]
    spec: Spec = {"width": "$width", "height": "$height", "layer": layers}
    head: Spec = {"data": {"name": "rows"}}
    if "labelled" in (plot.x.scale, plot.y.scale):
        names = ("ticks", "labels")
        head["params"] = [{"name": name, "value": f"${name}"} for name in names]
    if not plot.panel:
        return {**head, **spec}
    header = {"labelLimit": "$width"}
    facet = {"field": plot.panel, "type": "nominal", "title": None, "sort": f"${plot.panel}s"}
    return {**head, "facet": {**facet, "header": header}, "columns": "$columns", "spec": spec}


def _layer(plot: Plot, mark: Mark) -> Spec:
    layer = _LAYERS[mark.kind](plot, mark)
    return {**layer, "transform": [_ON_GRID]} if mark.on_grid else layer


def _encoded(plot: Plot, **more: Spec) -> Spec:
    """Return the encodings that all marks of a plot share, and more."""
    shared = {"x": _axis(plot.x), "y": _axis(plot.y), "color": _colour(plot)}
    if plot.y.scale == "names":
        shared["yOffset"] = {"field": "series", "sort": "$series"}
    return {**shared, **more}


def _axis(axis: Axis) -> Spec:
    if axis.scale == "share":
        unit = {"scale": {"domain": [0, 1], "nice": False}, "axis": {"format": "%", "tickCount": 5}}
        return {"field": axis.column, "type": "quantitative", "title": axis.title, **unit}
    if axis.scale == "names":
        look = {"labelLimit": 150, "ticks": False, "domain": False}
        lines = {"field": axis.column, "type": "nominal", "sort": f"${axis.column}s"}
        return {**lines, "title": None, "axis": look}
    plain: Spec = {"field": axis.column, "type": "quantitative"}
    if axis.scale == "labelled":
        scale = {"domain": "$domain", "nice": False, "zero": False}
        labels = {"values": "$ticks", "labelExpr": "labels[indexof(ticks, datum.value)]"}
        angle = {"labelAngle": "$labelAngle", "labelOverlap": "$labelOverlap"}
        named: Spec = {**labels, "grid": False, "title": axis.title, **angle}
        return {**plain, "scale": scale, "axis": named}
    numbers = {"title": axis.title, "scale": {"zero": False}, "axis": {"tickCount": 6}}
    return {**plain, **numbers, **axis.options}


def _colour(plot: Plot) -> Spec:
    legend = {"title": "$seriesTitle", "columns": "$legendColumns", "symbolOpacity": 1}
    colour = {"field": "series", "type": "nominal", "sort": f"${plot.series}"}
    if plot.series == "states":
        scale = {"domain": "$states", "range": "$stateColours"}
        return {**colour, "scale": scale, "legend": {**legend, "title": None}}
    return {**colour, "scale": {"domain": "$series", "range": _SERIES}, "legend": legend}


def _hints(plot: Plot) -> list[Spec]:
    return [
        {"field": name, "title": title, "type": "nominal"} for name, title in plot.hints.items()
    ]


def _zero(plot: Plot, _: Mark) -> Spec:
    along = "x" if plot.x.column == "low" or plot.y.scale == "names" else "y"
    rule = {"type": "rule", **_DASHED, "opacity": 0.7}
    return {"mark": rule, "encoding": {along: {"datum": 0, "type": "quantitative"}}}


def _diagonal(plot: Plot, _: Mark) -> Spec:
    ends = [{plot.x.column: end, plot.y.column: end} for end in (0, 1)]
    encoding = {"x": _axis(plot.x), "y": _axis(plot.y)}
    return {"data": {"values": ends}, "mark": {"type": "line", **_DASHED}, "encoding": encoding}


def _line(plot: Plot, mark: Mark) -> Spec:
    look = dict(mark.look)
    more = {name: {"field": look.pop(name)} for name in ("detail", "order") if name in look}
    return {"mark": {"type": "line", **look}, "encoding": _encoded(plot, **more)}


def _interval(plot: Plot, mark: Mark) -> Spec:
    along, axis = ("x", plot.x) if plot.y.scale == "names" else ("y", plot.y)
    ends = {along: {**_axis(axis), "field": mark.low}, f"{along}2": {"field": mark.high}}
    kind = "area" if mark.kind == "band" else "rule"
    return {"mark": {"type": kind, **mark.look}, "encoding": _encoded(plot, **ends)}


def _points(plot: Plot, mark: Mark) -> Spec:
    look = {"type": "point", "opacity": 1, "size": 62, **mark.look}
    more: Spec = {"tooltip": _hints(plot)}
    if area := look.pop("area", ""):
        scale = {"domain": [0, 1], "range": [12, 420]}
        more["size"] = {"field": area, "type": "quantitative", "scale": scale, "legend": None}
    if mark.looks:
        more |= _shapes(mark)
    if plot.panel:
        look["angle"] = 45  # crosses as ×
    return {"mark": look, "encoding": _encoded(plot, **more)}


def _shapes(mark: Mark) -> Spec:
    """Return shape and size by the kind of a point; a legend where the page's script gives one."""
    names, areas = list(mark.looks), [look.area for look in mark.looks.values()]
    shapes = {"domain": names, "range": [look.shape for look in mark.looks.values()]}
    legend = "$useLegend" if mark.by == "use" else None
    shape = {"field": mark.by, "type": "nominal", "scale": shapes, "legend": legend}
    if len(set(areas)) == 1:
        return {"shape": shape}
    sizes = {"domain": names, "range": areas}
    size = {"field": mark.by, "type": "ordinal", "scale": sizes, "legend": None}
    return {"shape": shape, "size": size}


def _bars(plot: Plot, mark: Mark) -> Spec:
    """Return the bars of a histogram: filled, and an outline over them for the theory's λ."""
    theory: Spec = {"test": "datum.theory"}
    encoding = {
        "x": {**_axis(plot.x), "axis": {"tickCount": 7, "grid": False}},
        "x2": {"field": mark.high},
        "y": {
            **_axis(plot.y),
            "axis": {"format": "%", "tickCount": 5},
            "scale": {"zero": True},
        },
        "y2": {"datum": 0},
        "fill": _colour(plot),
        "stroke": _colour(plot),
        "fillOpacity": {"condition": {**theory, "value": 0.08}, "value": 0.5},
        "strokeOpacity": {"condition": {**theory, "value": 1}, "value": 0},
        "tooltip": _hints(plot),
    }
    return {"mark": {"type": "rect", "strokeWidth": 1.5}, "encoding": encoding}


def _tag(plot: Plot, _: Mark) -> Spec:
    text = {"type": "text", "dy": -11, "fontSize": 10, "color": _MUTED}
    place = {"x": _axis(plot.x), "y": _axis(plot.y)}
    return {"mark": text, "encoding": {**place, "text": {"field": "tag"}}}


_LAYERS = {
    "zero": _zero,
    "diagonal": _diagonal,
    "line": _line,
    "interval": _interval,
    "band": _interval,
    "points": _points,
    "bars": _bars,
    "tag": _tag,
}
