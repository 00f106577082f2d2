"""Few-shot classifiers on frozen features with Firth bias reduction.

The names below are imported when they are first used, so that ``import firthshot`` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firthshot.errors import FirthshotError
from firthshot.lazy import lazy_names

if TYPE_CHECKING:
    from firthshot.backbones.encoders import load_encoder
    from firthshot.banks import Bank, load_bank, save_bank
    from firthshot.engine import train
    from firthshot.episodes import Episodes, sample_episodes
    from firthshot.estimators import (
        DistributionCalibrationClassifier,
        FewShotClassifier,
        FirthClassifier,
        FirthCosineClassifier,
        FirthMLPClassifier,
        load_model,
    )
    from firthshot.jeffreys import JeffreysLogisticRegression, detect_separation, regress
    from firthshot.own_data import FittedModel, fit, load

__version__ = "0.1.0"

__all__ = [
    "Bank",
    "DistributionCalibrationClassifier",
    "Episodes",
    "FewShotClassifier",
    "FirthClassifier",
    "FirthCosineClassifier",
    "FirthMLPClassifier",
    "FirthshotError",
    "FittedModel",
    "JeffreysLogisticRegression",
    "__version__",
    "detect_separation",
    "fit",
    "load",
    "load_bank",
    "load_encoder",
    "load_model",
    "regress",
    "sample_episodes",
    "save_bank",
    "train",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "backbones.encoders": "load_encoder",
        "banks": "Bank load_bank save_bank",
        "engine": "train",
        "episodes": "Episodes sample_episodes",
        "estimators": "DistributionCalibrationClassifier FewShotClassifier FirthClassifier "
        "FirthCosineClassifier FirthMLPClassifier load_model",
        "jeffreys": "JeffreysLogisticRegression detect_separation regress",
        "own_data": "FittedModel fit load",
    },
)
