"""Compute cells on this machine: one thread per cell over kernels that release the GIL."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice

from firthshot.banks import Bank
from firthshot.experiments.plan.cell import Cell
from firthshot.experiments.run.compute import Tables, compute, settle_polars
from firthshot.machine import one_blas_thread


@dataclass(frozen=True)
class Done:
    """A cell that was computed, or why it was not; ``seconds`` is the time of one core."""

    cell: Cell
    tables: Tables | None
    reason: str = ""
    details: str = ""
    seconds: float = 0.0


Compute = Callable[[Iterable[Cell], dict[str, "Bank"]], Iterator[Done]]


def attempt(cell: Cell, bank: Bank, source: Bank | None = None) -> Done:
    """Compute a cell; whatever goes wrong is told, not raised."""
    start = time.perf_counter()
    try:
        tables = compute(cell, bank, source=source)
    except Exception as error:  # noqa: BLE001 - one bad cell must not stop the others
        return Done(cell, None, describe(error), traceback.format_exc())
    return Done(cell, tables, seconds=time.perf_counter() - start)


def describe(error: BaseException) -> str:
    """Return an error in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"


def on_threads(
    cells: Iterable[Cell], banks: dict[str, Bank], workers: int | None = None
) -> Iterator[Done]:
    """Yield cells as they are done, ``workers`` of them at a time."""
    settle_polars()
    count = workers or default_workers()
    queue = iter(cells)
    pool = ThreadPoolExecutor(count)

    def submit(number: int) -> set[Future[Done]]:
        return {
            pool.submit(attempt, cell, banks[cell.condition.bank], banks.get(cell.source))
            for cell in islice(queue, number)
        }

    # Held around all cells: each sets and restores the same limit, so it never changes in between.
    with one_blas_thread():
        try:
            waiting = submit(count + 1)
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                waiting |= submit(len(done))
                yield from (future.result() for future in done)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def default_workers() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
