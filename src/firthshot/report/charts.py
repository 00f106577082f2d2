"""The charts of the page, declared as Vega-Lite.

A string that begins with ``$`` is filled in by the page's script, which knows the reader's choice
and the width there is; rows are given to the data set ``rows``. Nothing that a spec or a bank is
called enters an expression: labels come as values of parameters, rows as data. Colours are the
page's own CSS variables, so that a chart follows light, dark and print without being drawn again.
"""

from __future__ import annotations

from typing import Any

Spec = dict[str, Any]

SANS = "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_SERIES = [f"var(--s{at})" for at in range(1, 9)]
_KINDS = ["of the grid", "chosen on val", "theory"]

CONFIG: Spec = {
    "background": "transparent",
    "font": SANS,
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--muted)",
        "titleColor": "var(--ink)",
        "titleFontWeight": 500,
        "titleFontSize": 12,
        "labelFontSize": 11,
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
        "gridColor": "var(--grid)",
        "titlePadding": 8,
        "labelPadding": 5,
    },
    "legend": {
        "orient": "top",
        "direction": "horizontal",
        "labelColor": "var(--ink)",
        "titleColor": "var(--muted)",
        "titleFontWeight": 400,
        "titleFontSize": 11,
        "labelFontSize": 11,
        "symbolStrokeWidth": 2,
        "titleOrient": "left",
        "titlePadding": 8,
        "columnPadding": 14,
        "offset": 6,
        "padding": 0,
    },
    "header": {"labelColor": "var(--ink)", "labelFontSize": 12.5, "labelFontWeight": 600},
    "range": {"category": _SERIES},
}


def make_charts() -> dict[str, Spec]:
    """Return all charts by name, and their common configuration under ``config``."""
    return {
        "config": CONFIG,
        "improvement": _improvement(),
        "path": _path(),
        "tradeoff": _tradeoff(),
        "reliability": _reliability(),
        "differences": _differences(),
        "contrasts": _contrasts(),
    }


def _tooltip(**titles: str) -> list[Spec]:
    return [{"field": field, "title": title, "type": "nominal"} for field, title in titles.items()]


def _zero(axis: str) -> Spec:
    return {
        "mark": {"type": "rule", "strokeDash": [4, 3], "color": "var(--muted)", "opacity": 0.7},
        "encoding": {axis: {"datum": 0, "type": "quantitative"}},
    }


def _labelled(field: str, title: str) -> Spec:
    """Return an axis whose ticks stand at ``$ticks`` and read the parameter ``labels``."""
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"domain": "$domain", "nice": False, "zero": False},
        "axis": {
            "values": "$ticks",
            "labelExpr": "labels[indexof(ticks, datum.value)]",
            "grid": False,
            "title": title,
            "labelAngle": "$labelAngle",
            "labelOverlap": "$labelOverlap",
        },
    }


def _parameters() -> list[Spec]:
    return [{"name": "ticks", "value": "$ticks"}, {"name": "labels", "value": "$labels"}]


def _series() -> Spec:
    return {
        "field": "series",
        "type": "nominal",
        "sort": "$series",
        "scale": {"domain": "$series", "range": _SERIES},
        "legend": {"title": "$seriesTitle", "columns": "$legendColumns", "symbolOpacity": 1},
    }


def _value(field: str, title: str, **more: Any) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"zero": False},
        **more,
    }


