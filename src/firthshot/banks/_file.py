"""The bank file: safetensors, memory-mapped, read with suspicion and written atomically.

A bank file holds exactly two tensors, ``features`` (n, d) F16 or F32 and ``labels`` (n,) I32 or
I64, and one metadata entry, ``firthshot-bank``, the JSON text of `BankMeta`. The header is parsed
here rather than by the safetensors library so that nothing of the payload is copied and so that
every possible fault is a `BankError`.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, DTypeLike

from firthshot.banks._bank import Bank, build_bank, check_arrays
from firthshot.banks._meta import BankMeta, decode_meta, encode_meta, parse_json
from firthshot.errors import BankError, listed
from firthshot.files import replacing

META_KEY = "firthshot-bank"
_MAX_HEADER = 1 << 25
_Place = Annotated[int, Meta(ge=0, lt=2**62)]
_DTYPES: dict[str, dict[str, np.dtype[Any]]] = {
    "features": {"F16": np.dtype("<f2"), "F32": np.dtype("<f4")},
    "labels": {"I32": np.dtype("<i4"), "I64": np.dtype("<i8")},
}


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the header of the file says of a tensor."""

    dtype: str
    shape: Annotated[tuple[Annotated[int, Meta(ge=1, lt=2**62)], ...], Meta(max_length=2)]
    data_offsets: tuple[_Place, _Place]


class _Tensor(NamedTuple):
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def save_bank(
    path: str | Path,
    features: ArrayLike,
    labels: ArrayLike,
    meta: BankMeta | None = None,
    *,
    dtype: DTypeLike | None = None,
    **fields: Any,
) -> Bank:
    """Write a bank file and return the bank, memory-mapped from it.

    The rows are stored in the order given; they need not be sorted by class. The file appears
    whole or not at all (temporary file, fsync, rename), and replaces an older one. Parameters are
    those of `make_bank`; ``name`` defaults to the file's name.
    """
    path = Path(path)
    if meta is None:
        fields.setdefault("name", path.stem)
    write_bank(path, build_bank(features, labels, meta, dtype=dtype, **fields))
    return open_bank(path)


def write_bank(path: Path, bank: Bank) -> None:
    """Write a bank to a file, atomically."""
    from safetensors.numpy import save_file

    tensors = {"features": np.asarray(bank.features), "labels": np.asarray(bank.labels)}
    if not path.parent.is_dir():
        raise BankError(
            f"Bank {path} cannot be written, as there is no folder {path.parent}: make it first."
        )
    try:
        with replacing(path) as temporary:
            temporary.touch()
            mode = temporary.stat().st_mode  # what the umask gives; safetensors leaves 0600
            save_file(tensors, temporary, metadata={META_KEY: encode_meta(bank.meta)})
            temporary.chmod(mode)
    except Exception as error:
        if isinstance(error, OSError) or type(error).__name__ == "SafetensorError":
            raise BankError(f"Bank {path} cannot be written: {error}.") from None
        raise


def open_bank(path: str | Path) -> Bank:
    """Map a bank file into memory; features are read when they are used.

    Everything but the sha256 is checked (`Bank.verify` does that).
    """
    path = Path(path)
    try:
        if not path.is_file():
            raise BankError("there is no such file")
        with path.open("rb") as file:
            return _map(path, file)
    except BankError as error:
        reason = str(error).rstrip(".")
        if path.is_file() and path.suffix.lower() != ".bank":
            raise BankError(
                f"{path} is no bank: make one with `firthshot bank import {path}`."
            ) from None
        raise BankError(f"{path} cannot be opened as a bank: {reason}.") from None
    except OSError as error:
        raise BankError(f"{path} cannot be read: {error.strerror or error}.") from None


def _map(path: Path, file: BinaryIO) -> Bank:
    size = os.fstat(file.fileno()).st_size
    header, start = _read_header(file, size)
    meta = _read_meta(header)
    tensors = {name: _read_tensor(header, name) for name in _DTYPES}
    _check_layout(header, tensors, size - start)
    features, labels = tensors["features"], tensors["labels"]
    if len(features.shape) != 2 or labels.shape != features.shape[:1]:
        raise BankError(f"features are {features.shape} but labels are {labels.shape}")
    X = np.memmap(file, features.dtype, "r", start + features.begin, features.shape)
    file.seek(start + labels.begin)
    y = np.frombuffer(file.read(labels.end - labels.begin), labels.dtype)
    check_arrays(X, y, meta)
    return Bank(path, meta, np.asarray(X), y)


def _read_header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(file.read(8), "little")
    if size < 10 or length > size - 8 or length > _MAX_HEADER:
        raise BankError("it is truncated or not a safetensors file (impossible header length)")
    try:
        text = file.read(length).decode("utf-8")
    except UnicodeDecodeError:
        raise BankError("its header is not UTF-8 text") from None
    header = parse_json(text, "header lines") if text.startswith("{") else None
    if not isinstance(header, dict):
        raise BankError("its header is not a JSON object")
    return header, 8 + length


def _read_meta(header: dict[str, Any]) -> BankMeta:
    metadata = header.get("__metadata__")
    text = metadata.get(META_KEY) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise BankError("it is not a firthshot bank (make one with `firthshot bank import`)")
    return decode_meta(text)


def _read_tensor(header: dict[str, Any], name: str) -> _Tensor:
    try:
        entry = msgspec.convert(header.get(name), _Entry)
    except msgspec.ValidationError as error:
        raise BankError(f"tensor {name!r} is missing or impossible ({error})") from None
    dtype, (begin, end) = _DTYPES[name].get(entry.dtype), entry.data_offsets
    if dtype is None:
        raise BankError(
            f"tensor {name!r} has dtype {entry.dtype!r} where one of "
            f"{', '.join(_DTYPES[name])} is needed"
        )
    if end - begin != math.prod(entry.shape) * dtype.itemsize or begin % dtype.itemsize:
        raise BankError(
            f"tensor {name!r} of shape {entry.shape} does not fit its place in the file"
        )
    return _Tensor(dtype, entry.shape, begin, end)


def _check_layout(header: dict[str, Any], tensors: dict[str, _Tensor], payload: int) -> None:
    extra = set(header) - set(tensors) - {"__metadata__"}
    if extra:
        names = listed(sorted(map(repr, extra)))
        raise BankError(f"it holds tensors that a bank does not have ({names})")
    first, second = sorted(tensors.values(), key=lambda tensor: tensor.begin)
    if first.begin != 0 or second.begin != first.end:
        raise BankError("its tensors overlap or leave a gap")
    if second.end != payload:
        fault = "is truncated" if second.end > payload else "has surplus bytes"
        raise BankError(f"it {fault} ({payload} bytes of payload, {second.end} promised)")
