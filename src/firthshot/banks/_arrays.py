"""NumPy's own files, checked before memory is reserved for what they declare."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from firthshot.errors import BankError
from firthshot.guard import refuse_zip_bomb

_HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_WRITTEN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy packs with


def read_npy(path: Path) -> np.ndarray:
    """Read an array of plain numbers or text from a .npy file."""
    with path.open("rb") as file:
        return _read_array(file, path.stat().st_size)


def read_npz(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read those of the named arrays that a .npz file has."""
    refuse_zip_bomb(path)
    if not zipfile.is_zipfile(path):
        raise BankError("it is no NumPy file of several arrays")
    found = {}
    with zipfile.ZipFile(path) as archive:
        members = {one.filename.removesuffix(".npy"): one for one in archive.infolist()}
        for name in names:
            if name not in members:
                continue
            if members[name].compress_type not in _WRITTEN:
                raise BankError(f"array {name!r} is packed in a way that NumPy does not use")
            with archive.open(members[name]) as file:
                found[name] = _read_array(file, members[name].file_size)  # type: ignore[arg-type]
    return found


def _read_array(file: BinaryIO, size: int) -> np.ndarray:
    """Read an array whose declared shape its bytes can fill; NumPy reserves the memory first."""
    try:
        version = np.lib.format.read_magic(file)
    except ValueError:
        raise BankError("it is no NumPy file") from None
    if version not in _HEADERS:
        raise BankError("it holds an array of a format that plain numbers do not need")
    shape, _, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise BankError("it holds Python objects instead of plain arrays")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size - file.tell():
        raise BankError(f"it declares an array of shape {shape}, for which it is too short")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)
