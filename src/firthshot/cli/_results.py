"""What ``firthshot run`` prints and writes after training: table, verdict, warnings, report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from firthshot.cli._screen import say, screen

if TYPE_CHECKING:
    from rich.console import Console

    from firthshot.experiments.runner import RunOutcome
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
    from firthshot.experiments.run.status import dropped_trials

    console = screen()  # never quiet
    if lost := dropped_trials(folder):
        why = "because some of their features are NaN or infinite"
        say(console, f"Warning: {lost}, {why}. Look with: firthshot bank check BANK")
    if outcome.failed:
        count = f"{len(outcome.failed)} of {outcome.cells:,} cells failed"
        why = f"reasons in {folder}/failures"
        say(console, f"{count} ({why}); retry them with: {resume_command(folder)}")


def show_results(gathered: Gathered, console: Console) -> None:
    """Print the table of improvements, the verdict and the warnings."""
    from firthshot.cli._overview import drawn_overview, overview, show_lines

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
