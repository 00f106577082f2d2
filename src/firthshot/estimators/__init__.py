"""The scikit-learn face: few-shot heads with ``fit`` and ``predict``."""

from __future__ import annotations

from firthshot.estimators._columns import offset_columns, wide_columns
from firthshot.estimators._cosine import FirthCosineClassifier
from firthshot.estimators._distribution_calibration import DistributionCalibrationClassifier
from firthshot.estimators._left_out import leaves_out_exactly
from firthshot.estimators._linear import FirthClassifier
from firthshot.estimators._loading import load_model
from firthshot.estimators._mlp import FirthMLPClassifier, nets_of_search
from firthshot.estimators._parameters import check_coefficient

__all__ = [
    "DistributionCalibrationClassifier",
    "FirthClassifier",
    "FirthCosineClassifier",
    "FirthMLPClassifier",
    "check_coefficient",
    "leaves_out_exactly",
    "load_model",
    "nets_of_search",
    "offset_columns",
    "wide_columns",
]
