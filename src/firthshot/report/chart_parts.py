"""What the charts of the page share: their configuration, axes, colours and hints."""

from __future__ import annotations

from typing import Any

Spec = dict[str, Any]

SANS = "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_SERIES = [f"var(--s{at})" for at in range(1, 9)]

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


def hints(**titles: str) -> list[Spec]:
    """Return what a point tells when it is pointed at: field → title."""
    return [{"field": field, "title": title, "type": "nominal"} for field, title in titles.items()]


def zero(axis: str) -> Spec:
    """Return a dashed rule where there is no difference."""
    return {
        "mark": {"type": "rule", "strokeDash": [4, 3], "color": "var(--muted)", "opacity": 0.7},
        "encoding": {axis: {"datum": 0, "type": "quantitative"}},
    }


def labelled(field: str, title: str) -> Spec:
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


def parameters() -> list[Spec]:
    """Return the places and labels of ticks, which the page's script fills in."""
    return [{"name": "ticks", "value": "$ticks"}, {"name": "labels", "value": "$labels"}]


def series() -> Spec:
    """Return the colour of a series, with its legend."""
    return {
        "field": "series",
        "type": "nominal",
        "sort": "$series",
        "scale": {"domain": "$series", "range": _SERIES},
        "legend": {"title": "$seriesTitle", "columns": "$legendColumns", "symbolOpacity": 1},
    }


def value(field: str, title: str, **more: Any) -> Spec:
    """Return an axis of numbers."""
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"zero": False},
        **more,
    }
