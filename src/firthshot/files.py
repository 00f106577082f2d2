"""Files that appear whole or not at all, and the folders of the user that they go to."""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from firthshot.errors import FirthshotError

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)


def user_cache() -> Path:
    """Return the folder for what can be made again: ``FIRTHSHOT_CACHE``, or the system's place."""
    if given := os.environ.get("FIRTHSHOT_CACHE"):
        return Path(given)
    if sys.platform == "win32":
        return _local_app_data() / "firthshot" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "firthshot"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "firthshot"


def user_data() -> Path:
    """Return the folder for what this user keeps, such as banks."""
    if sys.platform == "win32":
        return _local_app_data() / "firthshot"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "firthshot"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "firthshot"


def _local_app_data() -> Path:
    return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; what is written there takes its place in the end.

    The content is on the disk before it gets the name, so that the file outlives a power cut. After
    an error, Ctrl-C included, an older file is as it was and nothing half stays behind.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with _held(temporary):
            yield temporary
            _sync(temporary, os.O_RDWR)
        temporary.replace(path)
        if os.name != "nt":  # a folder cannot be opened there
            _sync(path.parent, os.O_RDONLY)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def is_temporary(path: Path) -> bool:
    """Tell whether a file's name is one that `replacing` gives while the file is written."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_abandoned(folder: Path) -> None:
    """Remove the temporary files that killed processes left; those of a live process stay."""
    with suppress(OSError):  # no such folder
        for path in filter(is_temporary, folder.iterdir()):
            with suppress(OSError):  # another process was quicker
                with _held(path) as alone:
                    abandoned = alone
                if abandoned:
                    path.unlink()


@contextmanager
def _held(path: Path) -> Iterator[bool]:
    """Hold a temporary file, made where it is not there; tell whether nobody else holds it.

    The lock dies with the process. Windows has no such locks, and needs none: a file that a process
    has open cannot be removed there. On a file system without locks nobody knows who holds what.
    """
    try:
        import fcntl
    except ImportError:
        yield True
        return
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW, 0o666)
    try:
        alone = True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            alone = False
        yield alone
    finally:
        os.close(handle)


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write a file of these bytes in the place of an older one."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def raise_clearly(error: OSError, path: Path, kept: str = "") -> NoReturn:
    """Turn an error of the file system into a sentence with a way out.

    ``kept`` says what of the work is not lost when the disk is full.
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        again = f"free some disk space and start again{kept and '; '}{kept}."
        raise FirthshotError(f"There is no room left for {path}: {again}") from None
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        fault = f"cannot be written to ({error.strerror}): choose another place."
    elif error.errno in (errno.ENOTDIR, errno.EEXIST):
        fault = "is not a folder: choose another place."
    else:
        raise FirthshotError(f"{path} cannot be written to: {error.strerror or error}.") from None
    raise FirthshotError(f"{path} {fault}", "out") from None


@contextmanager
def writing_to(path: Path, kept: str = "") -> Iterator[None]:
    """Let errors of the file system be raised by `raise_clearly`."""
    try:
        yield
    except OSError as error:
        raise_clearly(error, path, kept)
