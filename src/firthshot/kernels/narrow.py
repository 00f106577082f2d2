"""Products of few weights W (K, d) with rows X (n, d), for which BLAS is two to six times slower.

BLAS spends its time on packing X. Here a tile of sums stays in registers for the whole inner loop
and X is read as it lies, features along the lanes of a vector:

    dots        W X'     (K, n)   a tile is rows × weights, summed across lanes at its end
    mixtures    U X      (K, d)   a tile is weights × vectors of features, summed over rows

Arrays are C-contiguous; d is a whole number of vectors. No entry depends on where in a tile it is.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from firthshot.kernels import kernel
from firthshot.kernels.tiles import INDEX, MANY_REGISTERS, emit_cases, name_values
from firthshot.kernels.vectors import Vector, fma, ir_type, lanes_in, load, splat, store

# A tile's sums, and what is multiplied into them, have to fit the registers.
TILE_ROWS, TILE_WEIGHTS, TILE_VECTORS = (4, 5, 4) if MANY_REGISTERS else (2, 2, 2)
GRAM_ROWS = 20  # that stay in the nearest cache while the others pass


class _Tile:
    """Emits sums that stay in registers; values are pointers, strides and the length of a sum."""

    def __init__(self, builder: Any, vector: ir.VectorType, values: dict[str, Any]) -> None:
        self.builder, self.vector, self.values = builder, vector, values

    def at(self, name: str, row: Any, column: Any) -> Any:
        """Return the address of an entry of a matrix, seen from where the tile begins."""
        b, p = self.builder, self.values
        row, column = (
            ir.Constant(INDEX, v) if isinstance(v, int) else v for v in (row, column)
        )  # fmt: skip
        return b.gep(p[name], [b.add(b.mul(row, p[f"{name}_stride"]), column)])

    def load(self, name: str, row: Any, column: Any) -> Any:
        """Return a vector of a matrix."""
        return load(self.builder, self.at(name, row, column), self.vector)

    def cells(self, starts: list[Any]) -> list[Any]:
        """Return registers with these values."""
        b = self.builder
        found = [cgutils.alloca_once(b, self.vector) for _ in starts]
        for cell, value in zip(found, starts, strict=True):
            b.store(value, cell)
        return found

    def add(self, cell: Any, left: Any, right: Any) -> None:
        """Add a product to a register."""
        b = self.builder
        b.store(fma(b, left, right, b.load(cell)), cell)

    def sum_of_lanes(self, vector: Any) -> Any:
        """Return the sum of a vector's lanes, in any order."""
        b, scalar = self.builder, self.vector.element
        bits = 32 if isinstance(scalar, ir.FloatType) else 64
        name = f"llvm.vector.reduce.fadd.v{self.vector.count}f{bits}"
        kind = ir.FunctionType(scalar, [scalar, self.vector])
        function = cgutils.get_or_insert_function(b.module, kind, name)
        return b.call(function, (ir.Constant(scalar, 0.0), vector), fastmath=("reassoc",))


class _Dots(_Tile):
    """out[k, i] = Σ_j u[k, j] x[i, j]."""

    def emit(self, rows: int, weights: int) -> None:
        """Emit the tile."""
        b, p = self.builder, self.values
        sums = self.cells([ir.Constant(self.vector, None)] * (rows * weights))
        with cgutils.for_range(b, p["n"]) as loop:
            j = b.mul(loop.index, ir.Constant(INDEX, self.vector.count))
            xs = [self.load("x", i, j) for i in range(rows)]
            for k in range(weights):
                u = self.load("u", k, j)
                for i in range(rows):
                    self.add(sums[k * rows + i], xs[i], u)
        for k in range(weights):
            for i in range(rows):
                total = self.sum_of_lanes(b.load(sums[k * rows + i]))
                b.store(total, self.at("out", k, i))


