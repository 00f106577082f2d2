"""Arrays: their type, and how they are padded to whole vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple of ``multiple`` that is at least ``number``."""
    return -(-number // multiple) * multiple


def pad_columns(values: Array, columns: int) -> Array:
    """Append zero columns to the last axis."""
    padded = np.zeros((*values.shape[:-1], columns), values.dtype)
    padded[..., : values.shape[-1]] = values
    return padded
