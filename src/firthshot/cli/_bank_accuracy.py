"""The accuracy of the nearest class mean in the lines of ``firthshot bank info --accuracy``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firthshot.engine import baseline
from firthshot.experiments.statistics import half_width

if TYPE_CHECKING:
    import numpy as np

    from firthshot.banks import Bank


def accuracy_facts(bank: Bank, split: str = "novel") -> dict[str, str]:
    """Return lines that say the accuracy of the nearest class mean, with 95 % intervals."""
    shots = "- and ".join(map(str, baseline.SHOTS))
    title = f"{split}, {baseline.WAYS}-way, {shots}-shot"
    size = f"({baseline.TRIALS} trials, {baseline.QUERIES} queries per class)"
    found = baseline.baseline_accuracies(bank, split)
    lines = {f"  {words}": ", ".join(map(_words, own)) for words, own in found.items()}
    return {"nearest class mean": f"{title} {size}", **lines}


def _words(accuracy: np.ndarray) -> str:
    return f"{100 * accuracy.mean():.1f} ± {100 * half_width(accuracy):.1f} %"
