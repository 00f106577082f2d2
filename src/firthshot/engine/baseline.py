"""How well the nearest class mean does on a bank: the first thing to know of its features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firthshot.engine._run import train
from firthshot.engine.heads import Centroid
from firthshot.engine.options import Converged
from firthshot.episodes import sample_episodes
from firthshot.objective import Penalty

if TYPE_CHECKING:
    from firthshot.banks import Bank

WAYS, SHOTS, QUERIES, TRIALS = 5, (1, 5), 15, 600


def baseline_accuracies(bank: Bank, split: str = "novel") -> dict[str, list[np.ndarray]]:
    """Return the accuracies of the nearest class mean, for each of `SHOTS` those of all trials.

    They are by the features "as they are" and with rows of "unit length"; the trials are those of
    every run on the classes of the split (`sample_episodes`).
    """
    rows = bank.features.astype(np.float32)
    units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return {
        words: [centroid_accuracy(bank, features, split, shots) for shots in SHOTS]
        for words, features in (("as they are", rows), ("unit length", units))
    }


def centroid_accuracy(bank: Bank, features: np.ndarray, split: str, shots: int) -> np.ndarray:
    """Return the accuracy of each trial, (trials,), of features (n, d) in the bank's order."""
    episodes = sample_episodes(bank, split, ways=WAYS, shots=shots, trials=TRIALS, queries=QUERIES)
    return train(features, episodes, Centroid(), Converged(), Penalty()).accuracy[:, 0]
