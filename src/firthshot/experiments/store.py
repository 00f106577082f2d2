"""The run folder: what is in it is whole, what is not in it was never begun."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    import polars as pl

    from firthshot.experiments.cell import Cell
    from firthshot.experiments.compute import Tables

_PART = re.compile(r"[0-9a-f]{32}\.parquet")
_TEMPORARY = re.compile(r"\..*\.tmp")
_FOLDERS = ("parts", "bins", "trials", "failures", "summary")


class RunFolder:
    """Read and write the parts of one run."""

    def __init__(self, path: Path, run: str = "") -> None:
        self.path = path
        self.run = run

    @property
    def parts(self) -> Path:
        """Return the folder of finished cells."""
        return self.path / "parts"

    def create(self) -> None:
        """Make the folders, and make sure that they can be written to."""
        try:
            for name in _FOLDERS:
                (self.path / name).mkdir(parents=True, exist_ok=True)
            write_whole(self.path / ".writable", b"")
            (self.path / ".writable").unlink()
        except OSError as error:
            raise_clearly(error, self.path)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder against a second run; the lock dies with the process."""
        try:
            import fcntl
        except ImportError:  # no such locks on Windows
            yield
            return
        with (self.path / ".lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FirthshotError(
                    f"Another run is writing to {self.path}: wait for it, or choose another --out."
                ) from None
            except OSError:  # a file system without locks
                pass
            yield

    def sweep(self) -> None:
        """Remove the temporary files that a killed run left (the lock is held)."""
        for name in _FOLDERS:
            for path in (self.path / name).iterdir():
                if _TEMPORARY.fullmatch(path.name):
                    path.unlink()

    def finished(self) -> set[str]:
        """Return the identities of the finished cells; refuse what does not belong."""
        found = set()
        for path in sorted(self.parts.iterdir()):
            if _TEMPORARY.fullmatch(path.name):
                continue
            self._check_part(path)
            found.add(path.stem)
        return found

    def _check_part(self, path: Path) -> None:
        if not _PART.fullmatch(path.name) or not path.is_file():
            raise FirthshotError(
                f"{path} is not a part of a run: move it elsewhere, then run again."
            )
        marks = _marks(path)
        if marks.get("firthshot.run") != self.run or marks.get("firthshot.cell") != path.stem:
            raise FirthshotError(
                f"{path} belongs to another run: move it elsewhere, then run again."
            )
        for beside in ("bins", "trials"):
            if not (self.path / beside / path.name).is_file():
                raise FirthshotError(
                    f"{path} lacks its table in {beside}/: delete it, and the cell is "
                    "computed anew."
                )

    def write(self, cell: Cell, tables: Tables) -> None:
        """Store a finished cell, the part last: where it exists, the other tables do."""
        name = f"{cell.identity}.parquet"
        try:
            self._write_table(self.path / "bins" / name, cell, tables.bins)
            self._write_table(self.path / "trials" / name, cell, tables.trials)
            self._write_table(self.parts / name, cell, tables.rows)
            (self.path / "failures" / f"{cell.identity}.json").unlink(missing_ok=True)
        except OSError as error:
            raise_clearly(error, self.path)

    def _write_table(self, path: Path, cell: Cell, frame: pl.DataFrame) -> None:
        import io

        buffer = io.BytesIO()
        marks = {"firthshot.cell": cell.identity, "firthshot.run": self.run}
        frame.write_parquet(buffer, compression="zstd", metadata=marks)
        write_whole(path, buffer.getbuffer())

    def fail(self, cell: Cell, reason: str, details: str) -> None:
        """Record why a cell failed."""
        record = {"cell": cell.words, "reason": reason, "details": details}
        text = json.dumps(record, indent=1, ensure_ascii=False)
        try:
            write_whole(self.path / "failures" / f"{cell.identity}.json", text.encode())
        except OSError as error:
            raise_clearly(error, self.path)

    def failures(self) -> dict[str, dict[str, str]]:
        """Return the recorded failures by cell."""
        return {
            path.stem: json.loads(path.read_text("utf-8"))
            for path in sorted((self.path / "failures").glob("*.json"))
        }


def _marks(path: Path) -> dict[str, str]:
    import polars as pl

    try:
        return pl.read_parquet_metadata(path)
    except (pl.exceptions.PolarsError, OSError):
        raise FirthshotError(
            f"{path} is damaged (cut short?): delete it, and the cell is computed anew."
        ) from None


def write_whole(path: Path, content: Any) -> None:
    """Write a file so that it appears whole or not at all, and outlives a power cut."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except BaseException:  # Ctrl-C too: nothing half stays behind
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _sync_folder(path: Path) -> None:
    if os.name == "nt":
        return  # a folder cannot be opened there
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def raise_clearly(error: OSError, path: Path) -> NoReturn:
    """Turn an error of the file system into a sentence with a way out."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        sentence = (
            f"There is no room left for {path}: free some, then run the same command again; "
            "finished cells are kept."
        )
    elif error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        sentence = f"{path} cannot be written to ({error.strerror}): choose another --out."
    elif error.errno in (errno.ENOTDIR, errno.EEXIST):
        sentence = f"{path} is not a folder: choose another --out."
    else:
        sentence = f"{path} cannot be written to: {error.strerror or error}."
    raise FirthshotError(sentence) from None
