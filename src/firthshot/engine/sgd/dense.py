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

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from firthshot.kernels import kernel
from firthshot.kernels.tiles import INDEX, MANY_REGISTERS, emit_cases, unpack
from firthshot.kernels.vectors import fma, load, pointer_to, splat, store

OCTET = 8
# Accumulators, a row of `right` and an entry of `left` have to fit the registers.
TILE_X, TILE_Y = (6, 4) if MANY_REGISTERS else (3, 3)


class Octet(types.Type):  # type: ignore[misc]
    """Numba type of eight numbers (float32 or float64) of eight coefficients."""

    def __init__(self, scalar: types.Float) -> None:
        self.scalar = scalar
        super().__init__(name=f"Octet({scalar})")


def ir_octet(scalar: types.Float) -> ir.VectorType:
    """Return LLVM's type of an octet."""
    return ir.VectorType(ir.FloatType() if scalar.bitwidth == 32 else ir.DoubleType(), OCTET)


@register_model(Octet)
class _OctetModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Octet) -> None:
        super().__init__(dmm, fe_type, ir_octet(fe_type.scalar))


@intrinsic
def octet_load(typingctx, array, offset):
    """Load the octet that starts at flat ``offset``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = pointer_to(context, builder, array, args[0], args[1])
        return load(builder, pointer, ir_octet(array.dtype))

    return Octet(array.dtype)(array, types.intp), codegen


@intrinsic
def octet_store(typingctx, array, offset, value):
    """Store ``value`` at flat ``offset``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        store(builder, args[2], pointer_to(context, builder, array, args[0], args[1]))
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@intrinsic
def octet_fma(typingctx, octet, scalar, addend):
    """Return ``octet · scalar + addend``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return fma(builder, args[0], splat(builder, args[1], args[0].type), args[2])

    return octet(octet, octet.scalar, addend), codegen


@intrinsic
def rectify(typingctx, value):
    """Return the larger of ``value`` (vector or octet) and zero; a NaN stays one."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zero = ir.Constant(args[0].type, None)
        return builder.select(builder.fcmp_ordered("<", args[0], zero), zero, args[0])

    return value(value), codegen


@intrinsic
def gate(typingctx, unit, value):
    """Return ``value`` where ``unit`` is above zero, else zero (a NaN unit lets it pass)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zero = ir.Constant(args[0].type, None)
        return builder.select(builder.fcmp_ordered("<=", args[0], zero), zero, args[1])

    return value(unit, value), codegen


class OctetMatrix(NamedTuple):
    """A matrix of octets; strides are in numbers."""

    flat: Any
    row: Any
    column: Any


class Descent(NamedTuple):
    """A momentum step of ``weights`` along left @ right + decay · weights."""

    left: Any
    right: Any
    weights: Any
    velocity: Any
    decay: Any


class _ProductTile:
    """Emits one register tile of a product: ``rows`` × ``columns`` octets from (x, y) on."""

    def __init__(self, builder: Any, octet: ir.VectorType, values: dict[str, Any]) -> None:
        self.builder, self.octet, self.values = builder, octet, values
        x, y = values["place"]
        self.first = {"left": self._offset("left", x, 0), "right": self._offset("right", 0, y)}
        for name in {"out", "weights", "velocity", "decay"} & values.keys():
            self.first[name] = self._offset(name, x, y)

    def _offset(self, name: str, x: Any, y: Any) -> Any:
        b, p = self.builder, self.values[name]
        x, y = (ir.Constant(INDEX, i) if isinstance(i, int) else i for i in (x, y))
        return b.add(b.mul(x, p["row"]), b.mul(y, p["column"]))

    def at(self, name: str, x: Any, y: Any) -> Any:
        """Return the address of entry (x, y) of the tile's part of a matrix."""
        b = self.builder
        offset = b.add(self.first[name], self._offset(name, x, y))
        return b.gep(self.values[name]["flat"], [offset])

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

    def emit_product(self, rows: int, columns: int, _flag: int) -> None:
        cells = [(x, y) for x in range(rows) for y in range(columns)]
        sums = self.accumulate(rows, columns, [ir.Constant(self.octet, None)] * len(cells))
        for value, (x, y) in zip(sums, cells, strict=True):
            store(self.builder, value, self.at("out", x, y))

    def emit_descent(self, rows: int, columns: int, decays: int) -> None:
        """Emit velocity ← μ velocity + share · decay · w + product; w ← w − η velocity.

        Without decay there is no μ either: velocities drift (:mod:`.sweep`).
        """
        b, cells = self.builder, [(x, y) for x in range(rows) for y in range(columns)]
        back = b.fneg(splat(b, self.values["steps"][1], self.octet))
        starts = [self._start(x, y, bool(decays)) for x, y in cells]
        for velocity, (x, y) in zip(self.accumulate(rows, columns, starts), cells, strict=True):
            weight = self.at("weights", x, y)
            store(b, velocity, self.at("velocity", x, y))
            store(b, fma(b, back, velocity, load(b, weight, self.octet)), weight)

    def _start(self, x: int, y: int, decays: bool) -> Any:
        """Return what the velocity is before the gradient of the batch."""
        b, octet = self.builder, self.octet
        velocity = load(b, self.at("velocity", x, y), octet)
        if not decays:
            return velocity
        share, _, momentum = (splat(b, number, octet) for number in self.values["steps"])
        decay = load(b, self.at("decay", x, y), octet)
        pull = b.fmul(b.fmul(share, decay), load(b, self.at("weights", x, y), octet))
        return fma(b, momentum, velocity, pull)


