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
