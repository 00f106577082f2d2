"""Distribution Calibration: support + base statistics → a larger support, and its classifier.

Yang, Liu & Xu, *Free Lunch for Few-Shot Learning: Distribution Calibration* (ICLR 2021), with
Firth bias reduction as in the paper's Section "Comparison with Additional State-of-the-Art
Method". ``docs/calibration.md`` has every rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firthshot.lazy import lazy_names

if TYPE_CHECKING:
    from firthshot.calibration._head import CalibratedLinear
    from firthshot.calibration._sampling import FACTORS, Stream, calibrate, draw, tukey
    from firthshot.calibration._shared import TOGETHER, SharedLbfgs, train_shared
    from firthshot.calibration._solver import solve_path
    from firthshot.calibration._statistics import BaseStatistics, base_statistics
    from firthshot.calibration._task import CalibrationTerms

__all__ = [
    "FACTORS", "TOGETHER", "BaseStatistics", "CalibratedLinear", "CalibrationTerms", "SharedLbfgs",
    "Stream", "base_statistics", "calibrate", "draw", "solve_path", "train_shared", "tukey",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_head": "CalibratedLinear",
        "_sampling": "FACTORS Stream calibrate draw tukey",
        "_shared": "TOGETHER SharedLbfgs train_shared",
        "_solver": "solve_path",
        "_statistics": "BaseStatistics base_statistics",
        "_task": "CalibrationTerms",
    },
)
