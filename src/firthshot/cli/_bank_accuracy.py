"""How well the nearest class mean does on a bank: the first thing to know of its features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from firthshot.banks import Bank

WAYS, SHOTS, QUERIES, TRIALS = 5, (1, 5), 15, 600


def accuracy_facts(bank: Bank, split: str = "novel") -> dict[str, str]:
    """Return lines that say the accuracy of the nearest class mean, with 95 % intervals.

    The trials are those of every run (`sample_episodes`); features are taken as they are, and with
    rows of unit length.
    """
    title = f"{split}, {WAYS}-way, {'- and '.join(map(str, SHOTS))}-shot"
    rows = bank.features.astype(np.float32)
    units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    facts = {"nearest class mean": f"{title} ({TRIALS} trials, {QUERIES} queries per class)"}
    for words, features in (("  as they are", rows), ("  unit length", units)):
        found = [_words(centroid_accuracy(bank, features, split, shots)) for shots in SHOTS]
        facts[words] = ", ".join(found)
    return facts


def centroid_accuracy(bank: Bank, features: np.ndarray, split: str, shots: int) -> np.ndarray:
    """Return the accuracy of each trial, (trials,)."""
    from firthshot.engine import Centroid, Converged, Penalty, train
    from firthshot.episodes import sample_episodes

    episodes = sample_episodes(bank, split, ways=WAYS, shots=shots, trials=TRIALS, queries=QUERIES)
    return train(features, episodes, Centroid(), Converged(), Penalty()).accuracy[:, 0]


def _words(accuracy: np.ndarray) -> str:
    half = 1.96 * accuracy.std(ddof=1) / np.sqrt(len(accuracy))
    return f"{100 * accuracy.mean():.1f} ± {100 * half:.1f} %"
