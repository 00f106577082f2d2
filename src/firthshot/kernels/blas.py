"""BLAS and LAPACK inside numba kernels, through the routines that scipy exports.

numba reaches ``gemm`` by itself, but not ``syrk`` and ``trmm``, which halve the work here.
Each routine below is an intrinsic that takes one tuple: characters as integers (``ord``),
integers, floats and arrays (of which the address is passed), as the Fortran routine wants them.
The routine is linked by name, so that compiled kernels can be kept in numba's cache.
"""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

LOWER, NO, YES, RIGHT, NON_UNIT = ord("L"), ord("N"), ord("T"), ord("R"), ord("N")


def _integer_bits(module: str, name: str) -> int:
    """Read from scipy's exported signature whether its BLAS counts in 32 or 64 bits."""
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    signature = get_name(import_module(module).__pyx_capi__[name]).decode()
    return 64 if "long" in signature or "int64" in signature else 32


def _slot(context: Any, builder: Any, kind: Any, value: Any, integer: Any) -> Any:
    """Return a pointer to one argument: Fortran takes everything by reference."""
    if isinstance(kind, types.Array):
        data = context.make_array(kind)(context, builder, value).data
        return builder.bitcast(data, ir.IntType(8).as_pointer())
    if isinstance(kind, types.Float):
        pointer = cgutils.alloca_once_value(builder, value)
    else:
        number = context.cast(builder, value, kind, types.int64)
        number = builder.trunc(number, integer) if integer.width < 64 else number
        pointer = cgutils.alloca_once_value(builder, number)
    return builder.bitcast(pointer, ir.IntType(8).as_pointer())


def _routine(library: str, name: str) -> Any:
    module = f"scipy.linalg.cython_{library}"
    symbol = f"firthshot_{name}"
    binding.add_symbol(symbol, get_cython_function_address(module, name))
    # A character is read as the first byte of an integer: right on little-endian machines.
    integer = ir.IntType(_integer_bits(module, name))

    @intrinsic
    def call(typing_context: Any, arguments: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kinds = signature.args[0].types
            members = cgutils.unpack_tuple(builder, values[0], len(kinds))
            pointers = [
                _slot(context, builder, kind, value, integer)
                for kind, value in zip(kinds, members, strict=True)
            ]
            byte_pointer = ir.IntType(8).as_pointer()
            prototype = ir.FunctionType(ir.VoidType(), [byte_pointer] * len(pointers))
            function = cgutils.get_or_insert_function(builder.module, prototype, symbol)
            builder.call(function, pointers)
            return context.get_dummy_value()

        return types.void(arguments), codegen

    return call


dgemm = _routine("blas", "dgemm")
dsyrk = _routine("blas", "dsyrk")
dtrmm = _routine("blas", "dtrmm")
dpotrf = _routine("lapack", "dpotrf")
dpotrs = _routine("lapack", "dpotrs")
dtrtri = _routine("lapack", "dtrtri")
