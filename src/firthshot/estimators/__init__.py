"""The scikit-learn face: few-shot heads with ``fit`` and ``predict``."""

from __future__ import annotations

from firthshot.estimators._linear import FirthClassifier

__all__ = ["FirthClassifier"]
