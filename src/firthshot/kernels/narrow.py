"""Products of a few weights with the rows of a trial, for which BLAS is two to six times slower.

Rows end in whole vectors: padding is zero. A tile of sums stays in registers, so that every row is
read from the cache once for five weights.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from firthshot.kernels import kernel
from firthshot.kernels.vectors import (
    Vector,
    ir_type,
    lanes_in,
    make_load,
    vfill,
    vfma,
    vload,
    vstore,
    vsum,
)

_OCTET = 8
_load = make_load(_OCTET)


@intrinsic
def _zeros(typingctx, array):
    """Return eight zeros of the array's type."""
    octet = Vector(array.dtype, _OCTET)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir_type(octet), None)

    return octet(array), codegen


@kernel
def dots(weights, rows, first, last, out):
    """Write ⟨w, x⟩ of weights (K, d) and rows first … last − 1 of (n, d) into those columns."""
    d = rows.shape[1]
    for i in range(first, last, 2):
        other = min(i + 1, last - 1)
        k = 0
        while k + 5 <= len(weights):
            _five_dots(weights, rows, k, i * d, other * d, out, i, other)
            k += 5
        while k < len(weights):
            here, there = _zeros(rows), _zeros(rows)
            for j in range(0, d, _OCTET):
                w = _load(weights, k * d + j)
                here = vfma(w, _load(rows, i * d + j), here)
                there = vfma(w, _load(rows, other * d + j), there)
            out[k, i], out[k, other] = vsum(here), vsum(there)
            k += 1


@kernel
def _five_dots(weights, rows, k, here, there, out, i, other):
    d = rows.shape[1]
    at = k * d
    a0, a1, a2, a3, a4 = _zeros(rows), _zeros(rows), _zeros(rows), _zeros(rows), _zeros(rows)
    b0, b1, b2, b3, b4 = _zeros(rows), _zeros(rows), _zeros(rows), _zeros(rows), _zeros(rows)
    for j in range(0, d, _OCTET):
        x, y = _load(rows, here + j), _load(rows, there + j)
        w = _load(weights, at + j)
        a0, b0 = vfma(w, x, a0), vfma(w, y, b0)
        w = _load(weights, at + d + j)
        a1, b1 = vfma(w, x, a1), vfma(w, y, b1)
        w = _load(weights, at + 2 * d + j)
        a2, b2 = vfma(w, x, a2), vfma(w, y, b2)
        w = _load(weights, at + 3 * d + j)
        a3, b3 = vfma(w, x, a3), vfma(w, y, b3)
        w = _load(weights, at + 4 * d + j)
        a4, b4 = vfma(w, x, a4), vfma(w, y, b4)
    out[k, i], out[k, other] = vsum(a0), vsum(b0)
    out[k + 1, i], out[k + 1, other] = vsum(a1), vsum(b1)
    out[k + 2, i], out[k + 2, other] = vsum(a2), vsum(b2)
    out[k + 3, i], out[k + 3, other] = vsum(a3), vsum(b3)
    out[k + 4, i], out[k + 4, other] = vsum(a4), vsum(b4)


@kernel
def mixtures(shares, rows, out):
    """Write shares (K, n) · rows (n, d)."""
    d = rows.shape[1]
    for j in range(0, d, lanes_in(rows)):
        k = 0
        while k + 5 <= len(shares):
            a, b, c = vfill(rows, 0.0), vfill(rows, 0.0), vfill(rows, 0.0)
            e, f = vfill(rows, 0.0), vfill(rows, 0.0)
            for i in range(len(rows)):
                x = vload(rows, i * d + j)
                a = vfma(vfill(rows, shares[k, i]), x, a)
                b = vfma(vfill(rows, shares[k + 1, i]), x, b)
                c = vfma(vfill(rows, shares[k + 2, i]), x, c)
                e = vfma(vfill(rows, shares[k + 3, i]), x, e)
                f = vfma(vfill(rows, shares[k + 4, i]), x, f)
            vstore(out, k * d + j, a)
            vstore(out, (k + 1) * d + j, b)
            vstore(out, (k + 2) * d + j, c)
            vstore(out, (k + 3) * d + j, e)
            vstore(out, (k + 4) * d + j, f)
            k += 5
        while k < len(shares):
            a = vfill(rows, 0.0)
            for i in range(len(rows)):
                a = vfma(vfill(rows, shares[k, i]), vload(rows, i * d + j), a)
            vstore(out, k * d + j, a)
            k += 1


@kernel
def gram(rows, out):
    """Write ⟨x, y⟩ of all pairs of rows (n, d), each computed once, into (n, at least n)."""
    n = len(rows)
    for k in range(0, n, 5):
        dots(rows[k : min(k + 5, n)], rows, k, n, out[k : min(k + 5, n)])
    for i in range(n):
        for j in range(i):
            out[i, j] = out[j, i]
