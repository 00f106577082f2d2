"""Products of rows, read where they lie, with the weights of all columns.

BLAS chooses its kernels by the processor's name, and takes those of an older one for a name that it
does not know; what is written in vectors follows the processor's abilities. And it wants its
operands copied first, which costs more than the product where weights are few.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from firthshot.arrays import Array
from firthshot.kernels import kernel
from firthshot.kernels.tiles import INDEX, MANY_REGISTERS, TILE_VECTORS, emit_cases
from firthshot.kernels.vectors import (
    Vector,
    fma,
    ir_type,
    lanes_in,
    lanes_of,
    load,
    splat,
    store,
    vfill,
    vfma,
    vload,
    vsum,
)

# Rows of a tile: accumulators, the weights and a row's number have to fit the registers.
_ROWS = 12 if MANY_REGISTERS else 6
# Rows that all panels of weights pass over in turn: they stay in the second-level cache.
_GROUP = 8 * _ROWS


def pack(weights: Array) -> Array:
    """Lay weights (m, d) out in panels (⌈m / lanes⌉, d, lanes), the last one padded with zeros."""
    (m, d), lanes = weights.shape, lanes_of(weights.dtype)
    panels = -(-m // lanes)
    padded = np.zeros((panels * lanes, d), weights.dtype)
    padded[:m] = weights
    return np.ascontiguousarray(padded.reshape(panels, lanes, d).transpose(0, 2, 1))


def _opaque(builder: Any, value: Any) -> Any:
    """Return the value such that the compiler knows nothing of it."""
    kind = ir.FunctionType(value.type, [value.type])
    return builder.asm(kind, "", "=r,0", [value], side_effect=False)


@contextmanager
def _each_term(builder: Any, many: Any) -> Iterator[Any]:
    """Emit a loop over 0 … many - 1 that the compiler does not unroll.

    Unrolled, it asks for the numbers of two terms at once, and accumulators leave the registers.
    """
    place = cgutils.alloca_once_value(builder, ir.Constant(INDEX, 0))
    test, body, done = (
        builder.append_basic_block(f"term.{name}") for name in ("test", "body", "done")
    )
    builder.branch(test)
    builder.position_at_end(test)
    k = builder.load(place)
    builder.cbranch(builder.icmp_signed("<", k, many), body, done)
    builder.position_at_end(body)
    yield k
    builder.store(_opaque(builder, builder.add(k, ir.Constant(INDEX, 1))), place)
    builder.branch(test)
    builder.position_at_end(done)


class _RowsTile:
    """Emits one register tile: ``rows`` rows times ``vectors`` panels of weights."""

    def __init__(self, builder: Any, vector: ir.VectorType, values: dict[str, Any]) -> None:
        self.builder, self.vector, self.values = builder, vector, values
        self.lanes = ir.Constant(INDEX, vector.count)

    def emit(self, rows: int, vectors: int) -> None:
        """Emit the sums over all d terms."""
        b, p = self.builder, self.values
        zero = ir.Constant(self.vector, None)
        sums = [[cgutils.alloca_once_value(b, zero) for _ in range(vectors)] for _ in range(rows)]
        starts = [b.gep(p["rows"], [b.mul(self._row(i), p["d"])]) for i in range(0, rows, 4)]
        panels = [
            b.gep(p["weights"], [b.mul(b.mul(self._panel(v), p["d"]), self.lanes)])
            for v in range(vectors)
        ]
        with _each_term(b, p["d"]) as k:
            at = b.mul(k, self.lanes)
            weights = [load(b, b.gep(panel, [at]), self.vector) for panel in panels]
            places = [_opaque(b, b.gep(start, [k])) for start in starts]
            for i, mine in enumerate(sums):
                place = b.gep(places[i // 4], [b.mul(p["d"], ir.Constant(INDEX, i % 4))])
                number = splat(b, b.load(place), self.vector)
                for weight, cell in zip(weights, mine, strict=True):
                    b.store(fma(b, number, weight, b.load(cell)), cell)
        for i, mine in enumerate(sums):
            for v, cell in enumerate(mine):
                place = b.add(b.mul(self._row(i), p["wide"]), b.mul(self._panel(v), self.lanes))
                store(b, b.load(cell), b.gep(p["out"], [place]))

    def _row(self, i: int) -> Any:
        return self.builder.add(self.values["row"], ir.Constant(INDEX, i))

    def _panel(self, v: int) -> Any:
        return self.builder.add(self.values["panel"], ir.Constant(INDEX, v))


@intrinsic
def _tile(typingctx, sizes, place, rows, weights, out):
    """Run the tile of sizes (rows, vectors) at place (row, panel, d, width of out)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sizes, place = (cgutils.unpack_tuple(builder, args[at]) for at in (0, 1))
        values = dict(zip(("row", "panel", "d", "wide"), place, strict=True))
        for name, kind, value in zip(
            ("rows", "weights", "out"), (rows, weights, out), args[2:], strict=True
        ):
            values[name] = context.make_array(kind)(context, builder, value).data
        emitter = _RowsTile(builder, ir_type(Vector(rows.dtype)), values)

        def emit(rows: int, vectors: int, flag: int) -> None:
            emitter.emit(rows, vectors)

        sizes = (*sizes, ir.Constant(INDEX, 0))
        emit_cases(builder, sizes, (_ROWS, TILE_VECTORS, 1), emit)
        return context.get_dummy_value()

    two, four = (types.UniTuple(types.intp, many) for many in (2, 4))
    return types.void(two, four, rows, weights, out), codegen


