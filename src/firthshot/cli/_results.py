"""What ``firthshot run`` prints and writes after training: table, verdict, warnings, report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firthshot.cli._screen import say

if TYPE_CHECKING:
    from firthshot.experiments.runner import RunOutcome
    from firthshot.experiments.summary import RunSummary


def resume_command(folder: Path) -> str:
    """Return the command that goes on with a run."""
    return f"firthshot run {shlex.quote(str(folder))}"


def outdated_words(folder: Path) -> str:
    """Say that a report lacks results, and how to renew it."""
    command = f"firthshot report {shlex.quote(str(folder))}"
    return f"{folder}/report.html is older than the results; renew it with: {command}"


def tell(outcome: RunOutcome, folder: Path, quiet: bool, console: Any) -> None:
    """Print what was found and what failed."""
    from firthshot.experiments.run.dropped import dropped_trials, dropped_words

    if not quiet:
        show_results(folder, console)
        say(
            console,
            f"{outcome.classifiers:,} classifiers trained now, {outcome.resumed:,} of "
            f"{outcome.cells:,} cells were there before; all tables are in {folder}/summary.",
        )
    if lost := dropped_words(dropped_trials(folder)):
        say(
            console,
            f"Warning: {lost}, as some of their features are NaN or infinite; look at them with: "
            "firthshot bank doctor BANK",
        )
    if outcome.failed:
        say(
            console,
            f"{len(outcome.failed)} of {outcome.cells:,} cells failed (reasons in "
            f"{folder}/failures); retry them with: {resume_command(folder)}",
        )


def report_folder(folder: Path, wanted: bool, quiet: bool, console: Any) -> None:
    """Write the report of whatever is finished, and say where it is, or that it is outdated."""
    from firthshot.experiments.run.status import page_outdated

    if not wanted and not quiet and page_outdated(folder):
        say(console, outdated_words(folder))
    if not wanted or not any((folder / "parts").glob("*.parquet")):
        return
    from firthshot.cli.report import write

    if not quiet:
        say(console, "Writing the report: figures, tables and the page.")
    page = write([folder], quiet=quiet)
    if not quiet:
        say(console, f"The report is {page}")


def show_results(folder: Path, console: Any) -> None:
    from firthshot.cli._overview import drawn_overview, overview
    from firthshot.experiments.summary import read_summary

    if not (folder / "summary" / "warnings.json").is_file():  # nothing is finished
        return
    summary = read_summary(folder)
    found = overview(summary)
    if found.table is not None:
        say(console, found.title)
        console.print(found.table)
    if found.legend:
        say(console, found.legend)
    if (drawn := drawn_overview(summary)) is not None:
        say(
            console,
            "The number of artificial rows chosen too, before → after: on the val classes, and as "
            "the paper did, on the novel trials themselves:",
        )
        console.print(drawn)
    for line in _verdict(summary):
        say(console, line)
    for line in summary.warnings:
        say(console, f"Note: {line}")


def _verdict(summary: RunSummary) -> tuple[str, ...]:
    """Return the answer at the top of the page, in the same words."""
    from firthshot.report.gather import Gathered
    from firthshot.report.headline import make_headline
    from firthshot.report.verdict import make_verdicts

    verdicts = make_verdicts(Gathered(summary, ()))
    if not verdicts and not summary.unjudged:
        return ()
    headline = make_headline(verdicts, summary.unjudged)
    return (f"{headline.question} {headline.answer}", *(f"- {line}" for line in headline.lines))