def _improvement() -> Spec:
    """Improvement against shots or ways; one panel per method, series by the other of the two."""
    y = _value("value", "$metric", axis={"tickCount": 6})
    tooltip = _tooltip(
        title="Method",
        setting="Setting",
        shown="$metric",
        classes="Interval over classes",
        base="Accuracy without",
        lambda_="λ",
        won="Trials won",
        trials="Trials",
        p="p (Holm)",
    )
    layers = [
        _zero("y"),
        {
            "mark": {"type": "rule", "strokeWidth": 5, "opacity": 0.18},
            "encoding": {"y": {"field": "classesLow"}, "y2": {"field": "classesHigh"}},
        },
        {
            "mark": {"type": "line", "strokeWidth": 1.5, "opacity": 0.55},
            "encoding": {"y": y, "detail": {"field": "line"}},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"y": {"field": "low"}, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 62, "opacity": 1},
            "encoding": {"y": y, "tooltip": tooltip},
        },
    ]
    # The rule at zero belongs to all series: colour and x are those of the other layers.
    shared = {"x": _labelled("x", "$xTitle"), "color": _series()}
    for layer in layers[1:]:
        layer["encoding"] = {**shared, **layer["encoding"]}
        layer["encoding"]["y"] = {**y, **layer["encoding"]["y"]}
    return {
        "data": {"name": "rows"},
        "params": _parameters(),
        "facet": {
            "field": "title",
            "type": "nominal",
            "title": None,
            "sort": "$titles",
            "header": {"labelLimit": "$width"},
        },
        "columns": "$columns",
        "spec": {"width": "$width", "height": "$height", "layer": layers},
    }


def _kind() -> Spec:
    """Return how a coefficient is marked: large where it is the chosen or the theory's."""
    shapes = {"domain": _KINDS, "range": ["circle", "circle", "diamond"]}
    sizes = {"domain": _KINDS, "range": [8, 170, 130]}
    return {
        "shape": {"field": "kind", "type": "nominal", "scale": shapes, "legend": None},
        "size": {"field": "kind", "type": "ordinal", "scale": sizes, "legend": None},
    }


def _along() -> list[Spec]:
    return _tooltip(
        setting="Setting",
        lambda_="λ",
        kind="Which",
        accuracy="Accuracy",
        gain="Against λ = 0",
        nll="nll",
        brier="Brier",
        ece="ECE (pooled)",
        trials="Trials",
    )


def _marked(x: Spec, y: Spec) -> Spec:
    return {
        "mark": {"type": "point", "strokeWidth": 2, "opacity": 1},
        "encoding": {
            "x": x,
            "y": y,
            "color": _series(),
            "tooltip": _along(),
            **_kind(),
        },
    }


def _path() -> Spec:
    """Scores along λ, with the chosen and the theory's value marked."""
    x, y = _labelled("x", "λ"), _value("value", "$metric", axis={"tickCount": 6})
    on_grid = {"filter": "datum.kind !== 'theory'"}
    return {
        "data": {"name": "rows"},
        "params": _parameters(),
        "width": "$width",
        "height": "$height",
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.14},
                "transform": [on_grid],
                "encoding": {
                    "x": x,
                    "y": {**y, "field": "low"},
                    "y2": {"field": "high"},
                    "color": _series(),
                },
            },
            {
                "mark": {"type": "line", "strokeWidth": 1.8},
                "transform": [on_grid],
                "encoding": {"x": x, "y": y, "color": _series()},
            },
            _marked(x, y),
        ],
    }


def _tradeoff() -> Spec:
    """Accuracy against calibration: one path per series, each point a λ."""
    roomy = {"zero": False, "nice": False, "padding": 24}  # for the tags at the ends of the paths
    x = _value("loss", "$lossTitle", axis={"tickCount": 6}, scale=roomy)
    y = _value("percent", "Accuracy (%)", axis={"tickCount": 6}, scale=roomy)
    return {
        "data": {"name": "rows"},
        "width": "$width",
        "height": "$height",
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 1.5, "opacity": 0.6},
                "transform": [{"filter": "datum.kind !== 'theory'"}],
                "encoding": {"x": x, "y": y, "color": _series(), "order": {"field": "coefficient"}},
            },
            _marked(x, y),
            {
                "mark": {
                    "type": "text",
                    "dy": -11,
                    "fontSize": 10,
                    "color": "var(--muted)",
                },
                "encoding": {"x": x, "y": y, "text": {"field": "tag"}},
            },
        ],
    }


