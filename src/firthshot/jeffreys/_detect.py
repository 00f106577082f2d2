"""Detect separation in data that no model was fitted to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.jeffreys._separation import Separation, find_separation
from firthshot.jeffreys.estimator import JeffreysLogisticRegression

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def detect_separation(
    X: ArrayLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    fit_intercept: bool = True,
    reference: Any = None,
) -> Separation:
    """Tell whether columns separate the classes, and which coefficients that sends to infinity.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Array or data frame, without a column of ones.
    y : array-like of shape (n_samples,)
        Labels of two or more classes.
    sample_weight : array-like of shape (n_samples,), default=None
        Frequencies; rows of weight zero are left out.
    fit_intercept : bool, default=True
    reference : label, default=None
        Baseline category of the coefficients; the first class in sorted order if None.

    Returns
    -------
    Separation

    Examples
    --------
    >>> found = detect_separation([[0], [1], [2], [3]], ["no", "no", "yes", "yes"])
    >>> found.kind, found.directions["x0"]
    ('complete', '+Inf')
    """
    model = JeffreysLogisticRegression(reference=reference, fit_intercept=fit_intercept)
    features, codes, weights = model._read(X, y, sample_weight)
    design = np.column_stack([np.ones(len(features)), features]) if fit_intercept else features
    labels = [str(label) for label in model.contrasts_]
    found = find_separation(design, codes, model._columns(), labels, weights=weights)
    return replace(found, rows=int(model._used.sum()), penalised=False)
