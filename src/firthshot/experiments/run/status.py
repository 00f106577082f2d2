"""How far a run folder is, read from outside while it is written to."""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firthshot.errors import FirthshotError
from firthshot.experiments.plan.cell import condense
from firthshot.experiments.run.record import Session, machines, read_plan, read_sessions
from firthshot.experiments.run.store import damage_in_words, damaged_cells, part_files
from firthshot.experiments.spec.reading import read_source

_RECENT = 120.0  # seconds over which the rate is taken


@dataclass(frozen=True)
class RunStatus:
    """What a run folder says of itself."""

    name: str = ""
    # the fields of ``spec.toml``, and its text
    spec: dict[str, Any] = field(default_factory=dict)
    spec_text: str = ""
    # of the plan, 0 where the folder does not say, and those that are there
    cells: int = 0
    classifiers: int = 0
    finished: int = 0
    running: bool = False  # whether a process holds the folder
    cells_per_second: float = 0.0
    failures: dict[str, str] = field(default_factory=dict)  # cell in words → why it failed
    # what the plan left out or changed from the spec, in sentences
    notes: list[str] = field(default_factory=list)
    summarised: bool = False
    # cells that do not count, in words
    damaged: str = ""
    page_outdated: bool = False
    # machine, versions and time of each call of ``run``; empty for runs that lack them
    sessions: tuple[Session, ...] = ()

    @property
    def machines(self) -> str:
        """Return the machines of all sessions, each once."""
        return machines(self.sessions)

    @property
    def complete(self) -> bool:
        """Return whether every cell of the plan is there."""
        return self.finished >= self.cells

    @property
    def seconds_left(self) -> float | None:
        """Return the time left at the present rate, None when that is not known."""
        if not self.running or self.cells_per_second <= 0:
            return None
        return (self.cells - self.finished) / self.cells_per_second


def read_status(path: Path) -> RunStatus:
    """Read a run folder; nothing in it is touched, and no rows are read."""
    if not path.is_dir():
        raise FirthshotError(f"{path} is no folder: name a run folder, such as runs/quickstart.")
    if not any(path.iterdir()):
        raise FirthshotError(f"{path} is empty: run an experiment into it first.")
    if not (path / "spec.toml").is_file():
        raise FirthshotError(f"{path} is not a run folder: it has no spec.toml.")
    fields, text = read_source(path)
    plan = read_plan(path)
    damaged = damaged_cells(path)
    times = sorted(_part_times(path, damaged))
    return RunStatus(
        name=str(fields.get("name", path.name)),
        spec=fields,
        spec_text=text,
        cells=plan.cells,
        classifiers=plan.classifiers,
        finished=len(times),
        running=_is_locked(path),
        cells_per_second=_rate(times),
        failures=_failures(path),
        notes=condense(plan.notes),
        summarised=any((path / "summary").glob("*.csv")),
        damaged=f"{damage_in_words(damaged)} not counted" if damaged else "",
        page_outdated=page_outdated(path),
        sessions=read_sessions(path),
    )


def page_outdated(path: Path) -> bool:
    """Tell whether the report of a run folder lacks cells that were finished after it."""
    page = path / "report.html"
    times = _part_times(path, ())
    return page.is_file() and bool(times) and page.stat().st_mtime < max(times)


def _part_times(path: Path, damaged: Container[str]) -> list[float]:
    return [part.stat().st_mtime for part in part_files(path) if part.name not in damaged]


def _rate(times: list[float]) -> float:
    recent = [moment for moment in times if moment >= times[-1] - _RECENT] if times else []
    if len(recent) < 2 or recent[-1] == recent[0]:
        return 0.0
    return (len(recent) - 1) / (recent[-1] - recent[0])


def _failures(path: Path) -> dict[str, str]:
    found = {}
    for file in sorted((path / "failures").glob("[!.]*.json")):
        try:
            record = json.loads(file.read_text("utf-8"))
            found[str(record["cell"])] = str(record["reason"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            found[file.name] = "the record is unreadable"
    return found


def _is_locked(path: Path) -> bool:
    try:
        import fcntl

        with (path / ".lock").open("r") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):
        return False
    return False
