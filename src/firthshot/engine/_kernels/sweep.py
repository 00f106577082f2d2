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

from numba import types
from numba.extending import intrinsic

from firthshot.kernels import kernel
from firthshot.kernels.tiles import (
    TILE_ROWS,
    TILE_VECTORS,
    Tile,
    emit_cases,
    name_values,
)
from firthshot.kernels.vectors import Vector, fma, ir_type, load, splat, store


class _SweepTile(Tile):
    def prepare(self, v: int) -> tuple[Any, ...]:
        b, p = self.builder, self.values
        step, momentum = (splat(b, p[name], self.vector) for name in ("eta", "mu"))
        return load(b, b.gep(p["decay"], [self.column(v)]), self.vector), b.fneg(step), momentum

    def advance(self, offset: Any, constants: tuple[Any, ...], update: bool) -> tuple[Any, ...]:
        """Move one row of one column vector by a momentum step; return the new (a, e)."""
        b, p, (decay, back, momentum) = self.builder, self.values, constants
        a_pointer, e_pointer = b.gep(p["a"], [offset]), b.gep(p["e"], [offset])
        a, e = load(b, a_pointer, self.vector), load(b, e_pointer, self.vector)
        if update:
            velocity = fma(b, decay, a, e)
            a = fma(b, back, velocity, a)
            e = b.fmul(momentum, velocity)
            store(b, a, a_pointer)
            store(b, e, e_pointer)
        return a, e


_NAMES = ("block", "row", "n", "eta", "mu", "k", "k_stride", "rows", "a", "e", "decay", "z", "ze",
          "z_stride")  # fmt: skip


def _make_tile(targets: tuple[str, ...], most_rows: int) -> Any:
    @intrinsic
    def tile(
        typingctx, tile_rows, vectors, update, block, row, n, eta, mu, k, k_at, k_stride,
        rows, rows_at, a, a_at, e, e_at, decay, decay_at, z, z_at, ze, ze_at, z_stride,
    ):  # fmt: skip
        i, vector = types.intp, Vector(a.dtype)
        kinds = (i, i, i, a.dtype, a.dtype, k, i, i, rows, i, a, i, e, i, decay, i, z, i, ze, i, i)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            p = name_values(context, builder, _NAMES, kinds, args[3:])
            tile = _SweepTile(builder, ir_type(vector), p)

            def emit(rows: int, vectors: int, flag: int) -> None:
                tile.emit(rows, vectors, bool(flag), targets)

            emit_cases(builder, args[:3], (most_rows, TILE_VECTORS, 2), emit)
            return context.get_dummy_value()

        return types.void(i, i, i, *kinds), codegen

    return tile


def _make_sweep(*targets: str) -> Any:
    most_rows = TILE_ROWS // len(targets)
    tile = _make_tile(targets, most_rows)

    @kernel(inline="never")
    def sweep(k, rows, n_rows, a, e, decay, eta, mu, z, ze):
        blocks, n = a.shape[0], a.shape[1]
        for block in range(0, blocks, TILE_VECTORS):
            vectors = min(TILE_VECTORS, blocks - block)
            for row in range(0, n_rows, most_rows):
                tile(
                    min(most_rows, n_rows - row), vectors, 1 if row == 0 else 0, block, row, n,
                    eta, mu, k, 0, k.shape[1], rows, 0, a, 0, e, 0, decay, 0,
                    z, 0, ze, 0, z.shape[1],
                )  # fmt: skip

    return sweep


sweep = _make_sweep("z")
sweep_with_velocity = _make_sweep("z", "ze")
