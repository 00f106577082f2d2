"""How good a fit is, from its own rows: left out, subsampled, compared and doubted."""

from firthshot.own_data.assessment.assess import (
    Assessment,
    assess,
    binned,
    expected_calibration_error,
    to_dict,
)
from firthshot.own_data.assessment.rows import LabelledFit

__all__ = [
    "Assessment",
    "LabelledFit",
    "assess",
    "binned",
    "expected_calibration_error",
    "to_dict",
]
