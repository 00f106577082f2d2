"""Small loops that the kernels are made of.

numba calls the C library once per exponential or logarithm, which for narrow designs costs more
than the linear algebra; the loops here become vector instructions, and agree with numpy to two
units in the last place. The others stand for whole-array expressions, each of which would take
numba a second to compile, and for products of a few numbers, for which BLAS is slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firthshot.kernels import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROUND = 6755399441055744.0  # 1.5 · 2^52: adding it rounds to an integer, in the lowest bits
_LOG2_E = 1.4426950408889634
_LN2 = 0.6931471805599453
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_EXPONENT = -(1 << 52)  # mask of sign and exponent


@kernel(fastmath={"contract"}, error_model="numpy")
def exp_in_place(x: NDArray[np.float64], scratch: NDArray[np.float64]) -> None:
    """Replace each non-positive ``x`` by its exponential, of at least 1e-307.

    x = k ln 2 + r; the series of exp(r), |r| <= ln(2) / 2, is cut at 4e-18.
    """
    bits = scratch.view(np.int64)
    for b in range(x.size):
        clipped = x[b] if x[b] > -707.0 else -707.0
        scratch[b] = clipped * _LOG2_E + _ROUND
        k = scratch[b] - _ROUND
        r = (clipped - k * _LN2_HIGH) - k * _LN2_LOW
        series = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0)
        series = 1.0 / 3628800.0 + r * (1.0 / 39916800.0 + r * series)
        series = 1.0 / 40320.0 + r * (1.0 / 362880.0 + r * series)
        series = 1.0 / 720.0 + r * (1.0 / 5040.0 + r * series)
        series = 1.0 / 24.0 + r * (1.0 / 120.0 + r * series)
        series = 0.5 + r * (1.0 / 6.0 + r * series)
        x[b] = 1.0 + r * (1.0 + r * series)
    for b in range(x.size):
        bits[b] = (bits[b] + 1023) << 52  # 2^k
    for b in range(x.size):
        x[b] *= scratch[b]


@kernel(fastmath={"contract"}, error_model="numpy")
def log_in_place(x: NDArray[np.float64], scratch: NDArray[np.float64]) -> None:
    """Replace each positive normal ``x`` by its logarithm.

    x = 2^k m with m between the roots of 1/2 and 2; log m = 2 artanh((m - 1) / (m + 1)).
    """
    bits = x.view(np.int64)
    for b in range(x.size):
        above = bits[b] - _ROOT_HALF
        scratch[b] = float(above >> 52)
        bits[b] -= above & _EXPONENT
    for b in range(x.size):
        s = (x[b] - 1.0) / (x[b] + 1.0)
        z = s * s
        series = 1.0 / 19.0 + z * (1.0 / 21.0 + z * (1.0 / 23.0))
        series = 1.0 / 15.0 + z * (1.0 / 17.0 + z * series)
        series = 1.0 / 11.0 + z * (1.0 / 13.0 + z * series)
        series = 1.0 / 7.0 + z * (1.0 / 9.0 + z * series)
        series = 1.0 / 3.0 + z * (1.0 / 5.0 + z * series)
        x[b] = scratch[b] * _LN2 + 2.0 * (s + s * z * series)


@kernel
def fill(a: NDArray[np.float64], number: float) -> None:
    """Set every entry of a matrix."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = number


@kernel
def copy(source: NDArray[np.float64], a: NDArray[np.float64]) -> None:
    """Copy a matrix into ``a``."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = source[i, j]


@kernel(fastmath={"reassoc", "contract"})
def add(
    x: NDArray[np.float64], factor: float, step: NDArray[np.float64], a: NDArray[np.float64]
) -> None:
    """Set ``a`` to x + factor · step."""
    for i in range(a.size):
        a[i] = x[i] + factor * step[i]


@kernel(fastmath={"reassoc", "contract"})
def dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return a'b."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel
def apply(matrix: NDArray[np.float64], x: NDArray[np.float64], a: NDArray[np.float64]) -> None:
    """Set ``a`` to matrix · x."""
    for i in range(a.size):
        a[i] = dot(matrix[i], x)
