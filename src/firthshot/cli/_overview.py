"""What a run found as a small table for the terminal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from firthshot.cli._screen import plain
from firthshot.experiments.schema import SPLITLESS
from firthshot.experiments.statistics import ALPHA

if TYPE_CHECKING:
    from rich.console import Console

    from firthshot.experiments.summary import RunSummary

MARK = "*"
MOST_LINES = 40
LONGEST_NAME, SHORTEST_NAME = 30, 8
_NAMES = ("bank", "source")  # of any length: these give way to the numbers
_WORDS = (*_NAMES, "head", "penalty", "shots", "chosen on", "")
_SILENT = (*_NAMES, "penalty", "artificial")  # left out where they say the same everywhere
_ORDER = ("bank", "source", "head", "penalty", "prior", "ways", "shots", "shots_scheme")

Words = dict[str, str]  # the cells of a line by column


def show_lines(console: Console, rows: list[Words]) -> None:
    """Print lines as a table in which names are shortened, and numbers never.

    What is no terminal has no edge; a terminal that is too narrow even for short names gets
    numbers on two lines.
    """
    from rich.table import Table

    from firthshot.figures import shortened

    shown = _shown(rows)
    if not console.is_terminal:
        console.width = 10_000  # a file or a pipe, which rich takes for 80 columns wide
    room = console.width
    names = [name for name in shown if name in _NAMES]
    numbers = {name: cells for name, cells in shown.items() if name not in _NAMES}
    free = (room - _width(numbers)) // max(len(names), 1) - 1
    length = min(LONGEST_NAME, max(SHORTEST_NAME, free))
    shown |= {name: [shortened(cell, length) for cell in shown[name]] for name in names}
    wide = _width(shown) > room
    table = Table(box=None, padding=(0, 1, 0, 0))
    for name, cells in shown.items():
        number = name not in _WORDS
        longest = max((len(piece) for cell in cells for piece in cell.split()), default=0)
        table.add_column(
            plain(name),
            justify="right" if number else "left",
            no_wrap=not wide,
            overflow="fold",
            min_width=longest if number else None,
        )
    for row in zip(*shown.values(), strict=True):
        table.add_row(*map(plain, row))  # no markup: a bank may be called "[red]"
    console.print(table)


def _shown(rows: list[Words]) -> dict[str, list[str]]:
    """Return the columns; those that say nothing, or the same everywhere, are left out."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {
        name: cells
        for name, cells in columns.items()
        if any(cells) and not (name in _SILENT and len(set(cells)) == 1)
    }


def _width(columns: dict[str, list[str]]) -> int:
    return sum(max(map(len, (name, *cells))) + 1 for name, cells in columns.items())


@dataclass(frozen=True)
class Overview:
    """The improvements of a run: what the table shows, its lines, and what is to be known of it.

    There are no lines where nothing is finished, or where there would be more than MOST_LINES.
    """

    title: str = ""
    rows: list[Words] = field(default_factory=list)
    legend: str = ""


def overview(summary: RunSummary) -> Overview:
    """Return the improvements in points; without val rows, those of the theory's λ alone.

    Where nothing has a penalty there is nothing to gain, and the accuracies are shown.
    """
    if not summary.penalised:
        return _accuracies(summary, "no penalty was trained")
    rows, unjudged = _chosen(summary), summary.not_judged
    if not rows and not summary.chosen.is_empty():
        return _accuracies(summary, "of the heads without penalty")
    if not rows or len(rows) > MOST_LINES:
        return Overview(legend=" ".join(unjudged))
    if any(row["coefficient"] is not None for row in rows):
        title = "Points of accuracy gained on the novel classes, λ chosen on the val classes:"
    else:
        title = "Accuracy on the novel classes; without val classes no λ (–) was chosen:"
    marked = any(map(_mark, rows))
    legend = f"{MARK} significant: Wilcoxon, Holm-corrected over the table, p < {ALPHA:g}."
    return Overview(
        title,
        [_words(row) for row in rows],
        " ".join([*([legend] if marked else []), *unjudged]),
    )


