"""Keep compiled kernels on disk, and forget them when any source they can reach changes.

Numba's own cache looks at the file of the outermost function alone, and numbers its files by an
index that two processes may write at once. Here every signature of a kernel has a file of its own,
which begins with a digest of its content and of all sources behind it: a file that is stale, torn
or written by another version does not match, and is compiled and written anew.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.serialize import dumps

from firthshot.files import user_cache

PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(rb"^from firthshot\.([\w.]+) import(.*)$", re.MULTILINE)
_DIGEST_BYTES = 32
_LOG = logging.getLogger("firthshot.kernels")


class Patience:
    """Log one line when compilations of this process have taken some seconds.

    Kernels that a kernel calls are compiled on the way, so that compilations are nested.
    """

    def __init__(self, seconds: float = 2.0) -> None:
        self._seconds, self._spent, self._open, self._since = seconds, 0.0, 0, 0.0

    def begin(self) -> None:
        """Note that a compilation begins."""
        if not self._open:
            self._since = time.monotonic()
        self._open += 1
        self._look()

    def end(self) -> None:
        """Note that a compilation is over."""
        self._look()
        self._open -= 1
        if not self._open:
            self._spent += time.monotonic() - self._since

    def _look(self) -> None:
        if self._spent + time.monotonic() - self._since > self._seconds:
            _LOG.warning("Compiling kernels, once on this machine: usually 10 to 20 s.")
            self._seconds = float("inf")


PATIENCE = Patience()


class KernelCache(FunctionCache):  # type: ignore[misc]
    """The compiled signatures of one kernel."""

    def __init__(self, function: Any, folder: Path) -> None:
        source = Path(function.__code__.co_filename)
        self._name, self._py_func, self._cache_path = repr(function), function, str(folder)
        self._impl = _Serialiser(function)
        python = "{}{}".format(*sys.version_info)
        stem = f"{source.stem}.{function.__qualname__}.py{python}"
        self._cache_file = _SignatureFiles(folder, stem, _stamp(source))
        self.enable()


class _Serialiser(CompileResultCacheImpl):  # type: ignore[misc]
    """Numba's own way to write and read what was compiled, without its search for a folder."""

    def __init__(self, function: Any) -> None:
        self._lineno = function.__code__.co_firstlineno
        source = function.__code__.co_filename
        self._locator = SimpleNamespace(_py_file=source, ensure_cache_path=lambda: None)


class _SignatureFiles:
    """One file per signature, CPU and closure of a kernel: what `KernelCache` reads and writes."""

    def __init__(self, folder: Path, stem: str, stamp: bytes) -> None:
        self._folder, self._stem, self._stamp = folder, stem, stamp

    def load(self, key: object) -> Any:
        try:
            raw = self._path(key).read_bytes()
        except OSError:
            raw = b""
        digest, content = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
        # The digest vouches for every byte, so nothing foreign is unpickled by accident; who can
        # write here can write the package's own bytecode as well.
        if digest == self._digest(content):
            return pickle.loads(content)  # noqa: S301
        PATIENCE.begin()  # numba compiles now, and then saves
        return None

    def save(self, key: object, data: object) -> None:
        PATIENCE.end()
        content = dumps(data)
        handle, temporary = tempfile.mkstemp(dir=self._folder, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self._digest(content) + content)
            Path(temporary).replace(self._path(key))
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def flush(self) -> None:
        for path in self._folder.glob(f"{self._stem}.*.nbc"):
            path.unlink(missing_ok=True)

    def _path(self, key: object) -> Path:
        # Numba's types are equal where their names are, which is what repr shows.
        signature = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return self._folder / f"{self._stem}.{signature}.nbc"

    def _digest(self, content: bytes) -> bytes:
        return hashlib.sha256(self._stamp + content).digest()


@cache
def _stamp(source: Path) -> bytes:
    """Return a digest of numba's version and of every source that a file's kernels can reach."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(_reachable(source)):
        digest.update(path.name.encode() + _read(path))
    return digest.digest()


def _reachable(source: Path) -> set[Path]:
    """Return a file and all files of the package that it imports, directly or not."""
    found, waiting = {source}, [source]
    while waiting:
        new = _imported(waiting.pop()) - found
        found |= new
        waiting += new
    return found


@cache
def _imported(source: Path) -> set[Path]:
    places = set()
    for module, names in _IMPORT.findall(_read(source)):
        place = PACKAGE.joinpath(*module.decode().split("."))
        places |= {place, *(place / name.strip() for name in names.decode().split(","))}
    files = {file for at in places for file in (at.with_suffix(".py"), at / "__init__.py")}
    return {file for file in files if file.exists()}


@cache
def _read(path: Path) -> bytes:
    return path.read_bytes()


@cache
def writable_folder(beside: Path) -> Path | None:
    """Return where kernels of the sources in a folder are kept; None, and a sentence, if nowhere.

    ``NUMBA_CACHE_DIR`` comes first, then the folder of the sources, then the user's cache.
    """
    for folder in _places(beside):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return folder
    _say_once()
    return None


def _places(beside: Path) -> Iterator[Path]:
    own = f"{beside.name}_{hashlib.sha256(bytes(beside)).hexdigest()[:16]}"
    if numba.config.CACHE_DIR:
        yield Path(numba.config.CACHE_DIR) / own
    yield beside / "__pycache__"
    with suppress(RuntimeError):  # a user without a home
        yield user_cache() / "kernels" / own


@cache
def _say_once() -> None:
    print(
        "Compiled kernels cannot be kept, so every start compiles them again: set FIRTHSHOT_CACHE "
        "to a folder that you may write to.",
        file=sys.stderr,
    )
