"""Products of small dense matrices, eight coefficients at a time.

An entry of these matrices is an *octet*: the same entry of eight coefficients' matrices, side by
side. Every product of a dense layer, forward, backward and the gradient of its weights, is then the
same operation with different strides,

    out[x, y] = Σ_k left[x, k] · right[k, y]        (entry by entry of the octets)

with nothing to transpose, to pad or to sum across a vector. A tile of accumulators stays in
registers for the whole sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from firthshot.kernels import kernel
from firthshot.kernels.tiles import INDEX, MANY_REGISTERS, emit_cases, name_values
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


class _Tile:
    """Emits one register tile of a product: ``rows`` × ``columns`` octets."""

    def __init__(
        self, builder: Any, octet: ir.VectorType, values: dict[str, Any], rows: int, columns: int
    ) -> None:
        self.builder, self.octet, self.values = builder, octet, values
        self.cells = [(x, y) for x in range(rows) for y in range(columns)]
        self.rows, self.columns = rows, columns

    def at(self, name: str, x: Any, y: Any) -> Any:
        """Return the address of entry (x, y) of a matrix."""
        b, p = self.builder, self.values
        x, y = (ir.Constant(INDEX, i) if isinstance(i, int) else i for i in (x, y))
        offset = b.add(b.mul(x, p[f"{name}_x"]), b.mul(y, p[f"{name}_y"]))
        return b.gep(p[name], [offset])

    def accumulate(self, starts: list[Any]) -> list[Any]:
        """Return ``starts`` plus the sums over k."""
        b = self.builder
        sums = [cgutils.alloca_once(b, self.octet) for _ in starts]
        for cell, value in zip(sums, starts, strict=True):
            b.store(value, cell)
        with cgutils.for_range(b, self.values["n"]) as loop:
            k = loop.index
            rights = [load(b, self.at("right", k, y), self.octet) for y in range(self.columns)]
            lefts = [load(b, self.at("left", x, k), self.octet) for x in range(self.rows)]
            for cell, (x, y) in zip(sums, self.cells, strict=True):
                b.store(fma(b, lefts[x], rights[y], b.load(cell)), cell)
        return [b.load(cell) for cell in sums]

    def emit_product(self) -> None:
        zero = ir.Constant(self.octet, None)
        for value, (x, y) in zip(
            self.accumulate([zero] * len(self.cells)), self.cells, strict=True
        ):
            store(self.builder, value, self.at("out", x, y))

    def emit_descent(self, decays: bool) -> None:
        """Emit velocity ← μ velocity + share · decay · w + product; w ← w − η velocity.

        Without decay there is no μ either: velocities drift (:mod:`.drift`).
        """
        b = self.builder
        step = b.fneg(splat(b, self.values["eta"], self.octet))
        starts = [self._start(x, y, decays) for x, y in self.cells]
        for velocity, (x, y) in zip(self.accumulate(starts), self.cells, strict=True):
            weight = self.at("out", x, y)
            store(b, velocity, self.at("velocity", x, y))
            store(b, fma(b, step, velocity, load(b, weight, self.octet)), weight)

    def _start(self, x: int, y: int, decays: bool) -> Any:
        """Return what the velocity is before the gradient of the batch."""
        b, p, octet = self.builder, self.values, self.octet
        velocity = load(b, self.at("velocity", x, y), octet)
        if not decays:
            return velocity
        share, momentum = splat(b, p["share"], octet), splat(b, p["mu"], octet)
        decay = load(b, self.at("decay", x, y), octet)
        pull = b.fmul(b.fmul(share, decay), load(b, self.at("out", x, y), octet))
        return fma(b, momentum, velocity, pull)


_PRODUCT = ("left", "left_x", "left_y", "right", "right_x", "right_y", "n", "out", "out_x", "out_y")
_DESCENT = (*_PRODUCT, "velocity", "velocity_x", "velocity_y", "decay", "decay_x", "decay_y",
            "share", "eta", "mu")  # fmt: skip


@intrinsic
def _product_tile(typingctx, rows, columns, l, l_at, l_x, l_y, r, r_at, r_x, r_y, n,
                  o, o_at, o_x, o_y):  # fmt: skip
    i, octet = types.intp, ir_octet(o.dtype)
    kinds = (l, i, i, i, r, i, i, i, i, o, i, i, i)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = name_values(context, builder, _PRODUCT, kinds, args[2:])

        def emit(rows: int, columns: int, flag: int) -> None:
            _Tile(builder, octet, values, rows, columns).emit_product()

        emit_cases(builder, (*args[:2], ir.Constant(INDEX, 0)), (TILE_X, TILE_Y, 1), emit)
        return context.get_dummy_value()

    return types.void(i, i, *kinds), codegen


@intrinsic
def _descent_tile(
    typingctx, rows, columns, decays, l, l_at, l_x, l_y, r, r_at, r_x, r_y, n, w, w_at, w_x, w_y,
    v, v_at, v_x, v_y, d, d_at, d_x, d_y, share, eta, mu,
):  # fmt: skip
    i, scalar, octet = types.intp, w.dtype, ir_octet(w.dtype)
    matrices = (l, i, i, i, r, i, i, i, i, w, i, i, i, v, i, i, i, d, i, i, i)
    kinds = (*matrices, scalar, scalar, scalar)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = name_values(context, builder, _DESCENT, kinds, args[3:])

        def emit(rows: int, columns: int, flag: int) -> None:
            _Tile(builder, octet, values, rows, columns).emit_descent(bool(flag))

        emit_cases(builder, args[:3], (TILE_X, TILE_Y, 2), emit)
        return context.get_dummy_value()

    return types.void(i, i, i, *kinds), codegen


@kernel
def matrix(flat, row, column):
    """Return a matrix of octets as (flat array, row stride, column stride), strides in octets."""
    # The conversion makes numba forget constants, for which it would compile every product anew.
    return flat, np.int64(row) * OCTET, np.int64(column) * OCTET


@kernel
def product(left, right, out, rows, columns, n):
    """Write left @ right to ``out``, matrices as :func:`matrix` gives them, n terms in each sum."""
    (l, l_x, l_y), (r, r_x, r_y), (o, o_x, o_y) = left, right, out
    for y in range(0, columns, TILE_Y):
        wide, tiles, x = min(TILE_Y, columns - y), -(-rows // TILE_X), 0
        for tile in range(tiles):
            tall = -(-(rows - x) // (tiles - tile))
            _product_tile(
                tall, wide, l, x * l_x, l_x, l_y, r, y * r_y, r_x, r_y, n,
                o, x * o_x + y * o_y, o_x, o_y,
            )  # fmt: skip
            x += tall


@kernel
def descend(left, right, weights, velocity, rows, columns, n, decays, decay, share, eta, mu):
    """Take a momentum step of ``weights`` along left @ right + share · decay · weights.

    Parameters
    ----------
    left, right, weights, decay : matrices as :func:`matrix` gives them
    velocity : flat array, laid out like the weights
    decays : 1, or 0 for velocities that drift (:mod:`.drift`): no decay, and ``mu`` is not applied
    """
    (l, l_x, l_y), (r, r_x, r_y), (w, w_x, w_y), (d, d_x, d_y) = left, right, weights, decay
    tiles, x = -(-rows // TILE_X), 0
    for tile in range(tiles):
        tall = -(-(rows - x) // (tiles - tile))
        for y in range(0, columns, TILE_Y):
            at = x * w_x + y * w_y
            _descent_tile(
                tall, min(TILE_Y, columns - y), decays, l, x * l_x, l_x, l_y,
                r, y * r_y, r_x, r_y, n, w, at, w_x, w_y, velocity, at, w_x, w_y,
                d, x * d_x + y * d_y, d_x, d_y, share, eta, mu,
            )  # fmt: skip
        x += tall
