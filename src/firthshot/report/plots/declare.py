"""The plots of a report, each declared once: fields of a tidy table, marks and titles.

`paper` draws them with matplotlib, `vega` writes them as Vega-Lite for the page. The page's script
fills in what begins with ``$``: it knows the reader's choice and the width there is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Look:
    """How a kind of point looks: shape and area on the page; marker, size and name on paper.

    Without a marker it has that of its series, without a colour the series' own.
    """

    shape: str
    area: int
    marker: str = ""
    size: float = 4.0
    colour: str = ""
    hollow: bool = False
    name: str = ""


@dataclass(frozen=True)
class Mark:
    """A layer of a plot."""

    kind: str  # zero, diagonal, line, interval, band, points, bars, columns, steps or tag
    # fields of the ends of intervals, bands and bars
    low: str = "low"
    high: str = "high"
    by: str = ""  # field whose value chooses a `Look`, and the looks
    looks: dict[str, Look] = field(default_factory=dict)
    on_grid: bool = False  # leave out the theory's λ
    on: tuple[str, ...] = ("page", "paper")  # where it is drawn
    look: dict[str, Any] = field(default_factory=dict)  # options of the Vega-Lite mark


@dataclass(frozen=True)
class Axis:
    """An axis: its column, title (of the page, and of paper where that differs), and scale.

    ``scale`` is number, share (0 to 1), labelled (named ticks, which the page's script knows) or
    names (one line per name).
    """

    column: str
    title: str
    paper: str = ""
    scale: str = "number"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plot:
    """A plot: its name, what it shows along which fields, and what a point tells."""

    name: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    hints: dict[str, str] = field(default_factory=dict)
    series: str = "series"  # or "states": without penalty, chosen λ, theory λ
    panel: str = ""
    title: str = ""
    caption: str = ""


BLUE, RED, GREEN = "#0072B2", "#D55E00", "#009E73"
PAGE, PAPER = ("page",), ("paper",)
ZERO = Mark("zero")
_CLASSES = Mark(
    "interval", "classesLow", "classesHigh", on=PAGE, look={"strokeWidth": 5, "opacity": 0.18}
)
_TRIALS = Mark("interval", look={"strokeWidth": 2})
_USES = {
    "λ > 0": Look("circle", 62),
    "λ = 0 chosen": Look("cross", 62, "x", 4.5, name="λ = 0 chosen"),
}
_KINDS = {
    "of the grid": Look("circle", 8, "o", 3, BLUE),
    "chosen on val": Look("circle", 170, "*", 10, RED, name="chosen λ"),
    "theory": Look("diamond", 130, "D", 5, GREEN, hollow=True, name="theory λ"),
}
_ALONG = {
    "setting": "Setting",
    "lambda_": "λ",
    "kind": "Which",
    "accuracy": "Accuracy",
    "gain": "Against λ = 0",
    "nll": "nll",
    "brier": "Brier",
    "ece": "ECE (pooled)",
    "trials": "Trials",
}

IMPROVEMENT = Plot(
    "improvement",
    Axis("x", "$xTitle", scale="labelled"),
    Axis("value", "$metric", "improvement (points)"),
    (
        ZERO,
        _CLASSES,
        Mark("line", look={"strokeWidth": 1.5, "opacity": 0.55, "detail": "line"}),
        _TRIALS,
        Mark("points", by="use", looks=_USES, look={"filled": True}),
    ),
    {
        "title": "Method",
        "setting": "Setting",
        "shown": "$metric",
        "classes": "Interval over classes",
        "base": "Accuracy without",
        "lambda_": "λ",
        "won": "Trials won",
        "trials": "Trials",
        "p": "p (Holm)",
    },
    panel="title",
)
UNBALANCED = Plot(
    "unbalanced",
    IMPROVEMENT.x,
    IMPROVEMENT.y,
    (ZERO, Mark("columns"), _TRIALS, IMPROVEMENT.marks[-1]),
)
PATH = Plot(
    "path",
    Axis("x", "λ", scale="labelled"),
    Axis("value", "$metric", "gain on validation\nclasses (points)"),
    (
        Mark("band", look={"opacity": 0.14}, on_grid=True),
        Mark("line", look={"strokeWidth": 1.8}, on_grid=True),
        Mark("points", by="kind", looks=_KINDS, look={"strokeWidth": 2}),
    ),
    _ALONG,
    title="Gain on the validation classes against λ",
    caption="Mean accuracy on the validation classes minus that at λ = 0, on one scale. "
    "Star: the λ chosen there (largest mean accuracy, of equal ones the smallest); diamond: the "
    "tuning-free theory value K rank(X)/(2N), trained beside the grid. Bars: 95 % intervals of "
    "the paired difference to λ = 0.",
)
_ROOMY = {"scale": {"zero": False, "nice": False, "padding": 24}}  # for the tags at the ends
TRADE_OFF = Plot(
    "tradeoff",
    Axis("loss", "$lossTitle", "ECE on novel classes (%)", options=_ROOMY),
    Axis("percent", "Accuracy (%)", "accuracy on\nnovel classes (%)", options=_ROOMY),
    (
        Mark(
            "line", look={"strokeWidth": 1.5, "opacity": 0.6, "order": "coefficient"}, on_grid=True
        ),
        Mark(
            "points",
            by="end",
            looks={
                "first": Look("", 0, "o", 9, BLUE, hollow=True, name="λ = 0"),
                "last": Look("", 0, "s", 5, BLUE, name="largest λ"),
            },
            on=PAPER,
        ),
        Mark("points", by="kind", looks=_KINDS, look={"strokeWidth": 2}),
        Mark("tag", on=PAGE),
    ),
    _ALONG,
    title="Accuracy and calibration along λ",
    caption="Accuracy against the expected calibration error (ECE, 15 bins pooled over all trials) "
    "on the novel classes; the line follows λ from 0 (hollow circle) to its largest value "
    "(square). Star: the λ chosen on the validation classes; diamond: the tuning-free theory "
    "value.",
)
RELIABILITY = Plot(
    "reliability",
    Axis("confidence", "Confidence", "confidence", "share"),
    Axis("hit", "Accuracy", "share correct", "share"),
    (
        Mark("diagonal"),
        Mark("line", look={"strokeWidth": 1.6, "opacity": 0.7}),
        Mark("points", by="size", look={"filled": True, "opacity": 0.85, "area": "part"}),
        Mark("strip", on=PAPER),
    ),
    {
        "series": "Which",
        "bin": "Bin",
        "shown": "Accuracy",
        "sure": "Mean confidence",
        "share": "Queries",
    },
    series="states",
    title="Reliability before and after",
    caption="Share of correct predictions against mean confidence on the novel classes, in 15 bins "
    "of confidence pooled over all trials; on the dashed line, confidence is right. Before: λ = 0; "
    "after: the λ chosen on the validation classes. The steps below show how the predictions "
    "spread over the bins (shares of all, each scaled to the largest); bins with fewer than 50 "
    "predictions have small markers.",
)
DIFFERENCES = Plot(
    "differences",
    Axis("low", "Accuracy gained in a trial (points)", "difference (points)"),
    Axis("part", "Share of trials", "share of trials (%)"),
    (Mark("bars"), ZERO),
    {"series": "Which", "range": "Gained", "shown": "Trials"},
    series="states",
    title="Per-trial differences",
    caption="Distribution over trials of the accuracy at the chosen λ minus that at λ = 0 of the "
    "same trial, on the novel classes (bars). Step line: the same at the theory value, where it "
    "was trained. Dashed: no difference; solid: the mean, with its 95 % interval.",
)
CONTRASTS = Plot(
    "contrasts",
    Axis("value", "Lead over the other method (points)"),
    Axis("setting", "", scale="names"),
    (ZERO, _CLASSES, _TRIALS, Mark("points", look={"filled": True})),
    {
        "setting": "Setting",
        "series": "Against",
        "shown": "Difference",
        "classes": "Interval over classes",
        "nll": "nll difference",
        "trials": "Trials",
        "p": "p (Holm)",
    },
)
CHARTS = (IMPROVEMENT, PATH, TRADE_OFF, RELIABILITY, DIFFERENCES, CONTRASTS)
