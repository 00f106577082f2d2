"""Products of small dense matrices, eight coefficients at a time.

An entry of these matrices is an *octet*: the same entry of eight coefficients' matrices, side by
side. Every product of a dense layer, forward, backward and the gradient of its weights, is then the
same operation with different strides,

    out[x, y] = Σ_k left[x, k] · right[k, y]        (entry by entry of the octets)

with nothing to transpose, to pad or to sum across a vector. A tile of accumulators stays in
registers for the whole sum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from firthshot.kernels import kernel
from firthshot.kernels.tiles import INDEX, MANY_REGISTERS, emit_cases, unpack
from firthshot.kernels.vectors import (
    Vector,
    binary,
    fma,
    ir_type,
    load,
    make_load,
    splat,
    store,
    unary,
)

OCTET = 8
# Accumulators, a row of `right` and an entry of `left` have to fit the registers.
TILE_X, TILE_Y = (6, 4) if MANY_REGISTERS else (3, 3)


octet_load = make_load(OCTET)


@intrinsic
def octet_fma(typingctx, octet, scalar, addend):
    """Return ``octet · scalar + addend``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return fma(builder, args[0], splat(builder, args[1], args[0].type), args[2])

    return octet(octet, octet.scalar, addend), codegen


def _rectify(builder: Any, value: Any) -> Any:
    """Emit ReLU, the larger of ``value`` and zero; a NaN stays one."""
    zero = ir.Constant(value.type, None)
    return builder.select(builder.fcmp_ordered("<", value, zero), zero, value)


def _gate(builder: Any, unit: Any, value: Any) -> Any:
    """Emit ReLU's backward pass: ``value`` where ``unit`` is above zero (or NaN), else zero."""
    zero = ir.Constant(unit.type, None)
    return builder.select(builder.fcmp_ordered("<=", unit, zero), zero, value)


rectify, gate = unary(_rectify), binary(_gate)


class OctetMatrix(NamedTuple):
    """A matrix of octets; strides are in numbers."""

    flat: Any
    row: Any
    column: Any


class Product(NamedTuple):
    """``out`` becomes left @ right."""

    left: Any
    right: Any
    out: Any


class Descent(NamedTuple):
    """``out`` takes a momentum step along left @ right + share · decay · out."""

    left: Any
    right: Any
    out: Any
    velocity: Any
    decay: Any
    share: Any
    learning_rate: Any
    momentum: Any


class _ProductTile:
    """Emits one register tile of a product: ``rows`` × ``columns`` octets from (x, y) on."""

    def __init__(self, builder: Any, octet: ir.VectorType, values: dict[str, Any]) -> None:
        self.builder, self.octet, self.values = builder, octet, values

    def at(self, name: str, x: Any, y: Any) -> Any:
        """Return the address of entry (x, y) of the tile's part of a matrix."""
        b, p = self.builder, self.values[name]
        x, y = (ir.Constant(INDEX, i) if isinstance(i, int) else i for i in (x, y))
        if name != "right":
            x = b.add(x, self.values["x"])
        if name != "left":
            y = b.add(y, self.values["y"])
        return b.gep(p["flat"], [b.add(b.mul(x, p["row"]), b.mul(y, p["column"]))])

    def accumulate(self, rows: int, columns: int, starts: list[Any]) -> list[Any]:
        """Return ``starts`` plus the sums over k, row after row."""
        b = self.builder
        sums = [cgutils.alloca_once(b, self.octet) for _ in starts]
        for cell, value in zip(sums, starts, strict=True):
            b.store(value, cell)
        with cgutils.for_range(b, self.values["n"]) as loop:
            k = loop.index
            rights = [load(b, self.at("right", k, y), self.octet) for y in range(columns)]
            lefts = [load(b, self.at("left", x, k), self.octet) for x in range(rows)]
            for number, cell in enumerate(sums):
                left, right = lefts[number // columns], rights[number % columns]
                b.store(fma(b, left, right, b.load(cell)), cell)
        return [b.load(cell) for cell in sums]

    def emit(self, rows: int, columns: int, decays: int) -> None:
        """Emit out ← product, or velocity ← what `_start` says + product; out ← out − η velocity.

        Without decay there is no μ either: velocities drift (:mod:`.sweep`).
        """
        b, cells = self.builder, [(x, y) for x in range(rows) for y in range(columns)]
        descent, zero = "velocity" in self.values, ir.Constant(self.octet, None)
        starts = [self._start(x, y, bool(decays)) if descent else zero for x, y in cells]
        for value, (x, y) in zip(self.accumulate(rows, columns, starts), cells, strict=True):
            out = self.at("out", x, y)
            if descent:
                store(b, value, self.at("velocity", x, y))
                back = b.fneg(splat(b, self.values["learning_rate"], self.octet))
                value = fma(b, back, value, load(b, out, self.octet))
            store(b, value, out)

    def _start(self, x: int, y: int, decays: bool) -> Any:
        """Return μ velocity + share · decay · out, or the velocity where nothing decays."""
        b, octet = self.builder, self.octet
        velocity = load(b, self.at("velocity", x, y), octet)
        if not decays:
            return velocity
        share, momentum = (splat(b, self.values[name], octet) for name in ("share", "momentum"))
        decay = load(b, self.at("decay", x, y), octet)
        pull = b.fmul(b.fmul(share, decay), load(b, self.at("out", x, y), octet))
        return fma(b, momentum, velocity, pull)


@intrinsic
def _tile(typingctx, sizes, place, operands):
    """Run the tile of sizes (rows, columns, decays) at place (x, y), with n terms in each sum."""
    scalar, flags = operands.types[0].types[0].dtype, 2 if "velocity" in operands.fields else 1
    three = types.UniTuple(types.intp, 3)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sizes, place = (cgutils.unpack_tuple(builder, args[at]) for at in (0, 1))
        values = unpack(context, builder, operands, args[2])
        values |= dict(zip(("x", "y", "n"), place, strict=True))
        emit = _ProductTile(builder, ir_type(Vector(scalar, OCTET)), values).emit
        emit_cases(builder, sizes, (TILE_X, TILE_Y, flags), emit)
        return context.get_dummy_value()

    return types.void(three, three, operands), codegen


@kernel(allocates=False)
def transposed(values):
    """Return a matrix with rows for columns."""
    return OctetMatrix(values.flat, values.column, values.row)


@kernel(allocates=False)
def product(left, right, out, rows, columns, n):
    """Write left @ right to ``out``, with n terms in each sum."""
    operands = Product(left, right, out)
    for y in range(0, columns, TILE_Y):
        wide, tiles, x = min(TILE_Y, columns - y), -(-rows // TILE_X), 0
        for tile in range(tiles):
            tall = -(-(rows - x) // (tiles - tile))
            _tile((tall, wide, 0), (x, y, n), operands)
            x += tall


@kernel(allocates=False)
def descend(descent, rows, columns, n, decays):
    """Take a momentum step of a matrix of so many rows and columns, with n terms in each sum.

    ``decays`` is 0 for velocities that drift (:mod:`.sweep`): no decay, and no momentum.
    """
    tiles, x, flag = -(-rows // TILE_X), 0, 1 if decays else 0
    for tile in range(tiles):
        tall = -(-(rows - x) // (tiles - tile))
        for y in range(0, columns, TILE_Y):
            _tile((tall, min(TILE_Y, columns - y), flag), (x, y, n), descent)
        x += tall
