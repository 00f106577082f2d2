"""The text of `solve` compiled with numba, for problems that are not small."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firthshot.jeffreys._kernels import solve
from firthshot.jeffreys._kernels.evaluate import gradient, value
from firthshot.jeffreys._kernels.memory import Data, FloatArray, Work, make_work
from firthshot.kernels import kernel
from firthshot.kernels.blas import LOWER, dpotrf, dpotrs
from firthshot.kernels.elementary import add, apply, copy, dot, fill

__all__ = [
    "gradient",
    "maximise",
    "maximise_each",
    "profile_bound",
    "profile_each",
    "restricted_fits",
    "value",
]


@kernel
def total(x: FloatArray, y: FloatArray, a: FloatArray) -> None:
    """Set ``a`` to the sum of two matrices."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = x[i, j] + y[i, j]


@kernel
def add_outer(x: FloatArray, factor: float, a: FloatArray) -> None:
    """Add factor · x x' to ``a``."""
    for i in range(x.size):
        weight = factor * x[i]
        for j in range(x.size):
            a[i, j] += weight * x[j]


@kernel
def factor(B: FloatArray, info: NDArray[np.int64]) -> bool:
    """Replace B by U with B = U'U; tell whether it is positive definite."""
    size = B.shape[0]
    dpotrf((LOWER, size, B, size, info))
    return bool(info[0] == 0)


@kernel
def solve_factored(U: FloatArray, S: FloatArray, info: NDArray[np.int64]) -> None:
    """Replace each row s of ``S`` by the solution of U'U x = s."""
    size = U.shape[0]
    dpotrs((LOWER, size, S.shape[0], U, size, S, size, info))


@kernel(error_model="numpy")
def least_pivot(work: Work) -> float:
    """Return the smallest pivot of F relative to its diagonal."""
    least = np.inf
    for s in range(work.F.shape[0]):
        least = min(least, work.L[s, s] ** 2 / work.F[s, s])
    return least


_words: dict[str, Any] = vars(solve) | {
    word.__name__: word
    for word in (
        *(add, add_outer, apply, copy, dot, factor, fill),
        *(gradient, least_pivot, solve_factored, total, value),
    )
}


def _compiled(function: Any) -> Any:
    """Compile a function of `solve` with the words of this file, and be one of them."""
    # As code of this file it is compiled anew whenever a file that this one imports changes.
    code = function.__code__.replace(co_filename=__file__)
    made = FunctionType(code, _words, function.__name__)
    made.__module__ = __name__
    _words[function.__name__] = kernel(error_model="numpy")(made)
    return _words[function.__name__]


_compiled(solve._factor_curvature)
_compiled(solve._newton_parts)
_compiled(solve._sr1_update)
_compiled(solve._backtrack)
maximise = _compiled(solve.maximise)
profile_bound = _compiled(solve.profile_bound)
restricted_fits = _compiled(solve.restricted_fits)
profile_each = _compiled(solve.profile_each)


def maximise_each(
    data: Data, starts: FloatArray, C: FloatArray, tol: float, max_iter: int
) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Maximise l* from each row of ``starts``, as `together.maximise_each` does."""
    theta, work = starts.copy(), make_work(data.Z.shape[1], len(data.Z), len(data.offset))
    ended = []
    for start in theta:
        work.A[:] = 0.0
        ended.append(maximise(data, work, start, C, tol, max_iter, 0.0))
    lp, decrements, iterations, status = map(np.array, zip(*ended, strict=True))
    return theta, lp, decrements, iterations, status