@intrinsic
def _product_tile(typingctx, sizes, place, n, operands):
    i, octet = types.intp, ir_octet(operands.types[0].types[0].dtype)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sizes, place = (cgutils.unpack_tuple(builder, args[at]) for at in (0, 1))
        values = unpack(context, builder, operands, args[3]) | {"place": place, "n": args[2]}
        emit = _ProductTile(builder, octet, values).emit_product
        emit_cases(builder, (*sizes, ir.Constant(INDEX, 0)), (TILE_X, TILE_Y, 1), emit)
        return context.get_dummy_value()

    return types.void(types.UniTuple(i, 2), types.UniTuple(i, 2), i, operands), codegen


@intrinsic
def _descent_tile(typingctx, sizes, place, n, layer, steps):
    i, scalar = types.intp, layer.types[0].types[0].dtype
    kinds = (types.UniTuple(i, 3), types.UniTuple(i, 2), i, layer, types.UniTuple(scalar, 3))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sizes, place, steps = (cgutils.unpack_tuple(builder, args[at]) for at in (0, 1, 4))
        values = unpack(context, builder, layer, args[3])
        values |= {"place": place, "n": args[2], "steps": steps}
        emit = _ProductTile(builder, ir_octet(scalar), values).emit_descent
        emit_cases(builder, sizes, (TILE_X, TILE_Y, 2), emit)
        return context.get_dummy_value()

    return types.void(*kinds), codegen


class _Operands(NamedTuple):
    left: Any
    right: Any
    out: Any


@kernel
def matrix(flat, row, column):
    """Return a matrix of octets with the strides of a row and a column, in octets."""
    # The conversion makes numba forget constants, for which it would compile every product anew.
    return OctetMatrix(flat, np.int64(row) * OCTET, np.int64(column) * OCTET)


@kernel
def product(left, right, out, rows, columns, n):
    """Write left @ right to ``out``, with n terms in each sum."""
    operands = _Operands(left, right, out)
    for y in range(0, columns, TILE_Y):
        wide, tiles, x = min(TILE_Y, columns - y), -(-rows // TILE_X), 0
        for tile in range(tiles):
            tall = -(-(rows - x) // (tiles - tile))
            _product_tile((tall, wide), (x, y), n, operands)
            x += tall


@kernel
def descend(layer, shape, decays, steps):
    """Take a momentum step of a layer's weights along left @ right + share · decay · weights.

    Parameters
    ----------
    layer : Descent
    shape : rows and columns of the weights, and terms in each sum
    decays : 1, or 0 for velocities that drift (:mod:`.sweep`): no decay, and no momentum
    steps : the share of the decay, the learning rate, the momentum
    """
    rows, columns, n = shape
    tiles, x, flag = -(-rows // TILE_X), 0, 1 if decays else 0
    for tile in range(tiles):
        tall = -(-(rows - x) // (tiles - tile))
        for y in range(0, columns, TILE_Y):
            _descent_tile((tall, min(TILE_Y, columns - y), flag), (x, y), n, layer, steps)
        x += tall
