"""How the report of ``firthshot fit`` looks, at a terminal and in a plain pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firthshot.cli._screen import facts, pair, plain
from firthshot.cli._screen import table as make_table

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console, RenderableType

    from firthshot.own_data import FitReport

MOST_CLASSES = 12
SOURCES = {
    "given": "as given",
    "shots": "one over the square of the rows per class",
    "default": "the default",
    "theory": "Firth's own value, K·rank(X)/(2N)",
    "loo": "chosen by leave-one-out",
    "fallback": "stated fallback: no row could be left out",
    "scale": "from the spread of the rows",
}


def show_report(console: Console, report: FitReport) -> None:
    """Print everything but warnings and the next step."""
    console.print(
        plain(
            f"{report.source}: {report.rows} rows, {report.features} "
            f"feature{'s' * (report.features != 1)}, {len(report.counts)} classes",
            "bold",
        )
    )
    console.print(_counts(report.counts))  # it has empty lines around it
    console.print(facts(_lines(report)))


def show_warnings(console: Console, sentences: list[str]) -> None:
    """Print one line per warning."""
    if not sentences:
        return
    console.print()
    for sentence in sentences:
        console.print(pair(plain("warning", "yellow"), plain(sentence), 10))


def show_next(console: Console, model: Path, command: str) -> None:
    """Say where the model is, and what to do with it."""
    console.print()
    console.print(plain(f"Wrote {model}. Next:", "bold"))
    console.print(plain(f"  {command}"), soft_wrap=True)


def _counts(counts: dict[str, int]) -> RenderableType:
    table = make_table("class", "examples", right=("examples",))
    for name, count in list(counts.items())[:MOST_CLASSES]:
        table.add_row(plain(name), str(count))
    hidden = list(counts.values())[MOST_CLASSES:]
    if hidden:
        each = str(min(hidden)) if min(hidden) == max(hidden) else f"{min(hidden)} to {max(hidden)}"
        table.add_row(plain(f"… and {len(hidden)} more", "dim"), plain(f"{each} each", "dim"))
    return table


def _lines(report: FitReport) -> dict[str, str]:
    encoder = {} if report.encoder is None else {"encoder": report.encoder}
    lines = {
        **encoder,
        "head": report.head + ("" if report.converged else ", NOT converged"),
        "lam": f"{report.lam:.4g}, {SOURCES.get(report.lam_source, report.lam_source)}",
        "l2": f"{report.l2:.4g}, {SOURCES.get(report.l2_source, report.l2_source)}",
        "temperature": f"{report.temperature:.3g}",
    }
    left = report.left_out
    if left is None:
        lines["leave-one-out"] = _why_not(report)
        return lines
    lines["leave-one-out"] = (
        f"accuracy {100 * left.accuracy:.1f} % of {left.rows} rows, "
        f"nll {left.nll:.3f}, ECE {left.ece:.3f}"
    )
    if report.temperature != 1.0:
        lines["  calibrated"] = f"nll {left.nll_calibrated:.3f}, ECE {left.ece_calibrated:.3f}"
    lines["mixed up most"] = _confusion(report)
    return lines


def _why_not(report: FitReport) -> str:
    if max(report.counts.values()) == 1:
        return "not possible with one example per class"
    return f"left away for {report.rows} rows; keep some aside and predict them"


def _confusion(report: FitReport) -> str:
    mixed = report.mixed_up
    if mixed is None:
        return "no two classes: every left-out row was right"
    ways = [
        f"{a!r} taken for {b!r} {times(n)}"
        for a, b, n in (
            (mixed.one, mixed.other, mixed.one_as_other),
            (mixed.other, mixed.one, mixed.other_as_one),
        )
        if n
    ]
    return ", ".join(ways)


def times(count: int) -> str:
    """Return a count in words: once, twice, 3 times."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
