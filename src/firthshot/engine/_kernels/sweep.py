"""The fused sweep: one momentum step of all coefficients and the batch's product with them.

State of a layer: coefficients ``a`` and ``e``, the velocity times the momentum plus the gradients
that arrived since. One sweep does, for every row j and column c,

    velocity = e + decay_c · a        a ← a − η · velocity        e ← μ · velocity

and on the way, while the row is in registers, accumulates the product with the batch's rows of K,

    z_i = Σ_j K[i, j] a_j             (and ze_i = Σ_j K[i, j] e_j where the head asks for it).

Memory is read once per step instead of three times. A tile of accumulators (batch rows × column
vectors) stays in registers for the whole pass over j, which is what brings the loop near the speed
of a large matrix product.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from firthshot.engine._kernels.simd import Vector, call, ir_type, load, splat, store

INDEX = ir.IntType(64)


def _tile_limits() -> tuple[int, int]:
    """Return (rows, column vectors) of the largest tile that this machine's registers hold."""
    return (10, 2) if llvm.get_host_cpu_features().get("avx512f") else (5, 1)


TILE_ROWS, TILE_VECTORS = _tile_limits()


class _Tile:
    """Emits one register tile: ``rows`` batch rows times ``vectors`` column vectors."""

    def __init__(self, builder: Any, vector: ir.VectorType, values: dict[str, Any]) -> None:
        self.builder, self.vector, self.values = builder, vector, values
        self.lanes = ir.Constant(INDEX, vector.count)

    def emit(self, rows: int, vectors: int, update: bool, kinds: int) -> None:
        """Emit the pass over j; ``kinds`` is 1 for the product with a alone, 2 for a and e."""
        b, p = self.builder, self.values
        starts = [b.mul(self._column(v), p["n"]) for v in range(vectors)]
        k_rows = [self._k_row(i) for i in range(rows)]
        decays = [
            load(b, b.gep(p["decay"], [self._column(v)]), self.vector) for v in range(vectors)
        ]
        step, momentum = (splat(b, p[name], self.vector) for name in ("eta", "mu"))
        zero = ir.Constant(self.vector, None)
        sums = [
            [[cgutils.alloca_once_value(b, zero) for _ in range(vectors)] for _ in range(rows)]
            for _ in range(kinds)
        ]
        with cgutils.for_range(b, p["n"]) as loop:
            offset = b.mul(loop.index, self.lanes)
            state = [
                self._advance(b.add(starts[v], offset), decays[v], step, momentum, update)
                for v in range(vectors)
            ]
            for i in range(rows):
                weight = splat(b, b.load(b.gep(k_rows[i], [loop.index])), self.vector)
                for kind in range(kinds):
                    for v in range(vectors):
                        self._accumulate(sums[kind][i][v], weight, state[v][kind])
        for kind, target in enumerate(("z", "ze")[:kinds]):
            self._write(sums[kind], p[target])

    def _column(self, v: int) -> Any:
        return self.builder.mul(
            self.builder.add(self.values["block"], ir.Constant(INDEX, v)), self.lanes
        )

    def _row(self, i: int) -> Any:
        return self.builder.add(self.values["row"], ir.Constant(INDEX, i))

    def _k_row(self, i: int) -> Any:
        b, p = self.builder, self.values
        return b.gep(p["k"], [b.mul(b.load(b.gep(p["rows"], [self._row(i)])), p["k_stride"])])

    def _advance(
        self, offset: Any, decay: Any, step: Any, momentum: Any, update: bool
    ) -> tuple[Any, Any]:
        """Move one row of one column vector by a momentum step; return the new (a, e)."""
        b, p = self.builder, self.values
        a_pointer, e_pointer = b.gep(p["a"], [offset]), b.gep(p["e"], [offset])
        a, e = load(b, a_pointer, self.vector), load(b, e_pointer, self.vector)
        if update:
            velocity = call(b, "fma", self.vector, decay, a, e)
            a = call(b, "fma", self.vector, b.fneg(step), velocity, a)
            e = b.fmul(momentum, velocity)
            store(b, a, a_pointer)
            store(b, e, e_pointer)
        return a, e

    def _accumulate(self, cell: Any, weight: Any, value: Any) -> None:
        b = self.builder
        b.store(call(b, "fma", self.vector, weight, value, b.load(cell)), cell)

    def _write(self, sums: Any, target: Any) -> None:
        b, p = self.builder, self.values
        for i, row in enumerate(sums):
            start = b.mul(self._row(i), p["z_stride"])
            for v, cell in enumerate(row):
                store(b, b.load(cell), b.gep(target, [b.add(start, self._column(v))]))


_SCALARS = ("n", "block", "row", "eta", "mu")
_ARRAYS = ("k", "rows", "a", "e", "decay", "z", "ze")


def _make_tile(kinds: int, most_rows: int) -> Any:
    @intrinsic
    def tile(
        typingctx,
        tile_rows,
        tile_vectors,
        update,
        n,
        block,
        row,
        eta,
        mu,
        k,
        rows,
        a,
        e,
        decay,
        z,
        ze,
    ):
        vector = Vector(a.dtype)
        arrays = (k, rows, a, e, decay, z, ze)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = dict(zip(_SCALARS, args[3:8], strict=True))
            for name, array_type, array in zip(_ARRAYS, arrays, args[8:], strict=True):
                struct = context.make_array(array_type)(context, builder, array)
                values[name] = struct.data
                if name in {"k", "z"}:
                    values[f"{name}_stride"] = cgutils.unpack_tuple(builder, struct.shape)[1]
            builder_tile = _Tile(builder, ir_type(vector), values)
            done = builder.append_basic_block("tile.done")
            which = builder.switch(_case(builder, *args[:3]), done)
            for rows_here in range(1, most_rows + 1):
                for vectors_here in range(1, TILE_VECTORS + 1):
                    for update_here in (0, 1):
                        block_here = builder.append_basic_block("tile")
                        which.add_case(
                            _case_number(rows_here, vectors_here, update_here), block_here
                        )
                        builder.position_at_end(block_here)
                        builder_tile.emit(rows_here, vectors_here, bool(update_here), kinds)
                        builder.branch(done)
            builder.position_at_end(done)
            return context.get_dummy_value()

        scalar = a.dtype
        integers = (types.intp,) * 6
        return types.void(*integers, scalar, scalar, *arrays), codegen

    return tile


def _case_number(rows: int, vectors: int, update: int) -> int:
    return (rows * 4 + vectors) * 2 + update


def _case(builder: Any, rows: Any, vectors: Any, update: Any) -> Any:
    four, two = ir.Constant(INDEX, 4), ir.Constant(INDEX, 2)
    return builder.add(builder.mul(builder.add(builder.mul(rows, four), vectors), two), update)


def _make_sweep(kinds: int) -> Any:
    most_rows = TILE_ROWS // kinds
    tile = _make_tile(kinds, most_rows)

    @njit(nogil=True, cache=True, inline="never")
    def sweep(k, rows, n_rows, a, e, decay, eta, mu, z, ze):
        blocks, n = a.shape[0], a.shape[1]
        for block in range(0, blocks, TILE_VECTORS):
            vectors = min(TILE_VECTORS, blocks - block)
            for row in range(0, n_rows, most_rows):
                here = min(most_rows, n_rows - row)
                tile(
                    here,
                    vectors,
                    1 if row == 0 else 0,
                    n,
                    block,
                    row,
                    eta,
                    mu,
                    k,
                    rows,
                    a,
                    e,
                    decay,
                    z,
                    ze,
                )

    return sweep


sweep = _make_sweep(1)
sweep_with_velocity = _make_sweep(2)