class _Mixtures(_Tile):
    """out[k, v] += Σ_i u[k, i] x[i, v]."""

    def emit(self, weights: int, vectors: int) -> None:
        """Emit the tile."""
        b, p, lanes = self.builder, self.values, self.vector.count
        places = [(k, v * lanes) for k in range(weights) for v in range(vectors)]
        sums = self.cells([self.load("out", *place) for place in places])
        with cgutils.for_range(b, p["n"]) as loop:
            xs = [self.load("x", loop.index, v * lanes) for v in range(vectors)]
            for k in range(weights):
                u = splat(b, b.load(self.at("u", k, loop.index)), self.vector)
                for v in range(vectors):
                    self.add(sums[k * vectors + v], u, xs[v])
        for cell, place in zip(sums, places, strict=True):
            store(b, b.load(cell), self.at("out", *place))


def _intrinsic(kind: type[_Dots | _Mixtures], limits: tuple[int, int]) -> Any:
    """Make an intrinsic (rows, columns, array, offset, stride, …) of a tile of any size.

    An intrinsic's arguments become registers: it takes every offset and stride on its own.
    """
    names = ("x", "x_stride", "u", "u_stride", "n", "out", "out_stride")

    @intrinsic
    def tile(typingctx, rows, columns, x, x_at, x_stride, u, u_at, u_stride, n, o, o_at, o_stride):
        i = types.intp
        kinds = (x, i, i, u, i, i, i, o, i, i)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = name_values(context, builder, names, kinds, args[2:])
            emitter = kind(builder, ir_type(Vector(x.dtype)), values)

            def emit(rows: int, columns: int, flag: int) -> None:
                emitter.emit(rows, columns)

            emit_cases(builder, (*args[:2], ir.Constant(INDEX, 0)), (*limits, 1), emit)
            return context.get_dummy_value()

        return types.void(i, i, *kinds), codegen

    return tile


_dots_tile = _intrinsic(_Dots, (TILE_ROWS, TILE_WEIGHTS))
_mixtures_tile = _intrinsic(_Mixtures, (TILE_WEIGHTS, TILE_VECTORS))


@kernel
def dots(weights, rows, first, last, out):
    """Write ⟨w, x⟩ of weights (K, d) and rows first … last − 1 of (n, d) into those columns."""
    d, many, wide = rows.shape[1], weights.shape[0], out.shape[1]
    tiles = -(-many // TILE_WEIGHTS)
    for i in range(first, last, TILE_ROWS):
        tall, k = min(TILE_ROWS, last - i), 0
        for tile in range(tiles):
            each = -(-(many - k) // (tiles - tile))
            _dots_tile(
                tall, each, rows, i * d, d, weights, k * d, d, d // lanes_in(rows),
                out, k * wide + i, wide,
            )  # fmt: skip
            k += each


@kernel
def add_mixtures(shares, rows, first, last, out):
    """Add shares (K, n) · rows (n, d), of the rows first … last − 1, to ``out`` (K, d)."""
    d, many, wide, lanes = rows.shape[1], out.shape[0], shares.shape[1], lanes_in(rows)
    tiles, k = -(-many // TILE_WEIGHTS), 0
    for tile in range(tiles):
        each = -(-(many - k) // (tiles - tile))
        for j in range(0, d, TILE_VECTORS * lanes):
            vectors = min(TILE_VECTORS, (d - j) // lanes)
            _mixtures_tile(
                each, vectors, rows, first * d + j, d, shares, k * wide + first, wide,
                last - first, out, k * d + j, d,
            )  # fmt: skip
        k += each


@kernel
def mixtures(shares, rows, out):
    """Write shares (K, at least n) · rows (n, d)."""
    out[:] = 0
    add_mixtures(shares, rows, 0, len(rows), out)


@kernel
def gram(rows, out):
    """Write ⟨x, y⟩ of all pairs of rows (n, d) into (n, at least n); it is symmetric to the bit."""
    n = len(rows)
    for k in range(0, n, GRAM_ROWS):
        end = min(k + GRAM_ROWS, n)
        dots(rows[k:end], rows, k, n, out[k:end])
        for i in range(end, n):
            for j in range(k, end):
                out[i, j] = out[j, i]
