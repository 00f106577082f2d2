"""Read the data that people keep in pickles, and nothing else a pickle can do.

The Distribution Calibration code stores features as a pickled dict, class -> list of vectors, and
the caches of few-shot data sets are pickles of arrays. A pickle is a program; this unpickler lets
it call only stand-ins of its own: NumPy arrays are rebuilt from their bytes by `_Array` and
`_DType` (NumPy's own ``__setstate__`` never sees the file), and builtin containers are rebuilt as
themselves. Every other global is refused by name, and so are object arrays, which could smuggle
anything.
"""

from __future__ import annotations

import math
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np

from firthshot.errors import BankError, FirthshotError, reason
from firthshot.guard import read_tried

_NUMBER = re.compile(r"[<>=|]?[fiu][1248]|[<>=|]?b1")
_INFLATION = 8  # a stacked array may exceed the file by this much before it looks like a bomb


class _Admitted:
    """A callable a pickle may use; the pickle cannot change it (BUILD is refused)."""

    __slots__ = ("_function",)

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise BankError("the pickle tries to alter a function")


class _DType:
    """Stand in for ``numpy.dtype``: plain real numbers only."""

    __slots__ = ("dtype",)

    def __init__(self, code: Any, *_: Any) -> None:
        code = code.decode("latin1") if isinstance(code, bytes) else code
        if not isinstance(code, str) or not _NUMBER.fullmatch(code):
            raise BankError(f"it holds an array of dtype {code!r}; only plain numbers are admitted")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) < 5 or state[2:5] != (None, None, None):
            raise BankError("it holds an array with fields; only plain numbers are admitted")
        order: Any = state[1].decode("latin1") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "=", "|"):
            raise BankError("it holds an array of unknown byte order")
        self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """Stand in for ``numpy.ndarray``: rebuilt from raw bytes of the right length."""

    __slots__ = ("array",)

    def __init__(self, *content: Any) -> None:
        self.array = _from_bytes(*content) if content else np.empty(0)

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise BankError("it holds an ill-formed array")
        _, shape, dtype, fortran, raw = state
        self.array = _from_bytes(raw, dtype, shape, "F" if fortran else "C")


def _from_bytes(raw: Any, dtype: Any, shape: Any, order: Any = "C") -> np.ndarray:
    if not isinstance(dtype, _DType) or not isinstance(raw, bytes | bytearray):
        raise BankError("it holds an array whose content is not raw numbers")
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise BankError("it holds an array of impossible shape")
    if math.prod(shape) * dtype.dtype.itemsize != len(raw) or order not in ("C", "F"):
        raise BankError("it holds an array whose bytes do not fill its shape")
    return np.frombuffer(raw, dtype.dtype).reshape(shape, order=order)


def _reconstruct(kind: Any, *_: Any) -> _Array:
    if kind is not _NDARRAY:
        raise BankError("it holds a subclass of ndarray")
    return _Array()


def _scalar(dtype: Any, raw: Any) -> Any:
    return _from_bytes(raw, dtype, ()).item()


def _latin1(text: Any, encoding: Any) -> bytes:
    """Rebuild bytes the way protocols below 3 write them."""
    if not isinstance(text, str) or encoding != "latin1":
        raise BankError("it encodes text in a way that arrays do not need")
    return text.encode("latin1")


_NDARRAY = _Admitted(_Array)
_GLOBALS: dict[tuple[str, str], _Admitted] = {
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _Admitted(_DType),
    ("_codecs", "encode"): _Admitted(_latin1),
    ("collections", "defaultdict"): _Admitted(lambda *_: {}),
    ("collections", "OrderedDict"): _Admitted(lambda *_: {}),
}
for _core in ("numpy.core", "numpy._core"):
    _GLOBALS[f"{_core}.multiarray", "_reconstruct"] = _Admitted(_reconstruct)
    _GLOBALS[f"{_core}.multiarray", "scalar"] = _Admitted(_scalar)
    _GLOBALS[f"{_core}.numeric", "_frombuffer"] = _Admitted(_Array)
for _module in ("builtins", "__builtin__"):
    for _kind in (list, dict, tuple, set, frozenset):
        _GLOBALS[_module, _kind.__name__] = _Admitted(_kind)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        admitted = _GLOBALS.get((module, name))
        if admitted is None:
            wanted = f"{module}.{name}"
            raise BankError(
                f"the pickle asks for {wanted!r}, which is not data; only NumPy arrays and "
                "builtin containers are admitted"
            )
        return admitted


def read_data_pickle(path: Path) -> Any:
    """Read a pickle of arrays, numbers, text, bytes and builtin containers; refuse all others.

    Text that Python 2 wrote comes as bytes, since it did not say which of the two it meant.
    """
    try:
        return read_tried(load_data, path)
    except OSError as error:
        raise BankError(f"{path} cannot be read: {error.strerror or error}.") from None
    except FirthshotError as error:
        raise BankError(f"{path} is refused: {str(error).rstrip('.')}.") from None


def load_data(path: Path, encoding: str = "bytes") -> Any:
    """Load a pickle of data; what is wrong with it is said without the name of the file."""
    try:
        with path.open("rb") as file:
            return _unwrap(_Unpickler(file, encoding=encoding).load())
    except (BankError, OSError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - a damaged pickle raises anything
        raise BankError(f"it is damaged or not a pickle ({reason(error)})") from None


def _unwrap(content: Any) -> Any:
    """Replace the stand-ins of arrays by the arrays, in containers too."""
    if isinstance(content, _Array):
        return content.array
    if isinstance(content, dict):
        return {key: _unwrap(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return type(content)(_unwrap(item) for item in content)
    return content


def read_pickled_classes(path: Path) -> tuple[np.ndarray, list[int | str]]:
    """Read a pickled dict class -> vectors; return the rows (n, d) and the class of each row."""
    return read_tried(load_classes, path)


def load_classes(path: Path) -> tuple[np.ndarray, list[int | str]]:
    """Load a pickle of classes; `read_pickled_classes` without the trial."""
    content = load_data(path, "ASCII")
    if not isinstance(content, dict) or not content:
        raise BankError("it does not hold a dict of class -> list of vectors")
    vectors: list[np.ndarray] = []
    owners: list[int | str] = []
    for key, rows in content.items():
        if type(key) not in (int, str):
            raise BankError("a class is neither a number nor a name")
        if not _are_vectors(rows):
            raise BankError(f"class {key!r} is not a list of vectors")
        vectors.extend(rows)
        owners += [key] * len(rows)
    if len({len(vector) for vector in vectors}) != 1:
        raise BankError("its vectors differ in length")
    if len(vectors) * vectors[0].nbytes > _INFLATION * path.stat().st_size:
        raise BankError("it unpacks to far more than its own size")
    return np.stack(vectors), owners


def _are_vectors(rows: Any) -> bool:
    return (
        isinstance(rows, list | tuple | np.ndarray)
        and len(rows) > 0
        and all(isinstance(row, np.ndarray) and row.ndim == 1 and row.size for row in rows)
    )
