"""A vector register as a numba type: the words in which the training loops are written.

Numba leaves vectorisation to LLVM's heuristics, which keep neither a block of accumulators in
registers nor a short loop free of scalar remainders. The few operations below say what we mean:
a *vector* is 64 bytes (16 float32 or 8 float64), and kernels are written in terms of vectors.
LLVM splits a vector where the machine's registers are narrower (AVX2, NEON), so the code is
portable.

Arrays are addressed by flat element offset; the caller guarantees that they are C-contiguous and
padded to whole vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

VECTOR_BYTES = 64


class Vector(types.Type):  # type: ignore[misc]
    """Numba type of one vector of ``scalar`` (float32 or float64), of 64 bytes unless told."""

    def __init__(self, scalar: types.Float, lanes: int | None = None) -> None:
        self.scalar = scalar
        self.lanes = lanes or VECTOR_BYTES * 8 // scalar.bitwidth
        super().__init__(name=f"Vector({scalar} x {self.lanes})")


def ir_type(vector: Vector) -> ir.VectorType:
    """Return LLVM's type of a vector."""
    scalar = ir.FloatType() if vector.scalar.bitwidth == 32 else ir.DoubleType()
    return ir.VectorType(scalar, vector.lanes)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Vector) -> None:
        super().__init__(dmm, fe_type, ir_type(fe_type))


def lanes_of(dtype: np.dtype[Any] | type) -> int:
    """Return how many elements of ``dtype`` a vector holds."""
    return VECTOR_BYTES // np.dtype(dtype).itemsize


def pointer_to(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    """Return the address of ``array.ravel()[offset]``."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [offset])


def load(builder: Any, pointer: Any, vector: ir.VectorType) -> Any:
    """Load a vector whose elements are only aligned as scalars."""
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=_scalar_bytes(vector))


def store(builder: Any, value: Any, pointer: Any) -> None:
    """Store a vector whose elements are only aligned as scalars."""
    builder.store(
        value, builder.bitcast(pointer, value.type.as_pointer()), align=_scalar_bytes(value.type)
    )


def _scalar_bytes(vector: ir.VectorType) -> int:
    return 4 if isinstance(vector.element, ir.FloatType) else 8


def splat(builder: Any, scalar: Any, vector: ir.VectorType) -> Any:
    """Return a vector with every lane equal to ``scalar``."""
    first = builder.insert_element(
        ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0)
    )
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def call(builder: Any, name: str, vector: ir.VectorType, *arguments: Any) -> Any:
    """Call the LLVM intrinsic ``name`` on whole vectors."""
    suffix = f"v{vector.count}f{8 * _scalar_bytes(vector)}"
    function_type = ir.FunctionType(vector, [vector] * len(arguments))
    function = cgutils.get_or_insert_function(
        builder.module, function_type, f"llvm.{name}.{suffix}"
    )
    return builder.call(function, arguments)


def fma(builder: Any, left: Any, right: Any, addend: Any) -> Any:
    """Return ``left * right + addend``, rounded once."""
    return call(builder, "fma", left.type, left, right, addend)


@intrinsic
def lanes_in(typingctx, array):
    """Return how many elements of ``array``'s type a vector holds."""
    lanes = Vector(array.dtype).lanes

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(64), lanes)

    return types.intp(array), codegen


def make_load(lanes: int | None = None) -> Any:
    """Make an intrinsic that loads the vector of so many lanes at a flat offset of an array."""

    @intrinsic
    def load_vector(typingctx, array, offset):
        vector = Vector(array.dtype, lanes)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return load(builder, pointer_to(context, builder, array, *args), ir_type(vector))

        return vector(array, types.intp), codegen

    return load_vector


vload = make_load()


@intrinsic
def vstore(typingctx, array, offset, value):
    """Store ``value`` at flat ``offset``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        store(builder, args[2], pointer_to(context, builder, array, args[0], args[1]))
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@intrinsic
def vfill(typingctx, array, scalar):
    """Return a vector of ``array``'s type with every lane equal to ``scalar``."""
    vector = Vector(array.dtype)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return splat(builder, args[1], ir_type(vector))

    return vector(array, array.dtype), codegen


def unary(emit: Callable[[Any, Any], Any]) -> Any:
    """Make an intrinsic of one vector from the emitter of its instructions."""

    @intrinsic
    def operation(typingctx, value):
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit(builder, args[0])

        return value(value), codegen

    return operation