@kernel(allocates=False)
def multiply(rows, weights, out, factors):
    """Write rows (n, d) times packed weights (panels, d, lanes) to out (n, panels · lanes).

    ``factors``, (n,) or empty, become 1 / (‖x‖ + 1e-5) of every row, which is not multiplied in.
    """
    (n, d), panels, wide = rows.shape, len(weights), out.shape[1]
    for low in range(0, n, _GROUP):
        high = min(low + _GROUP, n)
        if factors.size:
            _inverse_norms(rows, low, high, factors)
        tall = -(-(high - low) // -(-(high - low) // _ROWS))
        for panel in range(0, panels, TILE_VECTORS):
            vectors = min(TILE_VECTORS, panels - panel)
            for row in range(low, high, tall):
                _tile((min(tall, high - row), vectors), (row, panel, d, wide), rows, weights, out)


@kernel(allocates=False)
def _inverse_norms(rows, low, high, out):
    d, lanes = rows.shape[1], lanes_in(rows)
    whole = d // lanes * lanes
    for i in range(low, high):
        squares = vfill(rows, 0.0)
        for at in range(i * d, i * d + whole, lanes):
            x = vload(rows, at)
            squares = vfma(x, x, squares)
        total = vsum(squares)
        for j in range(whole, d):
            total += rows[i, j] * rows[i, j]
        out[i] = 1 / (np.sqrt(total) + rows.dtype.type(1e-5))


@kernel(allocates=False)
def stand_up(products, factors, bias, out):
    """Write products (n, wide), times a factor per row plus a bias, to out (columns, n).

    n and wide are whole vectors, the columns the first ones of the products.
    """
    (columns, n), lanes = out.shape, lanes_in(out)
    for i in range(0, n, lanes):
        for column in range(0, columns, lanes):
            _stand_up(products, factors, bias, out, (i, column, products.shape[1], n, columns))


@intrinsic
def _stand_up(typingctx, products, factors, bias, out, place):
    """Do it for as many rows and columns as a vector has lanes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        b, vector = builder, ir_type(Vector(out.dtype))
        names = ("products", "factors", "bias", "out")
        data = {
            name: context.make_array(kind)(context, b, value).data
            for name, kind, value in zip(names, signature.args[:4], args[:4], strict=True)
        }
        i, column, wide, n, columns = cgutils.unpack_tuple(b, args[4])
        start, numbers = b.add(b.mul(i, wide), column), range(vector.count)
        offsets = [b.add(start, b.mul(ir.Constant(INDEX, k), wide)) for k in numbers]
        block = _transposed(b, [load(b, b.gep(data["products"], [at]), vector) for at in offsets])
        factor = load(b, b.gep(data["factors"], [i]), vector)
        for k, value in enumerate(block):
            mine = b.add(column, ir.Constant(INDEX, k))
            with b.if_then(b.icmp_signed("<", mine, columns)):
                shift = splat(b, b.load(b.gep(data["bias"], [mine])), vector)
                place = b.gep(data["out"], [b.add(b.mul(mine, n), i)])
                store(b, fma(b, factor, value, shift), place)
        return context.get_dummy_value()

    five = types.UniTuple(types.intp, 5)
    return types.void(products, factors, bias, out, five), codegen


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Emit the transpose of a square block: in halves, blocks off the diagonal change places."""
    many, word = len(rows), ir.IntType(32)

    def pick(left: Any, right: Any, lanes: list[int]) -> Any:
        return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(word, many), lanes))

    half = 1
    while half < many:
        for i in (i for i in range(many) if not i & half):
            upper, lower = rows[i], rows[i + half]
            lanes = range(many)
            rows[i] = pick(upper, lower, [k + many - half if k & half else k for k in lanes])
            rows[i + half] = pick(upper, lower, [k + many if k & half else k + half for k in lanes])
        half *= 2
    return rows
