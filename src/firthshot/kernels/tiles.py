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

from firthshot.kernels.vectors import pointer_to

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


def unpack(context: Any, builder: Any, kind: Any, value: Any) -> dict[str, Any]:
    """Return the fields of a NamedTuple by name, those of a NamedTuple inside it likewise.

    An array becomes the pointer to its first element.
    """
    values: dict[str, Any] = {}
    parts = cgutils.unpack_tuple(builder, value)
    for name, part_kind, part in zip(kind.fields, kind.types, parts, strict=True):
        if isinstance(part_kind, types.Array):
            values[name] = context.make_array(part_kind)(context, builder, part).data
        elif isinstance(part_kind, types.BaseNamedTuple):
            values[name] = unpack(context, builder, part_kind, part)
        else:
            values[name] = part
    return values
