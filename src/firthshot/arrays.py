"""Arrays: their type, which need no conversion, unit rows, and padding to whole vectors."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
FLOATS = (np.float64, np.float32)


def is_plain(values: Any, ndim: int, kinds: str) -> TypeGuard[Array]:
    """Tell whether ``values`` is an ordinary, finite, non-empty array that needs no conversion.

    scikit-learn's own validation, to which everything else goes, takes longer than fitting a few
    rows does.
    """
    if type(values) is not np.ndarray or values.ndim != ndim or values.dtype.kind not in kinds:
        return False
    if not values.size:
        return False
    if values.dtype.kind != "f":
        return True
    # A sum is finite when all its terms are; overflow sends a rare case the long way round.
    with np.errstate(over="ignore", invalid="ignore"):
        return values.dtype in FLOATS and bool(np.isfinite(np.add.reduce(values, axis=None)))


def unit_length(rows: Array) -> Array:
    """Return rows (…, d) divided by their lengths; a row of zeros stays."""
    size = np.sqrt(np.einsum("...j,...j->...", rows, rows))
    return np.asarray(rows / np.maximum(size, 1e-12)[..., None])


def round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple of ``multiple`` that is at least ``number``."""
    return -(-number // multiple) * multiple


def pad_columns(values: Array, columns: int) -> Array:
    """Append zero columns to the last axis."""
    padded = np.zeros((*values.shape[:-1], columns), values.dtype)
    padded[..., : values.shape[-1]] = values
    return padded