def _states() -> Spec:
    return {
        "field": "series",
        "type": "nominal",
        "sort": "$states",
        "scale": {"domain": "$states", "range": "$stateColours"},
        "legend": {"title": None, "columns": "$legendColumns", "symbolOpacity": 1},
    }


def _reliability() -> Spec:
    """Accuracy against confidence, pooled over all trials, without and with the penalty."""
    unit = {"scale": {"domain": [0, 1], "nice": False}, "axis": {"format": "%", "tickCount": 5}}
    x = {"field": "confidence", "type": "quantitative", "title": "Confidence", **unit}
    y = {"field": "hit", "type": "quantitative", "title": "Accuracy", **unit}
    tooltip = _tooltip(
        series="Which", bin="Bin", shown="Accuracy", sure="Mean confidence", share="Queries"
    )
    diagonal = [{"confidence": 0, "hit": 0}, {"confidence": 1, "hit": 1}]
    return {
        "data": {"name": "rows"},
        "width": "$width",
        "height": "$height",
        "layer": [
            {
                "data": {"values": diagonal},
                "mark": {"type": "line", "strokeDash": [4, 3], "color": "var(--muted)"},
                "encoding": {"x": x, "y": y},
            },
            {
                "mark": {"type": "line", "strokeWidth": 1.6, "opacity": 0.7},
                "encoding": {"x": x, "y": y, "color": _states()},
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 0.85},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": _states(),
                    "tooltip": tooltip,
                    "size": {
                        "field": "part",
                        "type": "quantitative",
                        "scale": {"domain": [0, 1], "range": [12, 420]},
                        "legend": None,
                    },
                },
            },
        ],
    }


def _differences() -> Spec:
    """Histogram of the per-trial differences in accuracy to λ = 0."""
    x = _value("low", "Accuracy gained in a trial (points)", axis={"tickCount": 7, "grid": False})
    theory_is = {"test": "datum.theory"}  # an outline over the filled bars of the chosen
    bars = {
        "mark": {"type": "rect", "strokeWidth": 1.5},
        "encoding": {
            "x": x,
            "x2": {"field": "high"},
            "y": {
                "field": "part",
                "type": "quantitative",
                "title": "Share of trials",
                "axis": {"format": "%", "tickCount": 5},
                "scale": {"zero": True},
            },
            "y2": {"datum": 0},
            "fill": _states(),
            "stroke": _states(),
            "fillOpacity": {"condition": {**theory_is, "value": 0.08}, "value": 0.5},
            "strokeOpacity": {"condition": {**theory_is, "value": 1}, "value": 0},
            "tooltip": _tooltip(series="Which", range="Gained", shown="Trials"),
        },
    }
    return {
        "data": {"name": "rows"},
        "width": "$width",
        "height": "$height",
        "layer": [bars, _zero("x")],
    }


def _contrasts() -> Spec:
    """Differences to the other methods on the same trials, each at its own coefficient."""
    y = {
        "field": "setting",
        "type": "nominal",
        "sort": "$settings",
        "title": None,
        "axis": {"labelLimit": 150, "ticks": False, "domain": False},
    }
    x = _value("value", "Accuracy gained over the other (points)", axis={"tickCount": 6})
    shared = {"y": y, "yOffset": {"field": "series", "sort": "$series"}, "color": _series()}
    tooltip = _tooltip(
        setting="Setting",
        series="Against",
        shown="Difference",
        classes="Interval over classes",
        nll="nll difference",
        trials="Trials",
        p="p (Holm)",
    )
    return {
        "data": {"name": "rows"},
        "width": "$width",
        "height": "$height",
        "layer": [
            _zero("x"),
            {
                "mark": {"type": "rule", "strokeWidth": 5, "opacity": 0.18},
                "encoding": {
                    **shared,
                    "x": {**x, "field": "classesLow"},
                    "x2": {"field": "classesHigh"},
                },
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {**shared, "x": {**x, "field": "low"}, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {**shared, "x": x, "tooltip": tooltip},
            },
        ],
    }
