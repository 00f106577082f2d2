"""What a computation may take of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import threadpool_limits


def one_blas_thread() -> threadpool_limits:
    """Hold every BLAS at one thread, until the context ends where it is used as one.

    BLAS threads under a thread per trial only get in each other's way, and the number of threads
    changes the last bits of a product, so that results would depend on the number of cores.

    SciPy has a BLAS of its own, which is only limited once it is loaded; and while one thread holds
    a limit, threadpoolctl ignores those of others. So it is loaded here, by whoever comes first.
    """
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1)


def keep_freed_memory() -> None:
    """Let the C library keep the memory of freed arrays for the next ones.

    glibc hands memory back to the system until the program has freed one large piece, and every new
    array of a megabyte then costs some hundred page faults: half the time of a small head.
    """
    import numpy as np

    np.empty(31 << 20, np.uint8)  # freed at once, untouched; 32 MB is the largest that counts
