"""``firthshot run``: train what a preset or spec asks for, into a folder that can be resumed."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firthshot.cli._screen import say, screen

if TYPE_CHECKING:
    from firthshot.experiments.runner import RunOutcome
    from firthshot.experiments.spec import Spec
    from firthshot.experiments.summary import RunSummary


def run(
    source: Annotated[
        str,
        typer.Argument(metavar="PRESET|SPEC|DIR", help="A preset, a TOML file, or a run folder."),
    ],
    bank: Annotated[
        list[str] | None, typer.Option("--bank", help="Name or path of a bank; may be repeated.")
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Trials per cell of the table.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; else runs/NAME.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; else all cores.")] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Dask scheduler, or 'local' to start one here."),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any field of the spec; may be repeated."),
    ] = None,
    until_ci: Annotated[
        float | None,
        typer.Option(
            help="Add trials until the 95 % interval of every reported improvement (chosen λ and "
            "theory) is within ± this many points, or 10 × the trials (max_trials) are reached."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say only what went wrong.")] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="End with figures, tables and report.html.")
    ] = True,
) -> None:
    """Train what a preset or spec asks for, and report; the same command again resumes."""
    from firthshot.experiments.choose import bank_remark
    from firthshot.experiments.reading import source_kind

    if source_kind(source) == "geometric":
        from firthshot.cli._geometric import run_here

        foreign = {"--bank": bank, "--dask": dask, "--until-ci": until_ci}
        folder = run_here(source, foreign, trials, assignments, out, workers, quiet)
        _report(folder, report, quiet, screen())
        return
    spec = _resolve(source, bank, trials, assignments, until_ci)
    folder = out or (Path(source) if Path(source).is_dir() else Path("runs") / spec.name)
    console = screen()
    if not quiet:
        say(console, f"{spec.name}: {bank_remark(spec)} Into {folder}.")
    try:
        outcome = _run(spec, folder, workers, dask, quiet, console)
    except KeyboardInterrupt:
        _leave(folder, console)
    _tell(outcome, folder, quiet, console)
    _report(folder, report, quiet, console)
    if outcome.failed:
        raise typer.Exit(1)


def _resolve(
    source: str,
    banks: list[str] | None,
    trials: int | None,
    assignments: list[str] | None,
    until_ci: float | None,
) -> Spec:
    """Return the spec: flags over the file over defaults, the banks settled."""
    from firthshot.experiments.choose import settle_banks
    from firthshot.experiments.reading import load_spec, parse_assignment

    given: dict[str, Any] = dict(parse_assignment(text) for text in assignments or [])
    flags = {"banks": banks or None, "trials": trials, "until_ci": until_ci}
    given |= {key: value for key, value in flags.items() if value is not None}
    return settle_banks(load_spec(source, given))


def _run(
    spec: Spec, folder: Path, workers: int | None, dask: str | None, quiet: bool, console: Any
) -> RunOutcome:
    from firthshot.cli._progress import make_progress
    from firthshot.errors import FirthshotError
    from firthshot.experiments.runner import run as run_spec

    if dask is not None and workers is not None and dask != "local":
        raise FirthshotError("--workers is for this machine: your cluster has its own workers.")
    with make_progress(console, quiet) as progress:
        if dask is None:
            return run_spec(spec, folder, workers=workers, listener=progress)
        from firthshot.experiments.cluster import connect

        with connect(dask, workers) as compute:
            return run_spec(spec, folder, compute=compute, listener=progress)


def resume_command(folder: Path) -> str:
    """Return the command that goes on with a run."""
    return f"firthshot run {shlex.quote(str(folder))}"


def outdated_words(folder: Path) -> str:
    """Say that a report lacks results, and how to renew it."""
    command = f"firthshot report {shlex.quote(str(folder))}"
    return f"{folder}/report.html is older than the results; renew it with: {command}"


def _leave(folder: Path, console: Any) -> None:
    say(console, f"Stopped. Finished cells are kept; go on with: {resume_command(folder)}")
    sys.stdout.flush()
    sys.stderr.flush()
    # Cells still in the threads would hold a clean exit up for seconds, and parts are whole files.
    os._exit(130)


def _tell(outcome: RunOutcome, folder: Path, quiet: bool, console: Any) -> None:
    """Print what was found and what failed."""
    from firthshot.experiments.dropped import dropped_trials, dropped_words

    if not quiet:
        _show_results(folder, console)
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


def _report(folder: Path, wanted: bool, quiet: bool, console: Any) -> None:
    """Write the report of whatever is finished, and say where it is, or that it is outdated."""
    from firthshot.experiments.status import page_outdated

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


def _show_results(folder: Path, console: Any) -> None:
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
