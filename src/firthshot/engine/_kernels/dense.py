"""Products of small dense matrices, with a tile of accumulators in registers.

Every product of a dense layer is one operation with different strides,

    out[i, :] = Σ_k left[i, k] · right[k, :]

in which an entry of ``left`` is broadcast and a row of ``right`` is read in vectors. Matrices are
given as (array, flat offset, strides in elements); rows of ``right`` and ``out`` are whole vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from firthshot.engine._kernels.simd import Vector, call, ir_type, lanes_in, load, splat, store
from firthshot.engine._kernels.sweep import INDEX, TILE_ROWS, TILE_VECTORS


class _Tile:
    """Emits one register tile of a product: ``rows`` rows times ``vectors`` column vectors."""

    def __init__(
        self, builder: Any, vector: ir.VectorType, values: dict[str, Any], rows: int, vectors: int
    ) -> None:
        self.builder, self.vector, self.values = builder, vector, values
        self.rows, self.vectors = rows, vectors

    def offset(self, row: int, stride: str, v: int) -> Any:
        """Return row · stride + v vectors, in elements."""
        b = self.builder
        start = b.mul(ir.Constant(INDEX, row), self.values[stride])
        return b.add(start, ir.Constant(INDEX, v * self.vector.count))

    def accumulate(self, starts: list[list[Any]]) -> list[list[Any]]:
        """Return ``starts`` plus the products over k."""
        b, p = self.builder, self.values
        cells = [[cgutils.alloca_once_value(b, value) for value in row] for row in starts]
        for row_cells, row in zip(cells, starts, strict=True):
            for cell, value in zip(row_cells, row, strict=True):
                b.store(value, cell)
        lefts = [
            b.gep(p["left"], [b.mul(ir.Constant(INDEX, i), p["left_row"])])
            for i in range(self.rows)
        ]
        with cgutils.for_range(b, p["n"]) as loop:
            here = b.mul(loop.index, p["right_row"])
            vectors = [
                load(
                    b,
                    b.gep(p["right"], [b.add(here, ir.Constant(INDEX, v * self.vector.count))]),
                    self.vector,
                )
                for v in range(self.vectors)
            ]
            along = b.mul(loop.index, p["left_column"])
            for left, row_cells in zip(lefts, cells, strict=True):
                weight = splat(b, b.load(b.gep(left, [along])), self.vector)
                for value, cell in zip(vectors, row_cells, strict=True):
                    b.store(call(b, "fma", self.vector, weight, value, b.load(cell)), cell)
        return [[b.load(cell) for cell in row_cells] for row_cells in cells]

    def emit_product(self) -> None:
        b, p = self.builder, self.values
        zero = ir.Constant(self.vector, None)
        sums = self.accumulate([[zero] * self.vectors for _ in range(self.rows)])
        for i, row in enumerate(sums):
            for v, value in enumerate(row):
                store(b, value, b.gep(p["out"], [self.offset(i, "out_row", v)]))

    def emit_descent(self, decays: bool) -> None:
        """Emit velocity ← μ velocity + share · decay · w + product; w ← w − η velocity.

        Without decay there is no μ either: velocities drift (:mod:`.drift`).
        """
        b, p, vector = self.builder, self.values, self.vector
        starts = [
            [self._start(i, v, decays) for v in range(self.vectors)] for i in range(self.rows)
        ]
        step = b.fneg(splat(b, p["eta"], vector))
        for i, row in enumerate(self.accumulate(starts)):
            for v, velocity in enumerate(row):
                at = self.offset(i, "out_row", v)
                pointer = b.gep(p["out"], [at])
                store(b, velocity, b.gep(p["velocity"], [at]))
                moved = call(b, "fma", vector, step, velocity, load(b, pointer, vector))
                store(b, moved, pointer)

    def _start(self, i: int, v: int, decays: bool) -> Any:
        """Return what the velocity is before the gradient of the batch."""
        b, p, vector = self.builder, self.values, self.vector
        at = self.offset(i, "out_row", v)
        velocity = load(b, b.gep(p["velocity"], [at]), vector)
        if not decays:
            return velocity
        share, momentum = splat(b, p["share"], vector), splat(b, p["mu"], vector)
        decay = load(b, b.gep(p["decay"], [self.offset(i, "decay_row", v)]), vector)
        pull = b.fmul(b.fmul(share, decay), load(b, b.gep(p["out"], [at]), vector))
        return call(b, "fma", vector, momentum, velocity, pull)


def emit_cases(
    builder: Any, sizes: Any, flags: tuple[int, ...], emit: Callable[[int, int, int], None]
) -> None:
    """Emit a tile for all (rows, vectors, flag) and branch to the one that ``sizes`` names."""

    def number(rows: Any, vectors: Any, flag: Any) -> Any:
        four, two = ir.Constant(INDEX, 4), ir.Constant(INDEX, 2)
        return builder.add(builder.mul(builder.add(builder.mul(rows, four), vectors), two), flag)

    done = builder.append_basic_block("tile.done")
    switch = builder.switch(number(*sizes), done)
    for rows in range(1, TILE_ROWS + 1):
        for vectors in range(1, TILE_VECTORS + 1):
            for flag in flags:
                block = builder.append_basic_block("tile")
                switch.add_case((rows * 4 + vectors) * 2 + flag, block)
                builder.position_at_end(block)
                emit(rows, vectors, flag)
                builder.branch(done)
    builder.position_at_end(done)


def name_values(context: Any, builder: Any, names: Any, kinds: Any, args: Any) -> dict[str, Any]:
    """Name the arguments; an array and the offset after it become one pointer."""
    values: dict[str, Any] = {}
    rest = iter(zip(kinds, args, strict=True))
    for name in names:
        kind, value = next(rest)
        if isinstance(kind, types.Array):
            data = context.make_array(kind)(context, builder, value).data
            value = builder.gep(data, [next(rest)[1]])
        values[name] = value
    return values


_NAMES = (
    "left", "left_row", "left_column", "right", "right_row", "n", "out", "out_row",
    "velocity", "decay", "decay_row", "share", "eta", "mu",
)  # fmt: skip


@intrinsic
def _product_tile(
    typingctx, rows, vectors, left, left_at, left_row, left_column, right, right_at, right_row, n,
    out, out_at, out_row,
):  # fmt: skip
    i, vector = types.intp, Vector(out.dtype)
    kinds = (left, i, i, i, right, i, i, i, out, i, i)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = name_values(context, builder, _NAMES[:8], kinds, args[2:])

        def emit(rows: int, vectors: int, flag: int) -> None:
            _Tile(builder, ir_type(vector), values, rows, vectors).emit_product()

        emit_cases(builder, (*args[:2], ir.Constant(INDEX, 0)), (0,), emit)
        return context.get_dummy_value()

    return types.void(i, i, *kinds), codegen


@intrinsic
def _descent_tile(
    typingctx, rows, vectors, decays, left, left_at, left_row, left_column,
    right, right_at, right_row, n, out, out_at, out_row, velocity, velocity_at,
    decay, decay_at, decay_row, share, eta, mu,
):  # fmt: skip
    i, vector, scalar = types.intp, Vector(out.dtype), out.dtype
    kinds = (left, i, i, i, right, i, i, i, out, i, i, velocity, i, decay, i, i, *(scalar,) * 3)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = name_values(context, builder, _NAMES, kinds, args[3:])

        def emit(rows: int, vectors: int, flag: int) -> None:
            _Tile(builder, ir_type(vector), values, rows, vectors).emit_descent(bool(flag))

        emit_cases(builder, args[:3], (0, 1), emit)
        return context.get_dummy_value()

    return types.void(i, i, i, *kinds), codegen


@njit(nogil=True, cache=True)
def matrix(flat, at, row):
    """Return a matrix with contiguous rows as (flat array, offset, row stride)."""
    # The conversion makes numba forget constants, for which it would compile every product anew.
    return flat, np.int64(at), np.int64(row)


@njit(nogil=True, cache=True)
def factor(flat, at, row, column):
    """Give a matrix whose entries are broadcast as (flat array, offset, row and column strides)."""
    return flat, np.int64(at), np.int64(row), np.int64(column)


@njit(nogil=True, cache=True)
def product(left, right, out, rows, columns, n):
    """Write left @ right to ``out``, ``rows`` × ``columns`` (whole vectors), n terms in each sum.

    Parameters
    ----------
    left : as :func:`factor` gives it
    right, out : as :func:`matrix` gives them
    """
    (l, l_at, l_row, l_column), (r, r_at, r_row), (o, o_at, o_row) = left, right, out
    lanes = lanes_in(o)
    blocks, tiles = columns // lanes, -(-rows // TILE_ROWS)
    for block in range(0, blocks, TILE_VECTORS):
        vectors, column, row = min(TILE_VECTORS, blocks - block), block * lanes, 0
        for tile in range(tiles):
            here = -(-(rows - row) // (tiles - tile))
            _product_tile(
                here, vectors, l, l_at + row * l_row, l_row, l_column, r, r_at + column, r_row, n,
                o, o_at + row * o_row + column, o_row,
            )  # fmt: skip
            row += here


@njit(nogil=True, cache=True)
def descend(left, right, weights, velocity, rows, columns, n, decays, decay, share, eta, mu):
    """Take a momentum step of ``weights`` along left @ right + share · decay · weights.

    Parameters
    ----------
    left, right, weights, decay : matrices as in :func:`product`
    velocity : flat array, laid out like the weights
    decays : 1, or 0 for velocities that drift (:mod:`.drift`): no decay, and ``mu`` is not applied
    """
    (l, l_at, l_row, l_column), (r, r_at, r_row), (w, w_at, w_row) = left, right, weights
    d, d_at, d_row = decay
    lanes = lanes_in(w)
    blocks, tiles = columns // lanes, -(-rows // TILE_ROWS)
    for block in range(0, blocks, TILE_VECTORS):
        vectors, column, row = min(TILE_VECTORS, blocks - block), block * lanes, 0
        for tile in range(tiles):
            here = -(-(rows - row) // (tiles - tile))
            at = w_at + row * w_row + column
            _descent_tile(
                here, vectors, decays, l, l_at + row * l_row, l_row, l_column,
                r, r_at + column, r_row, n, w, at, w_row, velocity, at,
                d, d_at + row * d_row + column, d_row, share, eta, mu,
            )  # fmt: skip
            row += here


@intrinsic
def _transpose_block(typingctx, source, source_at, source_row, target, target_at, target_row):
    """Transpose one square block of a vector's width."""
    i, vector = types.intp, Vector(source.dtype)
    kinds = (source, i, i, target, i, i)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        names = ("source", "source_row", "target", "target_row")
        p = name_values(context, builder, names, kinds, args)
        size, kind = vector.lanes, ir_type(vector)

        def row(name: str, j: int) -> Any:
            return builder.gep(p[name], [builder.mul(ir.Constant(INDEX, j), p[f"{name}_row"])])

        values = [load(builder, row("source", j), kind) for j in range(size)]
        # Interleaving the halves log2(size) times is the transposition.
        for _ in range(size.bit_length() - 1):
            pairs = zip(values[: size // 2], values[size // 2 :], strict=True)
            values = [mixed for pair in pairs for mixed in _interleave(builder, *pair)]
        for j, value in enumerate(values):
            store(builder, value, row("target", j))
        return context.get_dummy_value()

    return types.void(*kinds), codegen


def _interleave(builder: Any, left: Any, right: Any) -> list[Any]:
    """Return the two vectors l0 r0 l1 r1 … of the low and of the high halves."""
    size, integer = left.type.count, ir.IntType(32)
    picks = [[j // 2 + start + size * (j % 2) for j in range(size)] for start in (0, size // 2)]
    masks = [
        ir.Constant(ir.VectorType(integer, size), [ir.Constant(integer, j) for j in pick])
        for pick in picks
    ]
    return [builder.shuffle_vector(left, right, mask) for mask in masks]


@njit(nogil=True, cache=True)
def transpose(source, rows, columns, target):
    """Write the transpose of ``source``, ``rows`` × ``columns`` in whole vectors, to ``target``."""
    (s, s_at, s_row), (t, t_at, t_row) = source, target
    lanes = lanes_in(s)
    for i in range(0, rows, lanes):
        for j in range(0, columns, lanes):
            _transpose_block(s, s_at + i * s_row + j, s_row, t, t_at + j * t_row + i, t_row)


@intrinsic
def gate(typingctx, unit, value):
    """Return ``value`` where ``unit`` is above zero, else zero (a NaN unit lets it pass)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zero = ir.Constant(args[0].type, None)
        shut = builder.fcmp_ordered("<=", args[0], zero)
        return builder.select(shut, zero, args[1])

    return value(unit, value), codegen
