"""Features as a cell sees them: one split, transformed, in memory once per process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from firthshot.arrays import Array
from firthshot.banks import Bank
from firthshot.calibration import BaseStatistics, base_statistics
from firthshot.engine import BaseFacts

T = TypeVar("T")
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


class Cache(Generic[T]):
    """Keep what was computed of banks last, up to a budget; the least recently used goes first."""

    def __init__(self, compute: Callable[..., T], size: Callable[[T], float], budget: float):
        self.compute, self.size, self.budget = compute, size, budget
        self._kept: OrderedDict[tuple[str, ...], T] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, bank: Bank, *arguments: str) -> T:
        """Return what the arguments give, computed at their first use."""
        key = (bank.meta.sha256, *arguments)
        with self._lock:  # the others wait rather than compute the same
            if key not in self._kept:
                self._kept[key] = self.compute(bank, *arguments)
                while (
                    len(self._kept) > 1 and sum(map(self.size, self._kept.values())) > self.budget
                ):
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]


def _base_facts(bank: Bank, transform: str) -> BaseFacts:
    from firthshot.engine import BaseFacts

    rows = transform_split(bank, "base", transform)
    return BaseFacts.of([rows.values[rows.positions(each)] for each in bank.class_rows("base")])


def transform_split(bank: Bank, split: str, transform: str) -> SplitFeatures:
    """Return the features of a split under a transform, in float32.

    ``none``: as stored. ``l2``: rows scaled to unit length. ``centre-l2``: the mean of all rows of
    the base classes subtracted first. ``tukey``: square roots, of negative features −√−x
    (:func:`firthshot.calibration.tukey`).
    """
    from firthshot.calibration import tukey  # its module holds kernels

    rows = bank.rows(split)
    stored = bank.select(split)
    if transform == "none":
        return SplitFeatures(stored.astype(np.float32, copy=False), rows)
    centre: Any = np.float32(0)
    if transform == "centre-l2":
        centre = bank.select("base").mean(axis=0, dtype=np.float64).astype(np.float32)
    values = np.empty(stored.shape, np.float32)
    for start in range(0, len(values), _BLOCK):
        block = stored[start : start + _BLOCK].astype(np.float32)
        values[start : start + _BLOCK] = (
            tukey(block) if transform == "tukey" else _unit_length(block - centre)
        )
    return SplitFeatures(values, rows)


def _unit_length(block: Array) -> Array:
    norms = np.linalg.norm(block, axis=1, keepdims=True)
    unit: Array = np.divide(block, norms, out=np.zeros_like(block), where=norms > 0)
    return unit


split_features = Cache[SplitFeatures](transform_split, lambda kept: kept.values.nbytes, 0.75e9)
base_facts = Cache["BaseFacts"](_base_facts, lambda kept: kept.whitening.nbytes, 0.1e9)
source_statistics = Cache[BaseStatistics](base_statistics, lambda _: 1, 2)  # of two source banks
