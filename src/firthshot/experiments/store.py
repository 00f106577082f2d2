"""The run folder: what is in it is whole, what is not in it was never begun."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from firthshot.errors import FirthshotError
from firthshot.files import raise_clearly, write_whole
from firthshot.tables import polars_errors

if TYPE_CHECKING:
    import polars as pl

    from firthshot.experiments.cell import Cell
    from firthshot.experiments.compute import Tables

__all__ = [
    "RunFolder",
    "damage_in_words",
    "damaged_cells",
    "is_cut_short",
]

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

    def discard_damaged(self) -> list[str]:
        """Take away the parts of damaged cells, which are then computed anew; say so."""
        damaged = damaged_cells(self.path)
        try:
            for name in damaged:
                (self.parts / name).unlink()
        except OSError as error:
            raise_clearly(error, self.path)
        return [f"{damage_in_words(damaged)} computed anew."] if damaged else []

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


def damaged_cells(folder: Path) -> dict[str, Path]:
    """Return the damaged table of each cell that has one, by the name of its part.

    Files appear whole, but a broken copy or a faulty disk may have cut one short since.
    """
    found = {}
    for part in sorted((folder / "parts").glob("[!.]*.parquet")):
        tables = [folder / kind / part.name for kind in ("parts", "bins", "trials")]
        short = [table for table in tables if is_cut_short(table)]
        if short and _PART.fullmatch(part.name):
            found[part.name] = short[0]
    return found


def damage_in_words(damaged: dict[str, Path]) -> str:
    """Return the beginning of a sentence that ends in what happens to the cells."""
    first, more = next(iter(damaged.values())), len(damaged) - 1
    files = "is 1 more such file" if more == 1 else f"are {more} more such files"
    others = f", as {files}" if more else ""
    cells = "their cells are" if more else "its cell is"
    return f"{first} is damaged (cut short?){others}: {cells}"


def is_cut_short(path: Path) -> bool:
    """Tell whether a Parquet file lacks its end, without reading the rest; none lacks nothing."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 8, 0))
            footer, end = int.from_bytes(file.read(4), "little"), file.read(4)
    except OSError:  # who reads it will say why it cannot be read
        return False
    return end != b"PAR1" or footer > size - 12


def _marks(path: Path) -> dict[str, str]:
    import polars as pl

    try:
        return pl.read_parquet_metadata(path)
    except polars_errors(OSError):
        raise FirthshotError(
            f"{path} is damaged (cut short?): delete it, and the cell is computed anew."
        ) from None
