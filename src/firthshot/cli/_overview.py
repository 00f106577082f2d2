"""What a run found as a small table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firthshot.cli._screen import plain
from firthshot.experiments.schema import SPLITLESS
from firthshot.experiments.statistics import ALPHA

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment
    from rich.table import Table

    from firthshot.experiments.summary import RunSummary

MARK = "*"
MOST_LINES = 40
LONGEST_NAME, SHORTEST_NAME = 30, 8
_NAMES = ("bank", "source")  # of any length: these give way to the numbers
_WORDS = (*_NAMES, "head", "penalty", "shots", "chosen on", "")
_SILENT = (*_NAMES, "penalty", "artificial")  # left out where they say the same everywhere
_ORDER = ("bank", "source", "head", "penalty", "prior", "ways", "shots", "shots_scheme")


@dataclass(frozen=True)
class Lines:
    """Rows of words as a table in which names are shortened, and numbers never.

    What is no terminal has no edge; a terminal that is too narrow even for short names gets
    numbers on two lines.
    """

    rows: list[dict[str, str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """Yield the table that fits."""
        if not console.is_terminal:
            # A file or a pipe: rich takes it for 80 columns wide and would cut the lines there.
            console.width = max(console.width, self._width(LONGEST_NAME))
            options = options.update_width(console.width)
        room = options.max_width
        lengths = range(LONGEST_NAME, SHORTEST_NAME - 1, -1)
        fits = (length for length in lengths if self._width(length) <= room)
        yield from console.render(self._table(next(fits, SHORTEST_NAME), room), options)

    def _shown(self) -> list[str]:
        """Return the columns; those that say nothing, or the same everywhere, are left out."""
        said = {name: {row[name] for row in self.rows} for name in self.rows[0]}
        silent = [name for name in _SILENT if len(said.get(name, ())) == 1]
        return [name for name in said if name not in silent and any(said[name])]

    def _cells(self, name: str, longest: int) -> list[str]:
        from firthshot.figures import shortened

        cells = [row[name] for row in self.rows]
        return [shortened(cell, longest) for cell in cells] if name in _NAMES else cells

    def _width(self, longest: int) -> int:
        from rich.cells import cell_len

        shown = self._shown()
        return sum(max(map(cell_len, (name, *self._cells(name, longest)))) + 1 for name in shown)

    def _longest_piece(self, name: str) -> int | None:
        """Return the width that a column of numbers needs so that none is broken."""
        pieces = [piece for row in self.rows for piece in row[name].split()]
        return None if name in _WORDS else max(map(len, pieces), default=0)

    def _table(self, longest: int, width: int) -> Table:
        from rich.table import Table

        table = Table(box=None, padding=(0, 1, 0, 0))
        shown = self._shown()
        wrap = self._width(longest) > width
        for name in shown:
            table.add_column(
                plain(name),
                justify="left" if name in _WORDS else "right",
                no_wrap=not wrap,
                overflow="fold",
                min_width=self._longest_piece(name),
            )
        columns = [self._cells(name, longest) for name in shown]
        for cells in zip(*columns, strict=True):
            table.add_row(*map(plain, cells))  # no markup: a bank may be called "[red]"
        return table


@dataclass(frozen=True)
class Overview:
    """The improvements of a run: what the table shows, the table, and what is to be known of it.

    There is no table where nothing is finished, or where it would be longer than MOST_LINES.
    """

    title: str = ""
    table: Lines | None = None
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
        Lines([_words(row) for row in rows]),
        " ".join([*([legend] if marked else []), *unjudged]),
    )


def _accuracies(summary: RunSummary, which: str) -> Overview:
    rows = summary.chosen.sort(*_ORDER, "artificial").to_dicts()
    if not rows or len(rows) > MOST_LINES:
        return Overview()
    words = [_place(row) | _accuracy_words(row) for row in rows]
    return Overview(f"Accuracy on the novel classes, {which}:", Lines(words))


def _accuracy_words(row: dict[str, Any]) -> dict[str, str]:
    width = row["accuracy_ci"]
    interval = "" if width is None else f" ± {100 * width:.2f}"
    return {
        "artificial": str(row["artificial"]),
        "accuracy %": f"{100 * row['accuracy']:.2f}{interval}",
    }


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


def drawn_overview(summary: RunSummary) -> Lines | None:
    """Return artificial rows and λ chosen together, where a run has Distribution Calibration."""
    import polars as pl

    lines = summary.calibration.sort(*_ORDER)
    # The fair choice first; the paper's is there to compare with its table.
    rows = lines.sort(pl.col("chosen_on") != "val", maintain_order=True).to_dicts()
    return Lines([_drawn_words(row) for row in rows]) if 0 < len(rows) <= MOST_LINES else None


def _drawn_words(row: dict[str, Any]) -> dict[str, str]:
    return _place(row) | {
        "chosen on": row["chosen_on"],
        "artificial rows": f"{row['before_artificial']} → {row['artificial']}",
        "base %": f"{100 * row['base_accuracy']:.2f}",
        "λ": f"{row['coefficient']:g}",
        "gain": _gain(row["improvement"], row["improvement_ci"]),
    }


def _place(row: dict[str, Any]) -> dict[str, str]:
    balanced = row["shots_scheme"] == "balanced"
    return {
        "bank": row["bank"],
        "source": row["source"] or "",
        "head": row["head"],
        "penalty": row["penalty"] + (" (frequency)" if row["prior"] == "class-frequency" else ""),
        "ways": str(row["ways"]),
        "shots": str(row["shots"]) if balanced else row["shots_scheme"],
    }


def _words(row: dict[str, Any]) -> dict[str, str]:
    theory = row["theory_coefficient"]
    return _place(row) | {
        "artificial": str(row["artificial"]),
        "base %": f"{100 * row['base_accuracy']:.2f}",
        "λ": "–" if row["coefficient"] is None else f"{row['coefficient']:g}",
        "gain": _gain(row["improvement"], row["improvement_ci"]),
        "": _mark(row),
        "theory": "" if theory is None else f"{theory:.3g}",
        "theory gain": ""
        if theory is None
        else _gain(row["theory_improvement"], row["theory_improvement_ci"]),
    }


def _gain(mean: float | None, half_width: float | None) -> str:
    """Return points; one trial has no interval, and without a trial there is nothing to tell."""
    if mean is None:
        return "–"
    if not mean and not half_width:
        return "0"
    points = round(100 * mean, 2)
    sign = "+" if points else ""  # as on the page
    return f"{points + 0.0:{sign}.2f}" + (
        "" if half_width is None else f" ± {100 * half_width:.2f}"
    )
