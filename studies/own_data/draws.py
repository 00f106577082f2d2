"""Draws of labelled rows from banks, as users have them: few, and often unequal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot import Bank

BANKS = ("clinc150-minilm", "cifarfs-efficientnet-lite0", "mini-resnet10", "cub-resnet10")
HELD_OUT = 40  # rows of a class, at most


@dataclass(frozen=True)
class Draw:
    """Rows to fit, and held-out rows of the same classes."""

    features: np.ndarray
    labels: np.ndarray
    held_features: np.ndarray
    held_labels: np.ndarray
    shots: str


def user_draw(bank: Bank, trial: int) -> Draw:
    """Return 5 to 20 classes of 2 to 12 rows: equal, unequal, or some of one row."""
    rng = np.random.default_rng([trial, len(bank.name)])
    kind = ("2", "3", "5", "8", "12", "2-16", "1-6")[trial % 7]
    ways = int(rng.choice([5, 10, 20]))
    low, _, high = kind.partition("-")
    counts = rng.integers(int(low), int(high or low) + 1, ways)
    counts[0] = max(counts[0], 2)  # where all classes have one row, nothing can be left out
    return draw_rows(bank, rng, counts, kind)


def draw_rows(bank: Bank, rng: np.random.Generator, counts: np.ndarray, kind: str) -> Draw:
    """Return so many rows of random novel classes, and others of the same."""
    groups = bank.class_rows("novel")
    chosen = rng.choice(len(groups), min(len(counts), len(groups)), replace=False)
    known, held = [], []
    for k, count in zip(chosen, counts, strict=False):
        rows = rng.permutation(groups[k])
        known.append(rows[:count])
        held.append(rows[count:][:HELD_OUT])
    return Draw(*_features(bank, known), *_features(bank, held), kind)


def _features(bank: Bank, groups: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    rows = np.concatenate(groups)
    return np.asarray(bank.features[rows], np.float32), bank.labels[rows]


def mean_over_classes(values: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean of values in which classes count alike."""
    return float(np.mean([values[labels == k].mean() for k in np.unique(labels)]))
