"""On what machine, with what versions and how long a run was computed, call by call."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import msgspec

from firthshot.errors import FirthshotError
from firthshot.experiments.plan.cell import FORMAT
from firthshot.experiments.run.machine import machine_name
from firthshot.files import raise_clearly, write_whole

FILE = "sessions.json"
_PACKAGES = ("numpy", "numba", "polars")


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One call of ``run`` on a folder.

    Attributes
    ----------
    firthshot : str
        The version that wrote the folder.
    format : int
        That of the cells' rows.
    versions : dict of str to str
        Python and the packages that decide the numbers.
    machine : str
        Processor, instruction set (not in older records), number of cores and system.
    started : str
        ISO 8601, in UTC.
    seconds : float
        Elapsed time; 0 for a session that was stopped.
    cells, classifiers : int
        How many were computed in this session.
    """

    firthshot: str
    format: int = FORMAT
    versions: dict[str, str] = {}
    machine: str = ""
    started: str = ""
    seconds: float = 0.0
    cells: int = 0
    classifiers: int = 0


def begin_session() -> Session:
    """Return a session that begins now, on this machine."""
    from firthshot import __version__

    now = datetime.datetime.now(datetime.UTC)
    return Session(
        firthshot=__version__,
        versions={"python": platform.python_version()}
        | {name: metadata.version(name) for name in _PACKAGES},
        machine=machine_name(),
        started=now.isoformat(timespec="seconds"),
    )


def put_session(folder: Path, session: Session) -> None:
    """Write a session into the folder's record, over what it said when it began."""
    others = [each for each in read_sessions(folder) if each.started != session.started]
    text = json.dumps([msgspec.to_builtins(each) for each in (*others, session)], indent=1)
    try:
        write_whole(folder / FILE, text.encode())
    except OSError as error:
        raise_clearly(error, folder)


def read_sessions(folder: Path) -> tuple[Session, ...]:
    """Return the sessions on record, none where there is no record."""
    try:
        content = (folder / FILE).read_bytes()
    except OSError:
        return ()
    try:
        return tuple(msgspec.json.decode(content, type=list[Session]))
    except (ValueError, msgspec.DecodeError, RecursionError):
        raise FirthshotError(f"{folder / FILE} is damaged: delete it.") from None


def machines(sessions: Iterable[Session]) -> str:
    """Return the machines of some sessions, each once."""
    return "; ".join(dict.fromkeys(session.machine for session in sessions if session.machine))
