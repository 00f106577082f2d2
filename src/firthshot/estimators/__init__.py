"""The scikit-learn face: few-shot heads with ``fit`` and ``predict``.

A name is imported when it is first used: one head does not load the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firthshot.estimators._columns import offset_columns, wide_columns
    from firthshot.estimators._cosine import FirthCosineClassifier
    from firthshot.estimators._distribution_calibration import DistributionCalibrationClassifier
    from firthshot.estimators._input import check_coefficient
    from firthshot.estimators._left_out import leaves_out_exactly
    from firthshot.estimators._linear import FirthClassifier
    from firthshot.estimators._loading import load_model
    from firthshot.estimators._mlp import FirthMLPClassifier, nets_of_search

_HOME = {
    "DistributionCalibrationClassifier": "_distribution_calibration",
    "FirthClassifier": "_linear",
    "FirthCosineClassifier": "_cosine",
    "FirthMLPClassifier": "_mlp",
    "check_coefficient": "_input",
    "leaves_out_exactly": "_left_out",
    "load_model": "_loading",
    "nets_of_search": "_mlp",
    "offset_columns": "_columns",
    "wide_columns": "_columns",
}

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


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