def binary(emit: Callable[[Any, Any, Any], Any]) -> Any:
    """Make an intrinsic of two vectors from the emitter of its instructions."""

    @intrinsic
    def operation(typingctx, left, right):
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit(builder, args[0], args[1])

        return left(left, right), codegen

    return operation


vadd = binary(lambda builder, left, right: builder.fadd(left, right))
vsub = binary(lambda builder, left, right: builder.fsub(left, right))
vmul = binary(lambda builder, left, right: builder.fmul(left, right))
vdiv = binary(lambda builder, left, right: builder.fdiv(left, right))
vmax = binary(
    lambda builder, left, right: builder.select(builder.fcmp_ordered(">", left, right), left, right)
)


@intrinsic
def vfma(typingctx, left, right, addend):
    """Return ``left * right + addend``, rounded once."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return fma(builder, *args)

    return left(left, right, addend), codegen


@intrinsic
def lanes_above(typingctx, left, right):
    """Return the lanes of ``left`` that are above those of ``right``, as bits; NaN is not."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.IntType(args[0].type.count)
        mask = builder.bitcast(builder.fcmp_ordered(">", *args), lanes)
        return builder.zext(mask, ir.IntType(64))

    return types.int64(left, right), codegen


@intrinsic
def lowest_bit(typingctx, bits):
    """Return the number of the lowest bit that is set, of an integer that is not zero."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@intrinsic
def vsum(typingctx, value):
    """Return the sum over the lanes, halves added to halves."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = args[0]
        while lanes.type.count > 1:
            half = lanes.type.count // 2
            low, high = (
                builder.shuffle_vector(
                    lanes,
                    lanes,
                    ir.Constant(ir.VectorType(ir.IntType(32), half), list(range(at, at + half))),
                )
                for at in (0, half)
            )
            lanes = builder.fadd(low, high)
        return builder.extract_element(lanes, ir.Constant(ir.IntType(32), 0))

    return value.scalar(value), codegen


vsqrt = unary(lambda builder, value: call(builder, "sqrt", value.type, value))

# exp(r) on |r| <= ln(2)/2 as 1 + r + r² P(r); a minimax fit for float32 (relative error 6e-8),
# Taylor's series for float64 (3e-16).
_EXP_POLYNOMIAL = {
    32: (
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    ),
    64: tuple(1 / math.factorial(k) for k in range(14, 1, -1)),
}
# Below this a probability is zero for every purpose here; it also keeps clear of denormals.
_EXP_LOWEST = {32: -80.0, 64: -690.0}
_LN2_HIGH = {32: 0.693359375, 64: 6.93147180369123816490e-01}
_LN2_LOW = {32: -2.12194440e-4, 64: 1.90821492927058770002e-10}


def _exp(builder: Any, value: Any) -> Any:
    """Emit exp of every lane, for arguments at or below zero (a NaN stays one)."""
    vector, bits = value.type, 8 * _scalar_bytes(value.type)
    mantissa, bias = (23, 127) if bits == 32 else (52, 1023)
    integers = ir.VectorType(ir.IntType(bits), vector.count)

    def constant(number: float) -> Any:
        return splat(builder, ir.Constant(vector.element, number), vector)

    def whole(number: int) -> Any:
        return splat(builder, ir.Constant(ir.IntType(bits), number), integers)

    lowest = constant(_EXP_LOWEST[bits])
    x = builder.select(builder.fcmp_ordered("<", value, lowest), lowest, value)
    turns = fma(builder, x, constant(1 / math.log(2)), constant(0.5))
    turns = call(builder, "floor", vector, turns)
    rest = fma(builder, turns, constant(-_LN2_HIGH[bits]), x)
    rest = fma(builder, turns, constant(-_LN2_LOW[bits]), rest)
    series = constant(_EXP_POLYNOMIAL[bits][0])
    for coefficient in _EXP_POLYNOMIAL[bits][1:]:
        series = fma(builder, series, rest, constant(coefficient))
    series = fma(builder, builder.fmul(series, rest), rest, rest)
    exponent = builder.add(builder.fptosi(turns, integers), whole(bias))
    power = builder.bitcast(builder.shl(exponent, whole(mantissa)), vector)
    return builder.fmul(builder.fadd(series, constant(1.0)), power)


vexp = unary(_exp)
