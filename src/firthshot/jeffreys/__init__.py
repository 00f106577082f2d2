"""Exact Firth regression: logistic models penalised by the Jeffreys prior, with inference."""

from __future__ import annotations

from firthshot.jeffreys._compare import Comparison, compare
from firthshot.jeffreys._detect import detect_separation
from firthshot.jeffreys._logit import Logit, LogitResults
from firthshot.jeffreys._profile import Profile
from firthshot.jeffreys._regression import Regression, fit_model_data, regress
from firthshot.jeffreys._separation import Separation
from firthshot.jeffreys._summary import Summary
from firthshot.jeffreys._tests import TestResult
from firthshot.jeffreys.estimator import CollinearityWarning, JeffreysLogisticRegression

__all__ = [
    "CollinearityWarning",
    "Comparison",
    "JeffreysLogisticRegression",
    "Logit",
    "LogitResults",
    "Profile",
    "Regression",
    "Separation",
    "Summary",
    "TestResult",
    "compare",
    "detect_separation",
    "fit_model_data",
    "regress",
]
