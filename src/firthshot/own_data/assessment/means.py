"""The nearest class mean, the plainest head there is, as an estimator of scikit-learn's kind."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from firthshot.arrays import Array
from firthshot.objective import softmax
from firthshot.own_data.novelty import Novelty, fit_novelty


class NearestMean(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Class means of rows of length 1, or of columns on one scale, as `novelty` places them."""

    def fit(self, X: Array, y: Array) -> Self:
        """Fit to labelled rows."""
        self.classes_, labels = np.unique(y, return_inverse=True)
        self._means: Novelty = fit_novelty(np.asarray(X), labels.ravel())
        return self

    def predict_proba(self, X: Array) -> Array:
        """Return a softmax of squared distances, on the scale of left-out rows."""
        known = self._means.known
        scale = float(np.median(known)) if len(known) else 1.0
        return np.asarray(softmax(-self._means.distances(X) / (scale or 1.0)))
