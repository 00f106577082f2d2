"""The scikit-learn face: few-shot heads with ``fit`` and ``predict``."""

from __future__ import annotations

from firthshot.estimators._cosine import FirthCosineClassifier
from firthshot.estimators._distribution_calibration import DistributionCalibrationClassifier
from firthshot.estimators._linear import FirthClassifier
from firthshot.estimators._mlp import FirthMLPClassifier
from firthshot.estimators._saving import load_model

__all__ = [
    "DistributionCalibrationClassifier",
    "FirthClassifier",
    "FirthCosineClassifier",
    "FirthMLPClassifier",
    "load_model",
]
