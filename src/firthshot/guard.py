"""Files from outside are read in a child process first, which may crash, hang or swell alone.

Parquet, HDF5 and pickles are decoded by libraries in which a damaged file can end the whole process
or fill the memory. The child reads the file under limits of memory and time and says whether that
went well; only then does this process read it too. Where the system has no such limits (Windows),
a crash and a hang are still kept out.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import pickletools
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zipfile import ZipInfo

from firthshot.errors import FirthshotError, reason

T = TypeVar("T")
ROOM = 1 << 29  # bytes that any file may unpack to …
GROWTH = 32  # … and as many more per byte of the file
SECONDS = 8  # of processor time that any file may take, importing its reader included …
SLOWEST = 5 << 20  # … and one more for so many bytes of it
LONGEST_NAME = 10_000  # characters in a torch file: 0.4 s of torch's time, 1.6 s at twice as many
_PATIENCE = 8  # a busy machine takes longer than its processor time by this much
_READY, _DONE = b"r", b"."
_DAMAGED = "it is damaged, as its reader crashes on it; write it anew"
_known: set[tuple[str, str, int, int, int]] = set()


class Fault(NamedTuple):
    """A file that must not be read here, and why, in words without a full stop."""

    path: Path
    words: str


def room_for(size: int) -> int:
    """Return how many bytes a file of this size may unpack to."""
    return ROOM + GROWTH * size


def refuse_bomb(unpacked: int, size: int) -> None:
    """Refuse a file that declares more content than `room_for` its size allows."""
    if unpacked > room_for(size):
        raise FirthshotError(
            f"it declares {unpacked / 1e6:,.0f} MB, but a file of its size may unpack to "
            f"{room_for(size) / 1e6:,.0f} MB; write it anew, uncompressed or in parts"
        )


def refuse_zip_bomb(path: Path) -> None:
    """Refuse an archive whose members declare more than `room_for` its size allows."""
    refuse_bomb(sum(member.file_size for member in zip_members(path)), path.stat().st_size)


def zip_members(path: Path) -> list[ZipInfo]:
    """Return what an archive says that it holds; nothing if it is none, or damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist()
    except Exception:  # noqa: BLE001 - a damaged list of members raises anything
        return []


def load_tensors(path: Path) -> Any:
    """Load a torch file of tensors and plain containers: nothing that runs, nothing that swells.

    A file that is damaged or holds more raises `pickle.UnpicklingError`; torch raises others too.
    """
    import torch

    refuse_zip_bomb(path)
    if _has_long_name(path):
        raise pickle.UnpicklingError("a name in it is too long")
    return torch.load(path, map_location="cpu", weights_only=True)


def _has_long_name(path: Path) -> bool:
    """Tell whether a pickle of a torch file holds a name over `LONGEST_NAME`.

    torch searches its own error message by a pattern whose time grows with the square of the name.
    """
    inside = [member for member in zip_members(path) if member.filename.endswith("data.pkl")]
    # What is damaged raises anything, and torch itself tells of it.
    with contextlib.suppress(Exception), contextlib.ExitStack() as stack:
        stream: Any = stack.enter_context(path.open("rb"))
        if inside:
            stream = stack.enter_context(zipfile.ZipFile(path)).open(inside[0])
        for _ in range(1 if inside else 5):  # an old file has five pickles in a row
            for _, name, _ in pickletools.genops(stream):
                if isinstance(name, str | bytes) and len(name) > LONGEST_NAME:
                    return True
    return False


def read_tried(read: Callable[[Path], T], path: Path) -> T:
    """Read a file by a public function of a module, once a child process has."""
    if (fault := trial_fault(read.__module__, read.__name__, [path])) is not None:
        raise FirthshotError(fault.words)
    return read(path)


def trial_fault(module: str, function: str, paths: Sequence[Path]) -> Fault | None:
    """Let a child process read files; return the first that it cannot, None if it can read all.

    ``function`` of ``module`` reads one file, given its path; its errors are the fault's words. A
    file that was read before, and has not changed since, is not read again.
    """
    fresh = {path: mark for path in paths if (mark := _mark(module, function, path)) not in _known}
    if not fresh:
        return None
    files = [*fresh]
    output, end = _run_child(module, function, files)
    done = len(output) - len(output.lstrip(_DONE))
    _known.update([fresh[path] for path in files[:done]])
    if done == len(files):
        return None
    return Fault(files[done], output[done:].decode(errors="replace") or end)


def _mark(module: str, function: str, path: Path) -> tuple[str, str, int, int, int]:
    """Return what changes whenever the file or its reader does."""
    state = path.stat()
    place = f"{state.st_dev}/{state.st_ino}/{path.absolute()}"
    return f"{module}.{function}", place, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def _run_child(module: str, function: str, paths: Sequence[Path]) -> tuple[bytes, str]:
    """Return a mark per file that was read, then perhaps words; and what its end means if none."""
    command = [sys.executable, "-P", "-c", "from firthshot.guard import run_trial; run_trial()"]
    patience = _PATIENCE * sum(_seconds(path) for path in paths)
    try:
        child = subprocess.run(
            [*command, module, function],
            input=b"\0".join(os.fsencode(path.absolute()) for path in paths),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            timeout=patience,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return (error.stdout or _READY)[1:], f"reading it takes more than {patience} s"
    except OSError as error:
        raise FirthshotError(
            f"{paths[0]} cannot be read, as no process can be started to try it: {reason(error)}."
        ) from None
    if not child.stdout.startswith(_READY):
        raise FirthshotError(
            f"{paths[0]} cannot be read, as the process that tries it does not start "
            f"({sys.executable}, code {child.returncode})."
        )
    return child.stdout[1:], _meaning(child.returncode)


def _meaning(code: int) -> str:
    """Say what it means that the child ended so, in the midst of a file."""
    if code == -getattr(signal, "SIGXCPU", 0):
        return "reading it takes far too long for its size; write it anew"
    return _DAMAGED


def _seconds(path: Path) -> int:
    return SECONDS + path.stat().st_size // SLOWEST


def run_trial() -> None:
    """Read the files named on standard input: what the child process does."""
    module, function = sys.argv[1:]
    read = getattr(importlib.import_module(module), function)
    paths = [Path(os.fsdecode(name)) for name in sys.stdin.buffer.read().split(b"\0")]
    _say(_READY)
    for path in paths:
        _limit(path)
        try:
            read(path)
        except MemoryError:
            _say(b"it needs far more memory than its size allows; write it anew")
            break
        except Exception as error:  # noqa: BLE001 - whatever it is, the words are what counts
            _say(reason(error).encode(errors="replace"))
            break
        _say(_DONE)
    os._exit(0)  # nothing is left to tidy up


def _say(words: bytes) -> None:
    sys.stdout.buffer.write(words)
    sys.stdout.buffer.flush()


def _limit(path: Path) -> None:
    """Allow this process the memory and the processor time that one more file may take."""
    try:
        import resource
    except ImportError:  # Windows
        return
    held = Path("/proc/self/statm")  # memory beyond what Python and its libraries hold by now
    pages = int(held.read_text().split()[5]) if held.exists() else 0
    usage = resource.getrusage(resource.RUSAGE_SELF)
    memory = pages * resource.getpagesize() + room_for(path.stat().st_size)
    seconds = int(usage.ru_utime + usage.ru_stime) + 1 + _seconds(path)
    for limit, value in (
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        most = resource.getrlimit(limit)[1]
        allowed = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(limit, (allowed, most))
