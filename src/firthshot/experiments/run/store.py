"""The run folder: what is in it is whole, what is not in it was never begun."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from firthshot.errors import FirthshotError
from firthshot.experiments.plan.cell import Cell
from firthshot.experiments.run.compute import Tables
from firthshot.experiments.run.record import KEPT, write_record
from firthshot.experiments.run.sealing import damaged_tables, sealed_parquet
from firthshot.files import is_temporary, remove_abandoned, write_whole, writing_to

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
