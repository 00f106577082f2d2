"""What a computation may take of the machine."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

FEW_ROWS = 1000


def one_blas_thread() -> AbstractContextManager[Any]:
    """Hold every BLAS at one thread, until the context ends where it is used as one.

    BLAS threads under a thread per trial only get in each other's way, and the number of threads
    changes the last bits of a product, so that results would depend on the number of cores.

    SciPy has a BLAS of its own, which is only limited once it is loaded; and while one thread holds
    a limit, threadpoolctl ignores those of others. So it is loaded here, by whoever comes first.
    """
    limit: AbstractContextManager[Any] = _blas().limit(limits=1)
    return limit


class _FewRows(AbstractContextManager[None]):
    """Hold BLAS at one thread while anybody is inside, and give it back its threads afterwards.

    Threads that share a product of few rows wait for one another longer than they compute: on two
    cores a fit of 2 ms took 8. Callers are counted, because limits that overlap in several Python
    threads would otherwise be given back in the wrong order.
    """

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit = _blas().limit(limits=1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


@cache
def _blas() -> ThreadpoolController:
    """Return the BLAS of NumPy and SciPy; to look for them takes a millisecond."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


one_thread = _FewRows()


def one_thread_for_few_rows(X: Any) -> AbstractContextManager[None]:
    """Compute on one BLAS thread if the rows (n, …) are few."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    return one_thread if len(shape) > 1 and shape[0] <= FEW_ROWS else nullcontext()


def keep_freed_memory() -> None:
    """Let the C library keep the memory of freed arrays for the next ones.

    glibc hands memory back to the system until the program has freed one large piece, and every new
    array of a megabyte then costs some hundred page faults: half the time of a small head.
    """
    np.empty(31 << 20, np.uint8)  # freed at once, untouched; 32 MB is the largest that counts
