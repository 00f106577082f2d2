"""The records of a run folder: what was planned, on what machine, and how long it took."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from firthshot.errors import FirthshotError
from firthshot.experiments.plan.cell import FORMAT, Note
from firthshot.files import write_whole, writing_to

T = TypeVar("T")
FILE = "sessions.json"
PLAN = "plan.json"
KEPT = "finished cells are kept"  # what a full disk leaves
_PACKAGES = ("numpy", "numba", "polars")


def write_record(path: Path, content: Any) -> None:
    """Write JSON, whole or not at all."""
    with writing_to(path.parent, KEPT):
        write_whole(path, msgspec.json.format(msgspec.json.encode(content), indent=1))


def read_record(path: Path, kind: type[T], way_out: str, missing: T | None = None) -> T:
    """Return a record of a type; ``missing`` where there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        if missing is not None:
            return missing
        why = "is missing"
    except OSError as error:
        why = f"cannot be read ({error.strerror})"
    except (ValueError, msgspec.DecodeError, RecursionError):  # not what a run writes
        why = "is damaged"
    raise FirthshotError(f"{path} {why}: {way_out}.")


class PlanRecord(msgspec.Struct, frozen=True):
    """What ``plan.json`` says."""

    cells: int
    classifiers: int
    notes: tuple[Note, ...]


def read_plan(folder: Path) -> PlanRecord:
    """Return the plan on record; an empty one for a folder of tables alone."""
    return read_record(
        folder / PLAN,
        PlanRecord,
        "delete it, or run again, which writes it anew",
        PlanRecord(0, 0, ()),
    )


_TIMES = "times.json"


class Timing(msgspec.Struct, frozen=True):
    """Seconds of one core for one classifier: the quickest cell of a method in a setting."""

    bank: str
    head: str
    penalty: str
    prior: str
    ways: int
    shots: int
    shots_scheme: str
    seconds: float


TIMED = Timing.__struct_fields__[:-1]
Times = dict[tuple[Any, ...], float]  # the values of TIMED → seconds


def read_times(folder: Path) -> Times:
    """Return the times on record, none where there is no record."""
    times = read_record(folder / _TIMES, tuple[Timing, ...], "delete it", ())
    return {msgspec.structs.astuple(one)[:-1]: one.seconds for one in times}


def write_times(folder: Path, times: Times) -> None:
    """Put the times on record."""
    lines = [dict(zip(TIMED, key, strict=True), seconds=one) for key, one in sorted(times.items())]
    write_record(folder / _TIMES, lines)


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One call of ``run`` on a folder."""

    # the version that wrote the folder, and the format of its rows
    firthshot: str
    format: int = FORMAT
    versions: dict[str, str] = {}  # Python and the packages that decide the numbers
    # processor, instruction set, number of cores and system
    machine: str = ""
    started: str = ""  # ISO 8601, in UTC
    seconds: float = 0.0  # elapsed time; 0 for a session that was stopped
    # how many were computed in this session
    cells: int = 0
    classifiers: int = 0


def begin_session() -> Session:
    """Return a session that begins now, on this machine."""
    from firthshot import __version__

    return Session(
        firthshot=__version__,
        versions={"python": platform.python_version()}
        | {name: metadata.version(name) for name in _PACKAGES},
        machine=machine_name(),
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def put_session(folder: Path, session: Session) -> None:
    """Write a session into the folder's record, over what it said when it began."""
    others = [each for each in read_sessions(folder) if each.started != session.started]
    write_record(folder / FILE, [*others, session])


def read_sessions(folder: Path) -> tuple[Session, ...]:
    """Return the sessions on record, none where there is no record."""
    return read_record(folder / FILE, tuple[Session, ...], "delete it", ())


def machines(sessions: Iterable[Session]) -> str:
    """Return the machines of some sessions, each once."""
    return "; ".join(dict.fromkeys(session.machine for session in sessions if session.machine))


_LEVELS = {  # what LLVM calls the widest vectors that a processor has, and what people do
    "avx512f": "AVX-512",
    "avx2": "AVX2",
    "avx": "AVX",
    "sve": "SVE",
    "neon": "NEON",
}


def machine_name() -> str:
    """Return processor, instruction set (where it is known), number of cores and system."""
    cores = f"{os.cpu_count() or 1} cores"
    system = f"{platform.system()} {platform.machine()}"
    return ", ".join(filter(None, (processor_name(), instruction_set(), cores, system)))


def processor_name() -> str:
    """Return the processor's name; `platform` does not know it on Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def instruction_set() -> str:
    """Return the widest vectors that kernels are compiled for, "" where LLVM does not know.

    The order in which a kernel adds depends on it: the same bits need the same instructions.
    """
    from llvmlite.binding import get_host_cpu_features

    try:
        features = get_host_cpu_features()
    except RuntimeError:  # LLVM has no list for this kind of processor
        return ""
    return next((name for mark, name in _LEVELS.items() if features.get(mark)), "")