def _accuracies(summary: RunSummary, which: str) -> Overview:
    rows = summary.chosen.sort(*_ORDER, "artificial").to_dicts()
    if not rows or len(rows) > MOST_LINES:
        return Overview()
    words = [
        _place(row)
        | {
            "artificial": str(row["artificial"]),
            "accuracy %": f"{100 * row['accuracy']:.2f}{_interval(row['accuracy_ci'])}",
        }
        for row in rows
    ]
    return Overview(f"Accuracy on the novel classes, {which}:", words)


def _chosen(summary: RunSummary) -> list[dict[str, Any]]:
    """Return the lines of ``chosen`` that have a penalty, and such settings as have no choice."""
    import polars as pl

    has_penalty = pl.col("penalty") != "none"
    novel = summary.all.filter(has_penalty, pl.col("split") == "novel")
    zero = novel.filter(~pl.col("theory"), pl.col("coefficient") == 0)
    columns = ("coefficient", "improvement", "improvement_ci")
    theory = novel.filter("theory").select(*SPLITLESS, pl.col(*columns).name.prefix("theory_"))
    unchosen = (
        zero.select(*SPLITLESS, base_accuracy="accuracy")
        .join(summary.chosen, on=SPLITLESS, how="anti", nulls_equal=True)
        .join(theory, on=SPLITLESS, how="left", nulls_equal=True)
    )
    both = pl.concat([summary.chosen.filter(has_penalty), unchosen], how="diagonal_relaxed")
    return both.sort(*_ORDER, "artificial").to_dicts()


def _mark(row: dict[str, Any]) -> str:
    tested = row["coefficient"] and row["improvement"]
    return MARK if tested and row["p_holm"] < ALPHA else ""


def drawn_overview(summary: RunSummary) -> list[Words]:
    """Return artificial rows and λ chosen together, where a run has Distribution Calibration."""
    import polars as pl

    lines = summary.calibration.sort(*_ORDER)
    # The fair choice first; the paper's is there to compare with its table.
    rows = lines.sort(pl.col("chosen_on") != "val", maintain_order=True).to_dicts()
    return [_drawn_words(row) for row in rows] if len(rows) <= MOST_LINES else []


def _drawn_words(row: dict[str, Any]) -> Words:
    return _place(row) | {
        "chosen on": row["chosen_on"],
        "artificial rows": f"{row['before_artificial']} → {row['artificial']}",
        "base %": f"{100 * row['base_accuracy']:.2f}",
        "λ": f"{row['coefficient']:g}",
        "gain": _gain(row["improvement"], row["improvement_ci"]),
    }


def _place(row: dict[str, Any]) -> Words:
    balanced = row["shots_scheme"] == "balanced"
    return {
        "bank": row["bank"],
        "source": row["source"] or "",
        "head": row["head"],
        "penalty": row["penalty"] + (" (frequency)" if row["prior"] == "class-frequency" else ""),
        "ways": str(row["ways"]),
        "shots": str(row["shots"]) if balanced else row["shots_scheme"],
    }


def _words(row: dict[str, Any]) -> Words:
    theory = row["theory_coefficient"]
    untrained = theory is None
    gain = "" if untrained else _gain(row["theory_improvement"], row["theory_improvement_ci"])
    return _place(row) | {
        "artificial": str(row["artificial"]),
        "base %": f"{100 * row['base_accuracy']:.2f}",
        "λ": "–" if row["coefficient"] is None else f"{row['coefficient']:g}",
        "gain": _gain(row["improvement"], row["improvement_ci"]),
        "": _mark(row),
        "theory": "" if untrained else f"{theory:.3g}",
        "theory gain": gain,
    }


def _gain(mean: float | None, half_width: float | None) -> str:
    """Return points; one trial has no interval, and without a trial there is nothing to tell."""
    if mean is None:
        return "–"
    if not mean and not half_width:
        return "0"
    points = round(100 * mean, 2) + 0.0
    return f"{points:{'+' if points else ''}.2f}{_interval(half_width)}"


def _interval(half_width: float | None) -> str:
    return "" if half_width is None else f" ± {100 * half_width:.2f}"
