"""Run the tasks of the plan, and keep what their runs found."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firthshot.banks import list_banks
from firthshot.errors import FirthshotError
from firthshot.experiments.geometric import run_geometric
from firthshot.experiments.runner import run
from firthshot.experiments.spec.choose import settle_banks
from firthshot.experiments.spec.fields import GeometricSpec
from firthshot.progress import ProgressListener, duration
from studies.reproduction.keep import collect, finish_task
from studies.reproduction.plan import FOLDER, Task

CLOCK = "clock.jsonl"


class Clock(ProgressListener):
    """Write down the processor time of every cell, for a run that may be killed at any moment."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / CLOCK
        self.last = time.process_time()

    def start(self, *_: object, **__: object) -> None:
        """Start the clock, once the plan is made."""
        self.last = time.process_time()

    def advance(self, count: int = 1, *, units: int | None = None, words: str = "") -> None:  # noqa: ARG002
        """Add the time since the cell before; what all threads worked counts."""
        now = time.process_time()
        self.add(units or 0, now - self.last)
        self.last = now

    def add(self, classifiers: int, seconds: float) -> None:
        """Append a line."""
        with self.file.open("a") as lines:
            lines.write(json.dumps({"classifiers": classifiers, "seconds": round(seconds, 4)}))
            lines.write("\n")


def processor_seconds(folder: Path) -> float:
    """Return the processor time that a run took so far; a line cut short does not count."""
    total = 0.0
    if (folder / CLOCK).is_file():
        for line in (folder / CLOCK).read_text("utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                total += json.loads(line)["seconds"]
    return total


@dataclass(frozen=True)
class Where:
    """Folders of a reproduction: its runs, the tables that are kept of them, and its plan."""

    runs: Path
    kept: Path
    plan: Path = FOLDER


def run_tasks(tasks: Sequence[Task], where: Where, tenth: bool, workers: int | None) -> int:
    """Run one task after the other; return how many did not come to their end."""
    failed = 0
    for number, task in enumerate(tasks, 1):
        name = f"[{number}/{len(tasks)}] {task.place}"
        if not _installed(task.bank):
            print(f"{name}: left out, there is no bank {task.bank!r} yet.", flush=True)
            continue
        started = time.monotonic()
        problems = _attempt(task, where.runs / task.place, tenth, workers)
        collect(where.runs, where.kept, where.plan)
        failed += bool(problems)
        for cell, reason in problems.items():
            print(f"{name}: {cell} failed: {reason}", flush=True)
        took = processor_seconds(where.runs / task.place)
        print(
            f"{name}: {duration(time.monotonic() - started)} now, processor time "
            f"{duration(took)} in all; {time.strftime('%H:%M')}.",
            flush=True,
        )
    return failed


def _attempt(task: Task, out: Path, tenth: bool, workers: int | None) -> dict[str, str]:
    """Run a task; what stops it does not stop those after it."""
    try:
        return run_task(task, out, tenth, workers)
    except FirthshotError as error:
        return {task.place: str(error)}


def run_task(task: Task, out: Path, tenth: bool, workers: int | None) -> dict[str, str]:
    """Run a task into a folder, or go on with it; return the cells that failed."""
    spec: Any = task.spec(tenth)
    problems: dict[str, str] = {}
    if isinstance(spec, GeometricSpec):
        _run_geometric(spec, out, workers)
    else:
        out.mkdir(parents=True, exist_ok=True)
        outcome = run(settle_banks(spec), out, workers=workers, listener=Clock(out))
        problems = outcome.failed
    if not problems:
        finish_task(task, out, tenth, processor_seconds(out))
    return problems


def _run_geometric(spec: GeometricSpec, out: Path, workers: int | None) -> None:
    before = time.process_time()
    run_geometric(spec, out, workers=workers)
    if not (out / CLOCK).is_file():
        Clock(out).add(spec.trials, time.process_time() - before)


def _installed(bank: str) -> bool:
    return not bank or any(entry.name == bank and entry.bank for entry in list_banks())
