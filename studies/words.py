"""Numbers and Markdown of the tables of studies/reproduction/README.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from firthshot.report.wording import points, points_ci

SHORT = {
    "mini-resnet10": "mini",
    "mini-resnet10-bn-train-sorted": "mini, sorted",
    "cub-resnet10": "CUB",
    "cifarfs-efficientnet-lite0": "CIFAR-FS, EfficientNet",
    "cifarfs-wrn16-2": "CIFAR-FS, WRN-16-2",
    "clinc150-minilm": "CLINC150",
}


def table(rows: Iterable[dict[str, Any]], left: int = 1) -> list[str]:
    """Return a Markdown table, its columns named by the rows' keys.

    All but the first ``left`` columns are aligned to the right.
    """
    found = list(rows)
    if not found:
        return ["Not run yet."]
    marks = ["---" if at < left else "---:" for at in range(len(found[0]))]
    return [_line(found[0]), f"|{'|'.join(marks)}|", *(_line(row.values()) for row in found)]


def _line(cells: Iterable[Any]) -> str:
    return "| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |"


def gain(value: float | None, ci: float | None, significant: bool = False) -> str:
    """Return points of accuracy with their interval, bold if significant."""
    if value is None:
        return "–"
    if not value and not ci:
        return "0"
    words = points_ci(value, ci)
    return f"**{words}**" if significant else words


def span(low: float | None, high: float | None) -> str:
    """Return an interval in points, "–" where there is none."""
    return "–" if low is None or high is None else f"{points(low)} … {points(high)}"


def percent(fraction: float | None) -> str:
    """Return an accuracy in per cent."""
    return "–" if fraction is None else f"{100 * fraction:.1f}"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with this many decimals."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "−")


def change(value: float | None, digits: int = 3) -> str:
    """Return a difference with its sign."""
    return "–" if value is None else f"{value:+.{digits}f}".replace("-", "−")


def coefficient(value: float) -> str:
    """Return a coefficient as briefly as it can be told."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def short(bank: str) -> str:
    """Return a bank's short name."""
    return SHORT.get(bank, bank)
