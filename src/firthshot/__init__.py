"""Few-shot classifiers on frozen features with Firth bias reduction.

The names below are imported when they are first used, so that ``import firthshot`` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from firthshot.banks import Bank, load_bank, save_bank
    from firthshot.engine import train
    from firthshot.episodes import Episodes, sample_episodes
    from firthshot.estimators import (
        DistributionCalibrationClassifier,
        FirthClassifier,
        FirthCosineClassifier,
        FirthMLPClassifier,
        load_model,
    )
    from firthshot.jeffreys import JeffreysLogisticRegression, regress

__version__ = "0.1.0"

_HOME = {
    "Bank": "firthshot.banks",
    "load_bank": "firthshot.banks",
    "save_bank": "firthshot.banks",
    "Episodes": "firthshot.episodes",
    "sample_episodes": "firthshot.episodes",
    "train": "firthshot.engine",
    "DistributionCalibrationClassifier": "firthshot.estimators",
    "FirthClassifier": "firthshot.estimators",
    "FirthCosineClassifier": "firthshot.estimators",
    "FirthMLPClassifier": "firthshot.estimators",
    "load_model": "firthshot.estimators",
    "JeffreysLogisticRegression": "firthshot.jeffreys",
    "regress": "firthshot.jeffreys",
}

__all__ = [
    "Bank",
    "DistributionCalibrationClassifier",
    "Episodes",
    "FirthClassifier",
    "FirthCosineClassifier",
    "FirthMLPClassifier",
    "FirthshotError",
    "JeffreysLogisticRegression",
    "__version__",
    "load_bank",
    "load_model",
    "regress",
    "sample_episodes",
    "save_bank",
    "train",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'firthshot' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
