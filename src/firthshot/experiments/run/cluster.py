"""Compute cells on a Dask cluster: the user's own by address, or one started here.

Workers compute and hand the tables back; only this process writes to the run folder, so workers
need no shared file system. A bank is opened by its path where workers see it, else its file
travels once to every worker. The second half runs on the workers.
"""

from __future__ import annotations

import secrets
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from firthshot.banks import Bank, load_version
from firthshot.errors import BankError, FirthshotError, MissingExtraError
from firthshot.experiments.plan.cell import Cell
from firthshot.experiments.run.compute import settle_polars
from firthshot.experiments.run.workers import Compute, Done, attempt, default_workers, describe
from firthshot.machine import one_blas_thread

try:
    import distributed
    from distributed.client import ClosedClientError
except ImportError:
    raise MissingExtraError("A Dask cluster", "dask") from None

_WINDOW = 64  # cells with the scheduler at least; beyond, four per thread of the cluster
_ANSWER = 10  # seconds to wait for a scheduler
_GONE = "The Dask scheduler is gone: finished cells are kept; run again when it is back."
_PATIENCE = 120  # seconds to wait for a first worker


@contextmanager
def connect(address: str, workers: int | None = None) -> Iterator[Compute]:
    """Connect to a scheduler, or start a cluster here for ``local``; yield what computes cells."""
    with _client(address, workers) as client:
        yield partial(on_cluster, client)


@contextmanager
def _client(address: str, workers: int | None) -> Iterator[Any]:
    if address == "local":
        with _deaf_to_ctrl_c():
            cluster = distributed.LocalCluster(
                n_workers=workers or default_workers(),
                threads_per_worker=1,
                dashboard_address=":0",
                silence_logs=50,
            )
        with cluster, distributed.Client(cluster) as client:
            yield client
        return
    try:
        client = distributed.Client(address, timeout=_ANSWER)
    except (OSError, ValueError, TimeoutError) as error:
        raise FirthshotError(
            f"There is no Dask scheduler at {address} ({describe(error)}): check the address."
        ) from None
    with client:
        yield client


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Let processes started meanwhile ignore Ctrl-C, which is for this one; they end with it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def on_cluster(
    client: Any,
    cells: Iterable[Cell],
    banks: dict[str, Bank],
    send: bool = False,
    function: Callable[[Cell], Done] | None = None,
) -> Iterator[Done]:
    """Yield cells as workers finish them.

    ``send`` sends the files of all banks, even of those that the workers see; ``function`` is what
    workers do with a cell in place of computing it.
    """
    work = function or compute_here
    queue = iter(cells)
    first = list(islice(queue, 1))
    if not first:
        return
    _install(client, banks, send)
    open_cells: dict[str, Cell] = {}
    running = distributed.as_completed()
    session = secrets.token_hex(4)  # a killed run may have left cells of the same name behind

    def submit(some: Iterable[Cell], attempt: str = "") -> None:
        for cell in some:
            key = f"cell-{cell.identity}-{session}{attempt}"
            open_cells[key] = cell
            running.add(client.submit(work, cell, key=key, pure=False))

    try:
        submit(first)
        submit(islice(queue, _window(client) - 1))
        for count, future in enumerate(running, 1):
            cell = open_cells.pop(future.key)
            done = _result(cell, future)
            if done is None:
                client.nthreads()  # raises when it is the scheduler that is gone
                submit([cell], f"-{count}")
                continue
            yield done
            # Workers may have joined meanwhile: look at the size of the cluster now and then.
            room = _window(client) - len(open_cells) if count % 50 == 0 else 1
            submit(islice(queue, max(room, 0)))
    except FirthshotError:
        raise
    except (OSError, RuntimeError, CancelledError, ClosedClientError):
        raise FirthshotError(_GONE) from None


def _window(client: Any) -> int:
    return max(_WINDOW, 4 * sum(map(int, client.nthreads().values())))


def _result(cell: Cell, future: Any) -> Done | None:
    """Return what became of a cell; None when its result was lost with the worker that held it."""
    error = future.exception() if future.status == "error" else None
    if error is not None:
        return Done(cell, None, f"Its worker failed: {describe(error)}")
    if future.status in ("cancelled", "lost"):
        return None
    try:
        done: Done = future.result()
    except CancelledError:
        return None
    future.release()
    return done


def _install(client: Any, banks: dict[str, Bank], send: bool) -> None:
    """Make the banks known on every worker, now and whenever one joins."""
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError:
        raise FirthshotError(
            f"No worker has joined the cluster in {_PATIENCE} s: start workers, then run again."
        ) from None
    refs = []
    for bank in banks.values():
        path = Path(str(bank.path)).resolve()
        ref = BankRef(bank.name, str(path), bank.meta.sha256)
        if send or not all(client.run(can_open, ref).values()):
            ref = BankRef(bank.name, str(path), bank.meta.sha256, path.read_bytes())
        refs.append(ref)
    client.register_plugin(BankPlugin(refs))


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


class BankPlugin(distributed.WorkerPlugin):
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
