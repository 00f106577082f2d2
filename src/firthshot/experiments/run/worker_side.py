"""What runs on the workers of a Dask cluster: open banks once, compute cells."""

from __future__ import annotations

import secrets
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin

from firthshot.banks import Bank, load_version
from firthshot.errors import BankError, FirthshotError
from firthshot.experiments.plan.cell import Cell
from firthshot.experiments.run.compute import settle_polars
from firthshot.experiments.run.workers import Done, attempt, describe
from firthshot.machine import one_blas_thread


@dataclass(frozen=True)
class BankRef:
    """Where a bank is, what it must be, and its file where workers cannot see it."""

    name: str
    path: str
    sha256: str
    content: bytes | None = field(default=None, repr=False)


_refs: dict[str, BankRef] = {}
_banks: dict[str, Bank] = {}
_lock = threading.Lock()


class BankPlugin(WorkerPlugin):
    """Tell every worker, also those that join later, of the banks of a run."""

    def __init__(self, refs: list[BankRef]) -> None:
        self.refs = refs
        self.name = "firthshot-banks"

    def setup(self, worker: Any) -> None:
        """Take the banks in; one BLAS thread per cell, as on one machine."""
        settle_polars()
        one_blas_thread()
        for ref in self.refs:
            _refs[ref.sha256] = _settle(ref, Path(worker.local_directory))


def _settle(ref: BankRef, folder: Path) -> BankRef:
    """Put the content of a bank that travelled into a file, to be memory-mapped like any other."""
    if ref.content is None:
        return ref
    folder = folder if folder.is_dir() else Path(tempfile.gettempdir())
    known = _refs.get(ref.sha256)
    if known is not None and Path(known.path).parent == folder and Path(known.path).is_file():
        return known  # it travelled in an earlier round of the run
    path = folder / f"{ref.sha256}-{secrets.token_hex(4)}.bank"
    path.write_bytes(ref.content)
    return BankRef(ref.name, str(path), ref.sha256)


def can_open(ref: BankRef) -> bool:
    """Tell whether this worker sees the file of a bank, and the same one."""
    return _opened(ref) is not None


def _opened(ref: BankRef) -> Bank | None:
    try:
        return load_version(Path(ref.path), ref.sha256)
    except BankError:
        return None


def compute_here(cell: Cell) -> Done:
    """Compute a cell on this worker."""
    try:
        bank = _bank(cell.condition.sha256, cell.condition.bank)
        drawn = cell.method.calibration
        source = _bank(drawn.sha256, drawn.source) if drawn else None
    except FirthshotError as error:
        return Done(cell, None, describe(error))
    return attempt(cell, bank, source)


def _bank(sha256: str, name: str) -> Bank:
    with _lock:
        if sha256 not in _banks:
            ref = _refs.get(sha256)
            bank = _opened(ref) if ref else None
            if bank is None:
                raise FirthshotError(
                    f"A worker cannot open bank {name!r}: run again, and it is sent to the workers."
                )
            bank.verify()
            _banks[sha256] = bank
        return _banks[sha256]
