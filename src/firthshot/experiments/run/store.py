"""The run folder: what is in it is whole, what is not in it was never begun.

Tables carry a checksum of their own bytes: damaged Parquet may end the whole process inside polars,
so a run looks before it reads. The checksum stands among the metadata in the footer of the file. So
a table stays one file that any reader of Parquet opens, and appears together with its checksum.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from firthshot.errors import FirthshotError
from firthshot.experiments.plan.cell import Cell
from firthshot.experiments.run.compute import Tables
from firthshot.experiments.run.record import KEPT, write_record
from firthshot.files import is_temporary, remove_abandoned, write_whole, writing_to
from firthshot.tables import parquet_fault

if TYPE_CHECKING:
    import polars as pl


_PART = re.compile(r"[0-9a-f]{32}\.parquet")
_TABLES = ("parts", "bins", "trials")
_FOLDERS = (*_TABLES, "failures", "summary")
_REPORT = ("figures", "tables")


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
        with writing_to(self.path, KEPT):
            for name in _FOLDERS:
                (self.path / name).mkdir(parents=True, exist_ok=True)
            write_whole(self.path / ".writable", b"")
            (self.path / ".writable").unlink()

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder against a second run; the lock dies with the process."""
        try:
            import fcntl
        except ImportError:  # no such locks on Windows
            yield
            return
        with writing_to(self.path / ".lock", KEPT):  # a link is not followed: it may lead anywhere
            handle = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise FirthshotError(
                f"Another run is writing to {self.path}: wait for it, or choose another folder.",
                "out",
            ) from None
        except OSError:  # a file system without locks
            pass
        try:
            yield
        finally:
            os.close(handle)

    def finished(self) -> set[str]:
        """Return the identities of the finished cells; refuse what does not belong."""
        found = set()
        for path in sorted(self.parts.iterdir()):
            if is_temporary(path):
                continue
            self._check_part(path)
            found.add(path.stem)
        return found

    def set_damaged_aside(self) -> list[str]:
        """Move damaged tables to ``damaged/``, so that their cells are computed anew; say so."""
        damaged = {
            name: table
            for name, table in damaged_cells(self.path).items()
            if _PART.fullmatch(name)  # others do not belong here, which `finished` says
        }
        with writing_to(self.path, KEPT):
            for name, table in damaged.items():
                aside = self.path / "damaged" / table.parent.name
                aside.mkdir(parents=True, exist_ok=True)
                if table.parent != self.parts:  # first: a cell without its part is not finished
                    (self.parts / name).unlink()
                table.replace(aside / name)
        where = self.path / "damaged"
        return [f"{damage_in_words(damaged)} computed anew; see {where}."] if damaged else []

    def _check_part(self, path: Path) -> None:
        import polars as pl

        if not _PART.fullmatch(path.name) or not path.is_file():
            raise _no_part(path)
        marks = pl.read_parquet_metadata(path)
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
        marks = {"firthshot.cell": cell.identity, "firthshot.run": self.run}
        own = {"bins": tables.bins, "trials": tables.trials, "parts": tables.rows}
        with writing_to(self.path, KEPT):
            for kind, frame in own.items():
                write_whole(self.path / kind / name, sealed_parquet(frame, marks))
            (self.path / "failures" / f"{cell.identity}.json").unlink(missing_ok=True)

    def fail(self, cell: Cell, reason: str, details: str) -> None:
        """Record why a cell failed."""
        record = {"cell": cell.words, "reason": reason, "details": details}
        write_record(self.path / "failures" / f"{cell.identity}.json", record)


def sweep(folder: Path) -> None:
    """Remove the temporary files that killed runs and reports left in a run folder."""
    for place in (folder, *(folder / name for name in (*_FOLDERS, *_REPORT))):
        remove_abandoned(place)


def part_files(folder: Path) -> list[Path]:
    """Return the parts of a run folder, sorted; refuse what has the name of one and is no file."""
    found = sorted((folder / "parts").glob("[!.]*.parquet"))
    for path in found:
        if not path.is_file():
            raise _no_part(path)
    return found


