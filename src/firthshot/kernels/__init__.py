"""The words in which fast code is written; nothing here knows of heads, penalties or fits.

========================  ======================================================================
`vectors`                 a register of 64 bytes as a numba type, and arithmetic on it
`tiles`                   blocks of such registers that stay in the processor during a product
`products`                rows, read where they lie, times the weights of all columns
`narrow`                  products of a few weights with many rows
`softmax`, `mean_loss`    probabilities, the gradient by logits and its Hessian product
`elementary`              exp, log and sums over whole arrays
`blas`                    BLAS and LAPACK without copies or checks
`streams`                 counter-based random numbers
========================  ======================================================================

`kernel` compiles a function when it is first called, without the interpreter's lock, and keeps the
machine code on disk for as long as no source behind it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, overload

from numba import njit
from numba.core.dispatcher import Dispatcher

from firthshot.kernels._cache import KernelCache, writable_folder

__all__ = ["kernel"]


Function = Callable[..., Any]


@overload
def kernel(function: Function) -> Any: ...
@overload
def kernel(**options: Any) -> Callable[[Function], Any]: ...
def kernel(function: Function | None = None, allocates: bool = True, **options: Any) -> Any:
    """Compile a function with numba when it is first called; ``options`` are those of `njit`.

    What makes no array of its own (``allocates=False``) counts no references to those it is given:
    counting took more than half of the time of short steps.
    """
    if function is None:
        return partial(kernel, allocates=allocates, **options)
    compiled: Any = njit(nogil=True, _nrt=allocates, **options)(function)
    folder = writable_folder(Path(function.__code__.co_filename).parent)
    if isinstance(compiled, Dispatcher) and folder is not None:
        compiled._cache = KernelCache(function, folder)  # type: ignore[attr-defined]
    return compiled
