"""``firthshot run``: train what a preset or spec asks for, into a folder that can be resumed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from firthshot.cli._options import Assignments, BankNames, Count, spec_fields
from firthshot.cli._results import finish, finish_report, resume_command, write_page
from firthshot.cli._screen import say, screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from firthshot.experiments.runner import RunOutcome
    from firthshot.experiments.spec import GeometricSpec, Spec


def run(
    source: str,
    bank: BankNames = None,
    trials: Count = None,
    out: Path | None = None,
    workers: Count = None,
    dask: str | None = None,
    assignments: Assignments = None,
    until_ci: float | None = None,
    quiet: bool = False,
    report: bool = True,
) -> None:
    """Run an experiment and report it; repeat the command to resume."""
    from firthshot.experiments.spec import Spec, load_any, presets_of, run_folder, settle_banks

    given = spec_fields(assignments, banks=bank, trials=trials, until_ci=until_ci)
    presets, console = presets_of(source), screen(quiet=quiet)
    together = len(presets) > 1
    folders, failed = [], False
    for name in presets:
        spec = load_any(name, given)
        spec = settle_banks(spec) if isinstance(spec, Spec) else spec
        own = out / name if out and together else out or run_folder(name)
        folders.append(own or _own_folder(spec.name, bank or ()))
        failed |= _run_one(spec, folders[-1], workers, dask, report and not together, console)
    if report and together:
        write_page(folders, out or _own_folder(source, bank or ()), console)
    if failed:
        raise typer.Exit(1)


def _run_one(
    spec: Spec | GeometricSpec,
    folder: Path,
    workers: int | None,
    dask: str | None,
    report: bool,
    console: Console,
) -> bool:
    """Run one spec into its folder, report it, and return whether any cell failed."""
    from firthshot.experiments.spec import GeometricSpec

    try:
        if isinstance(spec, GeometricSpec):
            _run_geometric(spec, folder, workers, dask, console)
            finish_report(folder, [folder] if report else None, console)
            return False
        outcome = _run(spec, folder, workers, dask, console)
    except KeyboardInterrupt:
        _leave(folder)
    finish(outcome, folder, report, console)
    return bool(outcome.failed)


def _own_folder(name: str, banks: Sequence[str]) -> Path:
    """Return where a run goes: one on banks of the user's does not meet that of the preset."""
    return Path("runs") / "-".join([name, *(Path(bank).stem for bank in banks)])


def _run_geometric(
    spec: GeometricSpec,
    folder: Path,
    workers: int | None,
    dask: str | None,
    console: Console,
) -> None:
    from firthshot.cli._progress import ScreenProgress
    from firthshot.errors import FirthshotError
    from firthshot.experiments.geometric import run_geometric

    if dask is not None:
        raise FirthshotError("--dask is for trials on banks: the geometric experiment runs here.")
    say(console, f"{spec.name}: {spec.size}. Into {folder}.")
    with ScreenProgress(console) as progress:
        result = run_geometric(spec, folder, workers=workers, listener=progress)
    for line in (*result.sentences(), f"The table is in {folder}/summary."):
        say(console, line)


def _run(
    spec: Spec, folder: Path, workers: int | None, dask: str | None, console: Console
) -> RunOutcome:
    from firthshot.banks import refuse_not_finite
    from firthshot.cli._progress import ScreenProgress
    from firthshot.errors import FirthshotError
    from firthshot.experiments.runner import run as run_spec
    from firthshot.experiments.spec.choose import bank_remark, open_banks

    for bank in open_banks(spec):
        refuse_not_finite(bank)
    say(console, f"{spec.name}: {bank_remark(spec)} Into {folder}.")
    if dask is not None and workers is not None and dask != "local":
        raise FirthshotError("--workers is for this machine: your cluster has its own workers.")
    with ScreenProgress(console) as progress:
        if dask is None:
            return run_spec(spec, folder, workers=workers, listener=progress)
        from firthshot.experiments.run.cluster import connect

        with connect(dask, workers) as compute:
            return run_spec(spec, folder, compute=compute, listener=progress)


def _leave(folder: Path) -> None:
    say(screen(), f"Stopped. Finished cells are kept; go on with: {resume_command(folder)}")
    sys.stdout.flush()
    sys.stderr.flush()
    # Cells still in the threads would hold a clean exit up for seconds, and parts are whole files.
    os._exit(130)