def _no_part(path: Path) -> FirthshotError:
    return FirthshotError(f"{path} is not a part of a run: move it elsewhere, then run again.")


def damaged_cells(folder: Path) -> dict[str, Path]:
    """Return the damaged table of each cell that has one, by the name of its part.

    Files appear whole, but a broken copy or a faulty disk may have damaged one since.
    """
    tables = {
        part.name: [table for kind in _TABLES if (table := folder / kind / part.name).is_file()]
        for part in part_files(folder)
    }
    damaged = damaged_tables(table for some in tables.values() for table in some)
    faulty = {name: [table for table in some if table in damaged] for name, some in tables.items()}
    return {name: some[0] for name, some in faulty.items() if some}


def refuse_damaged(folder: Path) -> None:
    """Refuse a run folder with a damaged cell: a report without it would look complete."""
    if damaged := damaged_cells(folder):
        again = f"computed anew by firthshot run {shlex.quote(str(folder))}"
        raise FirthshotError(f"{damage_in_words(damaged)} {again}.")


def damage_in_words(damaged: dict[str, Path]) -> str:
    """Return the beginning of a sentence that ends in what happens to the cells."""
    first, more = next(iter(damaged.values())), len(damaged) - 1
    files = "is 1 more such file" if more == 1 else f"are {more} more such files"
    others = f", as {files}" if more else ""
    cells = "their cells are" if more else "its cell is"
    return f"{first} is damaged{others}: {cells}"


_KEY, _SIGN, _DIGITS = b"firthshot.checksum", b"firthshot-sha256:", 64
_BLANK = b"0" * _DIGITS
_SEAL = re.compile(rb"%b.{1,4}%b([0-9a-f]{%d})" % (re.escape(_KEY), _SIGN, _DIGITS), re.DOTALL)
_PARQUET = b"PAR1"  # how such a file begins and ends


def sealed_parquet(frame: pl.DataFrame, marks: Mapping[str, str] | None = None) -> bytes:
    """Return a table as Parquet that holds its own checksum, and these marks, as metadata."""
    buffer = io.BytesIO()
    metadata = {**(marks or {}), _KEY.decode(): (_SIGN + _BLANK).decode()}
    frame.write_parquet(buffer, compression="zstd", metadata=metadata)
    content = bytearray(buffer.getbuffer())
    start = content.rindex(_SIGN + _BLANK) + len(_SIGN)
    content[start : start + _DIGITS] = hashlib.sha256(content).hexdigest().encode()
    return bytes(content)


def damaged_tables(paths: Iterable[Path]) -> set[Path]:
    """Return the tables that are damaged, before any of their bytes meet polars in this process.

    Tables without a checksum, as earlier versions wrote them, are tried in a process of their own.
    """
    sound = {path: _is_sound(_content(path)) for path in paths}
    unsealed = [path for path, its in sound.items() if its is None]
    return {path for path, its in sound.items() if its is False} | _unreadable(unsealed)


def _content(path: Path) -> bytes:
    try:
        if path.is_file():  # a pipe would be waited for
            return path.read_bytes()
        why = "it is no file"
    except OSError as error:
        why = str(error.strerror)
    raise FirthshotError(
        f"{path} cannot be read ({why}): make it readable, or move it elsewhere and run again."
    )


def _is_sound(content: bytes) -> bool | None:
    """Tell whether the checksum is that of the content; None where there is no checksum."""
    if not (content.startswith(_PARQUET) and content.endswith(_PARQUET)):
        return False
    seal = _SEAL.match(content, max(content.rfind(_KEY), 0))
    if seal is None:  # half a seal is damage; none is an earlier version's
        return False if _KEY in content or _SIGN in content else None
    start, stop = seal.span(1)
    digest = hashlib.sha256(memoryview(content)[:start])
    digest.update(_BLANK)
    digest.update(memoryview(content)[stop:])
    return digest.hexdigest().encode() == seal[1]


def _unreadable(paths: list[Path]) -> set[Path]:
    bad: set[Path] = set()
    while (fault := parquet_fault([path for path in paths if path not in bad])) is not None:
        bad.add(fault.path)
    return bad
