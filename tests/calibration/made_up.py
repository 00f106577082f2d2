"""Small base classes and tasks, positive as a ReLU leaves them."""

from __future__ import annotations

from typing import Any

import numpy as np

from firthshot.calibration import BaseStatistics

Array = Any


def base_rows(classes: int = 6, rows: int = 60, d: int = 24, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(d, d)) / np.sqrt(d)
    return [
        np.maximum(rng.normal(size=d) + rng.normal(size=(rows, d)) @ mix + 0.5, 0)
        for _ in range(classes)
    ]


def statistics(**sizes: Any) -> BaseStatistics:
    return BaseStatistics.from_rows(base_rows(**sizes), "made up")


def task(ways: int = 4, shots: int = 2, d: int = 24, seed: int = 1) -> tuple[Array, Array, Array]:
    """Return support, labels and queries."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(ways, d)) + 0.5
    labels = np.repeat(np.arange(ways), shots)
    support = np.maximum(means[labels] + rng.normal(size=(len(labels), d)), 0)
    query = np.maximum(np.repeat(means, 25, axis=0) + rng.normal(size=(25 * ways, d)), 0)
    return np.sqrt(support), labels, np.sqrt(query)
