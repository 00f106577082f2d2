"""One temperature for all logits, fitted to left-out predictions."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from firthshot.estimators._loo import LeftOut
from firthshot.objective import log_softmax

# Logits are never sharpened or flattened by more than this factor (a strong l2 on features of
# small scale asks for a lot).
LARGEST = 1e4


def fit_temperature(left: LeftOut) -> float:
    """Return the temperature T for which softmax(logits / T) fits the left-out labels best.

    The likelihood is that of labels smoothed as by Platt: (R + 1) / (R + 2) for the label, the
    rest for the other classes, so that a few rows that are all right do not demand certainty.
    Without rows to leave out T is 1.
    """
    n, n_classes = left.logits.shape
    if not n:
        return 1.0
    targets = np.full((n, n_classes), 1 / ((n + 2) * (n_classes - 1)))
    targets[np.arange(n), left.labels] = (n + 1) / (n + 2)
    weights = left.weights / left.weights.sum()

    def loss(log_t: float) -> float:
        return float(-weights @ (targets * log_softmax(left.logits / np.exp(log_t))).sum(1))

    bound = np.log(LARGEST)
    return float(np.exp(minimize_scalar(loss, bounds=(-bound, bound), method="bounded").x))
