"""What ``firthshot run`` prints and writes after training: table, verdict, warnings, report."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firthshot.cli._screen import plain, say, screen

if TYPE_CHECKING:
    from rich.console import Console

    from firthshot.experiments.runner import RunOutcome
    from firthshot.experiments.summary import RunSummary
    from firthshot.report.gather import Gathered


DEAL = (
    "λ is chosen on val classes. To have some: firthshot bank export BANK --out all.npz, then "
    "firthshot bank import all.npz --val-classes 0.5 --out new.bank"
)
DRAWN = (
    "The number of artificial rows chosen too, before → after: on the val classes, and as the "
    "paper did, on the novel trials themselves:"
)
BOTH = (
    'λ is chosen on val classes, which "splits" leaves out: run again with --set '
    '\'splits=["val", "novel"]\' into another folder (--out).'
)


def resume_command(folder: Path) -> str:
    """Return the command that goes on with a run."""
    return f"firthshot run {shlex.quote(str(folder))}"


def outdated_words(folder: Path) -> str:
    """Say that a report lacks results, and how to renew it."""
    command = f"firthshot report {shlex.quote(str(folder))}"
    return f"{folder}/report.html is older than the results; renew it with: {command}"


def finish(outcome: RunOutcome, folder: Path, report: bool, console: Console) -> None:
    """Print what a run found and what failed, and write its report: both from one summary.

    A quiet console gets only what went wrong.
    """
    from firthshot.report.gather import gather

    gathered = None
    if outcome.summary is not None and (report or not console.quiet):
        gathered = gather([folder], outcome.summary)
        if not console.quiet:
            show_results(gathered, console)
    kept = f"; {outcome.resumed:,} of {outcome.cells:,} cells were there before"
    trained = f"{outcome.classifiers:,} classifiers trained{kept * bool(outcome.resumed)}"
    say(console, f"{trained}. All tables are in {folder}/summary.")
    _tell_losses(outcome, folder)
    finish_report(folder, gathered if report else None, console)


def finish_report(folder: Path, runs: list[Path] | Gathered | None, console: Console) -> None:
    """Write the report that is wanted, or say that the one of the folder is outdated."""
    from firthshot.experiments.run.status import page_outdated

    if runs is not None:
        write_page(runs, None, console)
    elif page_outdated(folder):
        say(console, outdated_words(folder))


def write_page(runs: list[Path] | Gathered, out: Path | None, console: Console) -> None:
    """Write the report of one or several runs, and say where it is."""
    from firthshot.cli.report import FigureCount
    from firthshot.report.build import write_report

    say(console, "Writing the report: figures, tables and the page.")
    page = write_report(runs, out, drawn=None if console.quiet else FigureCount())
    say(console, f"The report is {page}")


def _tell_losses(outcome: RunOutcome, folder: Path) -> None:
    console = screen()  # never quiet
    if outcome.failed:
        count = f"{len(outcome.failed)} of {outcome.cells:,} cells failed"
        why = f"reasons in {folder}/failures"
        say(console, f"{count} ({why}); retry them with: {resume_command(folder)}")


def show_results(gathered: Gathered, console: Console) -> None:
    """Print the table of improvements, the verdict and the warnings."""
    summary = gathered.summary
    found = overview(summary)
    if found.rows:
        say(console, found.title)
        show_lines(console, found.rows)
    if found.legend:
        say(console, found.legend)
    if drawn := drawn_overview(summary):
        say(console, DRAWN)
        show_lines(console, drawn)
    for line in _verdict(gathered):
        say(console, line)
    if summary.not_judged:
        asked = all("val" in run.spec.get("splits", ("val",)) for run in gathered.runs)
        say(console, DEAL if asked else BOTH)
    for line in summary.warnings:
        say(console, f"Note: {line}")


def _verdict(gathered: Gathered) -> tuple[str, ...]:
    """Return the answer at the top of the page, in the same words."""
    from firthshot.report.page.render import trials_headline

    if not gathered.verdicts and not gathered.summary.unjudged:
        return ()
    headline = trials_headline(gathered)
    lines = (*headline.lines, *headline.more)
    return (f"{headline.question} {headline.answer}", *(f"- {line}" for line in lines))


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
    from firthshot.experiments.statistics import ALPHA

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

    from firthshot.experiments.schema import SPLITLESS

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
    from firthshot.experiments.statistics import ALPHA

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
