"""Features as a cell sees them: one split, transformed, in memory once per process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from firthshot.calibration import tukey
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from firthshot.banks import Bank
    from firthshot.calibration import BaseStatistics

Array = npt.NDArray[Any]
_BLOCK = 8192  # rows transformed at a time, so that no second copy of a split is ever made


@dataclass(frozen=True)
class SplitFeatures:
    """The rows of one split and where each stands in the bank."""

    values: Array  # (n, d) float32
    rows: Array  # (n,) ascending rows of the bank

    def positions(self, bank_rows: Array) -> Array:
        """Return where rows of the bank stand in ``values``."""
        first = int(self.rows[0])
        if int(self.rows[-1]) - first + 1 == len(self.rows):
            return bank_rows - first
        return np.searchsorted(self.rows, bank_rows)


class FeatureCache:
    """Keep transformed splits, the least recently used go first when they exceed a budget."""

    def __init__(self, budget: float = 0.75e9) -> None:
        self.budget = budget
        self._kept: OrderedDict[tuple[str, str, str], SplitFeatures] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, bank: Bank, split: str, transform: str) -> SplitFeatures:
        """Return a split's features, computed at first use."""
        key = (bank.meta.sha256, split, transform)
        with self._lock:  # the others wait rather than compute the same
            if key not in self._kept:
                self._kept[key] = transform_split(bank, split, transform)
                self._shrink()
            self._kept.move_to_end(key)
            return self._kept[key]

    def _shrink(self) -> None:
        while len(self._kept) > 1 and self._bytes() > self.budget:
            self._kept.popitem(last=False)

    def _bytes(self) -> int:
        return sum(kept.values.nbytes for kept in self._kept.values())


CACHE = FeatureCache()


class StatisticsCache:
    """Keep the base statistics of the last few source banks."""

    def __init__(self, size: int = 2) -> None:
        self.size = size
        self._kept: OrderedDict[str, BaseStatistics] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, bank: Bank) -> BaseStatistics:
        """Return a bank's base statistics, computed or read at first use."""
        from firthshot.calibration import base_statistics

        with self._lock:
            if bank.meta.sha256 not in self._kept:
                self._kept[bank.meta.sha256] = base_statistics(bank)
                while len(self._kept) > self.size:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(bank.meta.sha256)
            return self._kept[bank.meta.sha256]


STATISTICS = StatisticsCache()


def transform_split(bank: Bank, split: str, transform: str) -> SplitFeatures:
    """Return the features of a split under a transform, in float32.

    ``none``: as stored. ``l2``: rows scaled to unit length. ``centre-l2``: the mean of all rows of
    the base classes subtracted first. ``tukey``: square roots, of negative features −√−x
    (:func:`firthshot.calibration.tukey`).
    """
    rows = bank.rows(split)
    stored = bank.select(split)
    if transform == "none":
        return SplitFeatures(stored.astype(np.float32, copy=False), rows)
    centre = base_mean(bank) if transform == "centre-l2" else np.float32(0)
    values = np.empty(stored.shape, np.float32)
    for start in range(0, len(values), _BLOCK):
        block = stored[start : start + _BLOCK].astype(np.float32)
        values[start : start + _BLOCK] = (
            tukey(block) if transform == "tukey" else _unit_length(block - centre)
        )
    return SplitFeatures(values, rows)


def base_mean(bank: Bank) -> Array:
    """Return the mean of the rows of the base classes."""
    if "base" not in bank.splits:
        raise FirthshotError(
            f"Bank {bank.name!r} has no base classes, whose mean 'centre-l2' subtracts: use 'l2'."
        )
    mean: Array = bank.select("base").mean(axis=0, dtype=np.float64).astype(np.float32)
    return mean


def _unit_length(block: Array) -> Array:
    norms = np.linalg.norm(block, axis=1, keepdims=True)
    unit: Array = np.divide(block, norms, out=np.zeros_like(block), where=norms > 0)
    return unit
