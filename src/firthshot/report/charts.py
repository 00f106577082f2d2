"""The charts of the page, declared as Vega-Lite.

A string that begins with ``$`` is filled in by the page's script, which knows the reader's choice
and the width there is; rows are given to the data set ``rows``. Nothing that a spec or a bank is
called enters an expression: labels come as values of parameters, rows as data. Colours are the
page's own CSS variables, so that a chart follows light, dark and print without being drawn again.
"""

from __future__ import annotations

from firthshot.report.chart_parts import (
    CONFIG,
    Spec,
    hints,
    labelled,
    parameters,
    series,
    value,
    zero,
)

_USES = ["λ > 0", "λ = 0 chosen"]
_KINDS = ["of the grid", "chosen on val", "theory"]


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


def _improvement() -> Spec:
    """Improvement against shots or ways; one panel per method, series by the other of the two."""
    y = value("value", "$metric", axis={"tickCount": 6})
    tooltip = hints(
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
        zero("y"),
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
            "mark": {"type": "point", "filled": True, "size": 62, "opacity": 1, "angle": 45},
            "encoding": {"y": y, "tooltip": tooltip, "shape": _in_use()},
        },
    ]
    # The rule at zero belongs to all series: colour and x are those of the other layers.
    shared = {"x": labelled("x", "$xTitle"), "color": series()}
    for layer in layers[1:]:
        layer["encoding"] = {**shared, **layer["encoding"]}
        layer["encoding"]["y"] = {**y, **layer["encoding"]["y"]}
    return {
        "data": {"name": "rows"},
        "params": parameters(),
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


def _in_use() -> Spec:
    """Return how a setting is marked: a cross where λ = 0 was chosen, which is no null result."""
    return {
        "field": "use",
        "type": "nominal",
        "scale": {"domain": _USES, "range": ["circle", "cross"]},
        "legend": "$useLegend",
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
    return hints(
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
            "color": series(),
            "tooltip": _along(),
            **_kind(),
        },
    }


def _path() -> Spec:
    """Scores along λ, with the chosen and the theory's value marked."""
    x, y = labelled("x", "λ"), value("value", "$metric", axis={"tickCount": 6})
    on_grid = {"filter": "datum.kind !== 'theory'"}
    return {
        "data": {"name": "rows"},
        "params": parameters(),
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
                    "color": series(),
                },
            },
            {
                "mark": {"type": "line", "strokeWidth": 1.8},
                "transform": [on_grid],
                "encoding": {"x": x, "y": y, "color": series()},
            },
            _marked(x, y),
        ],
    }


def _tradeoff() -> Spec:
    """Accuracy against calibration: one path per series, each point a λ."""
    roomy = {"zero": False, "nice": False, "padding": 24}  # for the tags at the ends of the paths
    x = value("loss", "$lossTitle", axis={"tickCount": 6}, scale=roomy)
    y = value("percent", "Accuracy (%)", axis={"tickCount": 6}, scale=roomy)
    return {
        "data": {"name": "rows"},
        "width": "$width",
        "height": "$height",
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 1.5, "opacity": 0.6},
                "transform": [{"filter": "datum.kind !== 'theory'"}],
                "encoding": {"x": x, "y": y, "color": series(), "order": {"field": "coefficient"}},
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
    tooltip = hints(
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
    x = value("low", "Accuracy gained in a trial (points)", axis={"tickCount": 7, "grid": False})
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
            "tooltip": hints(series="Which", range="Gained", shown="Trials"),
        },
    }
    return {
        "data": {"name": "rows"},
        "width": "$width",
        "height": "$height",
        "layer": [bars, zero("x")],
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
    x = value("value", "Accuracy gained over the other (points)", axis={"tickCount": 6})
    shared = {"y": y, "yOffset": {"field": "series", "sort": "$series"}, "color": series()}
    tooltip = hints(
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
            zero("x"),
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
