"""The scikit-learn face: few-shot heads with ``fit`` and ``predict``.

A name is imported when it is first used: one head does not load the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firthshot.lazy import lazy_names

if TYPE_CHECKING:
    from firthshot.estimators._columns import offset_columns, wide_columns
    from firthshot.estimators._cosine import FirthCosineClassifier
    from firthshot.estimators._distribution_calibration import DistributionCalibrationClassifier
    from firthshot.estimators._few_shot.classifier import FewShotClassifier
    from firthshot.estimators._few_shot.words import SMALL_GAIN, SMALL_LOSS
    from firthshot.estimators._input import check_coefficient
    from firthshot.estimators._linear import FirthClassifier
    from firthshot.estimators._loading import load_model
    from firthshot.estimators._mlp import FirthMLPClassifier, nets_of_search

__all__ = [
    "SMALL_GAIN",
    "SMALL_LOSS",
    "DistributionCalibrationClassifier",
    "FewShotClassifier",
    "FirthClassifier",
    "FirthCosineClassifier",
    "FirthMLPClassifier",
    "check_coefficient",
    "load_model",
    "nets_of_search",
    "offset_columns",
    "wide_columns",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_columns": "offset_columns wide_columns",
        "_cosine": "FirthCosineClassifier",
        "_distribution_calibration": "DistributionCalibrationClassifier",
        "_few_shot.classifier": "FewShotClassifier",
        "_few_shot.words": "SMALL_GAIN SMALL_LOSS",
        "_linear": "FirthClassifier",
        "_loading": "load_model",
        "_mlp": "FirthMLPClassifier nets_of_search",
        "_input": "check_coefficient",
    },
)
