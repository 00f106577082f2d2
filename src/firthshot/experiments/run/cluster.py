"""Compute cells on a Dask cluster: the user's own by address, or one started here.

Workers compute and hand the tables back; only this process writes to the run folder, so workers
need no shared file system. A bank is opened by its path where workers see it, else its file
travels once to every worker.
"""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from firthshot.banks import Bank
from firthshot.errors import FirthshotError, MissingExtraError
from firthshot.experiments.plan.cell import Cell
from firthshot.experiments.run.workers import Compute, Done, default_workers, describe

_WINDOW = 64  # cells with the scheduler at least; beyond, four per thread of the cluster
_ANSWER = 10  # seconds to wait for a scheduler
_GONE = "The Dask scheduler is gone: finished cells are kept; run again when it is back."
_PATIENCE = 120  # seconds to wait for a first worker


@contextmanager
def connect(address: str, workers: int | None = None) -> Iterator[Compute]:
    """Connect to a scheduler, or start a cluster here for ``local``; yield what computes cells."""
    try:
        import distributed
    except ImportError:
        raise MissingExtraError("A Dask cluster", "dask") from None
    with _client(distributed, address, workers) as client:
        yield partial(on_cluster, client)


@contextmanager
def _client(distributed: Any, address: str, workers: int | None) -> Iterator[Any]:
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
    from distributed import as_completed
    from distributed.client import ClosedClientError

    from firthshot.experiments.run.worker_side import compute_here

    work = function or compute_here
    queue = iter(cells)
    first = list(islice(queue, 1))
    if not first:
        return
    _install(client, banks, send)
    open_cells: dict[str, Cell] = {}
    running = as_completed()
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
    from firthshot.experiments.run.worker_side import BankPlugin, BankRef, can_open

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
