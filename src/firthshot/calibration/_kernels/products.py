"""The two products of a solver with many more rows than classes, rows read while in cache.

With X (n, d) of thousands of rows and weights W (C, d) of few classes, a matrix product spends its
time on packing X. Here a tile of sums stays in registers for the whole inner loop and X is read as
it lies, features along the lanes of a vector:

    project   Z = W X'        (C, n)   a tile is rows × classes, summed across lanes at its end
    gather    G = U X         (C, d)   a tile is classes × vectors of features, summed over rows

Arrays are float32, C-contiguous; d is a multiple of 16 and n of `TILE_ROWS`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from firthshot.kernels import kernel
from firthshot.kernels.tiles import INDEX, MANY_REGISTERS, emit_cases, name_values
from firthshot.kernels.vectors import fma, load, splat, store

LANES = 16
_VECTOR = ir.VectorType(ir.FloatType(), LANES)
# A tile's sums, and what is multiplied into them, have to fit the registers.
TILE_ROWS, TILE_CLASSES, TILE_VECTORS = (4, 5, 4) if MANY_REGISTERS else (2, 2, 2)


def _sum_of_lanes(builder: Any, vector: Any) -> Any:
    kind = ir.FunctionType(ir.FloatType(), [ir.FloatType(), _VECTOR])
    function = cgutils.get_or_insert_function(
        builder.module, kind, f"llvm.vector.reduce.fadd.v{LANES}f32"
    )
    zero = ir.Constant(ir.FloatType(), 0.0)
    return builder.call(function, (zero, vector), fastmath=("reassoc",))


def _offset(builder: Any, pointer: Any, *terms: tuple[Any, Any]) -> Any:
    """Return the address ``pointer + Σ index · stride``."""
    total = ir.Constant(INDEX, 0)
    for index, stride in terms:
        index, stride = (
            ir.Constant(INDEX, v) if isinstance(v, int) else v for v in (index, stride)
        )
        total = builder.add(total, builder.mul(index, stride))
    return builder.gep(pointer, [total])


def _cells(builder: Any, count: int) -> list[Any]:
    zero = ir.Constant(_VECTOR, None)
    return [cgutils.alloca_once_value(builder, zero) for _ in range(count)]


def _accumulate(builder: Any, cell: Any, left: Any, right: Any) -> None:
    builder.store(fma(builder, left, right, builder.load(cell)), cell)


def _emit_project(builder: Any, values: dict[str, Any], rows: int, classes: int) -> None:
    """Emit out[c, i] = Σ_j w[c, j] x[i, j] for a tile."""
    b, p = builder, values
    sums = _cells(b, rows * classes)
    for cell in sums:  # the cells are allocated once for the function, the tile is run many times
        b.store(ir.Constant(_VECTOR, None), cell)
    with cgutils.for_range(b, p["n"]) as loop:
        at = (loop.index, LANES)
        xs = [load(b, _offset(b, p["x"], (i, p["x_stride"]), at), _VECTOR) for i in range(rows)]
        for c in range(classes):
            w = load(b, _offset(b, p["w"], (c, p["w_stride"]), at), _VECTOR)
            for i in range(rows):
                _accumulate(b, sums[c * rows + i], xs[i], w)
    for c in range(classes):
        for i in range(rows):
            total = _sum_of_lanes(b, b.load(sums[c * rows + i]))
            b.store(total, _offset(b, p["out"], (c, p["out_stride"]), (i, 1)))


def _emit_gather(builder: Any, values: dict[str, Any], classes: int, vectors: int) -> None:
    """Emit out[c, v] += Σ_i u[c, i] x[i, v] for a tile."""
    b, p = builder, values
    places = [(c, v) for c in range(classes) for v in range(vectors)]
    targets = [_offset(b, p["out"], (c, p["out_stride"]), (v, LANES)) for c, v in places]
    sums = _cells(b, len(places))
    for cell, target in zip(sums, targets, strict=True):
        b.store(load(b, target, _VECTOR), cell)
    with cgutils.for_range(b, p["n"]) as loop:
        row = (loop.index, p["x_stride"])
        xs = [load(b, _offset(b, p["x"], row, (v, LANES)), _VECTOR) for v in range(vectors)]
        for c in range(classes):
            scalar = b.load(_offset(b, p["u"], (c, p["u_stride"]), (loop.index, 1)))
            u = splat(b, scalar, _VECTOR)
            for v in range(vectors):
                _accumulate(b, sums[c * vectors + v], u, xs[v])
    for cell, target in zip(sums, targets, strict=True):
        store(b, b.load(cell), target)


_PROJECT = ("x", "x_stride", "w", "w_stride", "n", "out", "out_stride")
_GATHER = ("x", "x_stride", "u", "u_stride", "n", "out", "out_stride")


def _tile(names: tuple[str, ...], limits: tuple[int, int], emit_tile: Any) -> Any:
    """Make an intrinsic (rows, columns, array, offset, stride, …) of a tile of any size.

    An intrinsic's arguments become registers: it takes every offset and stride on its own.
    """

    @intrinsic
    def tile(typingctx, rows, columns, x, x_at, x_stride, w, w_at, w_stride, n, o, o_at, o_stride):
        i = types.intp
        kinds = (x, i, i, w, i, i, i, o, i, i)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = name_values(context, builder, names, kinds, args[2:])

            def emit(rows: int, columns: int, flag: int) -> None:
                emit_tile(builder, values, rows, columns)

            emit_cases(builder, (*args[:2], ir.Constant(INDEX, 0)), (*limits, 1), emit)
            return context.get_dummy_value()

        return types.void(i, i, *kinds), codegen

    return tile


_project_tile = _tile(_PROJECT, (TILE_ROWS, TILE_CLASSES), _emit_project)
_gather_tile = _tile(_GATHER, (TILE_CLASSES, TILE_VECTORS), _emit_gather)


@kernel
def project(x, first, rows, w, out):
    """Write w @ x[first : first + rows]' to ``out[:, first : first + rows]``."""
    d, n_classes, wide = x.shape[1], w.shape[0], out.shape[1]
    tiles = -(-n_classes // TILE_CLASSES)
    for i in range(0, rows, TILE_ROWS):
        tall, c = min(TILE_ROWS, rows - i), 0
        for tile in range(tiles):
            classes = -(-(n_classes - c) // (tiles - tile))
            _project_tile(
                tall, classes, x, (first + i) * d, d, w, c * d, d, d // LANES,
                out, c * wide + first + i, wide,
            )  # fmt: skip
            c += classes


@kernel
def gather(x, first, rows, u, out):
    """Add u[:, first : first + rows] @ x[first : first + rows] to ``out`` (C, d)."""
    d, n_classes, wide = x.shape[1], out.shape[0], u.shape[1]
    tiles, c = -(-n_classes // TILE_CLASSES), 0
    for tile in range(tiles):
        classes = -(-(n_classes - c) // (tiles - tile))
        for v in range(0, d // LANES, TILE_VECTORS):
            vectors = min(TILE_VECTORS, d // LANES - v)
            _gather_tile(
                classes, vectors, x, first * d + v * LANES, d, u, c * wide + first, wide, rows,
                out, c * d + v * LANES, d,
            )  # fmt: skip
        c += classes
