"""``firthshot status``: how far a run is, from another terminal."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from firthshot.cli._options import AsJson
from firthshot.cli._screen import echo, echo_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firthshot.experiments.run.status import RunStatus


def status(folder: Path, as_json: AsJson = False) -> None:
    """Say how far a run is, what failed and what was skipped."""
    from firthshot.experiments.run.status import read_status

    if as_json:
        echo_json(asdict(read_status(folder)))
        return
    for line in _lines(read_status(folder), folder):
        echo(line)


def _lines(status: RunStatus, folder: Path) -> Iterator[str]:
    from firthshot.cli._results import outdated_words, resume_command

    if not status.cells:  # nothing that is stored in parts, such as the geometric experiment
        yield f"{status.name}: {_state(status)}"
    else:
        share = f"{status.finished / status.cells:.0%}"
        cells = f"{status.finished:,} of {status.cells:,} cells ({share})"
        yield f"{status.name}: {cells}, {_state(status)}"
        yield f"{status.classifiers:,} classifiers in the plan"
    if status.machines:
        yield f"computed on {status.machines}"
    for note in status.notes:
        yield f"note    {note}"
    for cell, reason in status.failures.items():
        yield f"failed  {cell}: {reason}"
    if status.damaged:
        yield f"{status.damaged} and computed anew when the run goes on"
    if not status.running and (status.finished < status.cells or status.failures):
        yield f"go on with: {resume_command(folder)}"
    elif status.summarised and status.finished >= status.cells:
        yield f"tables in {folder}/summary"
    if status.page_outdated:
        yield outdated_words(folder)


def _state(status: RunStatus) -> str:
    from firthshot.progress import duration

    if not status.running:
        done = status.complete and (status.cells or status.summarised)
        return "complete" if done else "not running"
    left = status.seconds_left
    return "running" + (f", about {duration(left)} left" if left is not None else "")
