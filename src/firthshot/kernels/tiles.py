"""Register tiles: how their code is generated, whatever is multiplied.

A tile of accumulators (rows × vectors) stays in registers for a whole pass. A compiled function
holds the code of every size of tile up to the machine's limits, and branches to the one it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils

from firthshot.kernels.vectors import fma, pointer_to, splat, store

INDEX = ir.IntType(64)


def _tile_limits() -> tuple[int, int]:
    """Return (rows, column vectors) of the largest tile that this machine's registers hold."""
    return (10, 2) if llvm.get_host_cpu_features().get("avx512f") else (5, 1)


TILE_ROWS, TILE_VECTORS = _tile_limits()
# For products that choose other tiles: whether there are 32 vector registers, of 64 bytes.
MANY_REGISTERS = TILE_ROWS > 5


def emit_cases(
    builder: Any,
    sizes: Any,
    limits: tuple[int, int, int],
    emit: Callable[[int, int, int], None],
) -> None:
    """Emit a tile for all (rows, columns, flag) and branch to the one that ``sizes`` names.

    ``limits`` are the most rows, the most columns and the number of flags.
    """

    def number(rows: Any, columns: Any, flag: Any) -> Any:
        eight, two = ir.Constant(INDEX, 8), ir.Constant(INDEX, 2)
        return builder.add(builder.mul(builder.add(builder.mul(rows, eight), columns), two), flag)

    done = builder.append_basic_block("tile.done")
    switch = builder.switch(number(*sizes), done)
    for rows in range(1, limits[0] + 1):
        for columns in range(1, limits[1] + 1):
            for flag in range(limits[2]):
                block = builder.append_basic_block("tile")
                switch.add_case((rows * 8 + columns) * 2 + flag, block)
                builder.position_at_end(block)
                emit(rows, columns, flag)
                builder.branch(done)
    builder.position_at_end(done)


def name_values(context: Any, builder: Any, names: Any, kinds: Any, args: Any) -> dict[str, Any]:
    """Name the arguments; an array and the offset after it become one pointer."""
    values: dict[str, Any] = {}
    rest = iter(zip(kinds, args, strict=True))
    for name in names:
        kind, value = next(rest)
        if isinstance(kind, types.Array):
            value = pointer_to(context, builder, kind, value, next(rest)[1])
        values[name] = value
    return values


class Tile:
    """Emits one register tile of a sweep: ``rows`` batch rows times ``vectors`` column vectors.

    A sweep goes over the rows j of ``a``, moves them on the way and sums K[i, j] a_j. How a row
    moves is up to the sweep: :meth:`prepare` and :meth:`advance`.
    """

    def __init__(self, builder: Any, vector: ir.VectorType, values: dict[str, Any]) -> None:
        self.builder, self.vector, self.values = builder, vector, values
        self.lanes = ir.Constant(INDEX, vector.count)

    def prepare(self, v: int) -> tuple[Any, ...]:
        """Return what :meth:`advance` needs for column vector ``v``, the same for all rows."""
        raise NotImplementedError

    def advance(self, offset: Any, constants: tuple[Any, ...], update: bool) -> tuple[Any, ...]:
        """Move one row of one column vector if ``update``; return what is to be multiplied."""
        raise NotImplementedError

    def emit(self, rows: int, vectors: int, update: bool, targets: tuple[str, ...]) -> None:
        """Emit the pass over j, a product for each of ``targets``."""
        b, p = self.builder, self.values
        starts = [b.mul(self.column(v), p["n"]) for v in range(vectors)]
        k_rows = [self._k_row(i) for i in range(rows)]
        constants = [self.prepare(v) for v in range(vectors)]
        zero = ir.Constant(self.vector, None)
        sums = [
            [[cgutils.alloca_once_value(b, zero) for _ in range(vectors)] for _ in range(rows)]
            for _ in targets
        ]
        with cgutils.for_range(b, p["n"]) as loop:
            offset = b.mul(loop.index, self.lanes)
            state = [
                self.advance(b.add(starts[v], offset), constants[v], update) for v in range(vectors)
            ]
            for i in range(rows):
                weight = splat(b, b.load(b.gep(k_rows[i], [loop.index])), self.vector)
                for kind in range(len(targets)):
                    for v in range(vectors):
                        cell = sums[kind][i][v]
                        b.store(fma(b, weight, state[v][kind], b.load(cell)), cell)
        for kind, target in enumerate(targets):
            self._write(sums[kind], p[target])

    def column(self, v: int) -> Any:
        """Return where column vector ``v`` of the tile begins among the columns."""
        b = self.builder
        return b.mul(b.add(self.values["block"], ir.Constant(INDEX, v)), self.lanes)

    def _row(self, i: int) -> Any:
        return self.builder.add(self.values["row"], ir.Constant(INDEX, i))

    def _k_row(self, i: int) -> Any:
        b, p = self.builder, self.values
        return b.gep(p["k"], [b.mul(b.load(b.gep(p["rows"], [self._row(i)])), p["k_stride"])])

    def _write(self, sums: Any, target: Any) -> None:
        b, p = self.builder, self.values
        for i, row in enumerate(sums):
            start = b.mul(self._row(i), p["z_stride"])
            for v, cell in enumerate(row):
                store(b, b.load(cell), b.gep(target, [b.add(start, self.column(v))]))
