"""One temperature for all logits, fitted to left-out predictions."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from firthshot.estimators._loo import LeftOut
from firthshot.objective import softmax

# Logits are never sharpened or flattened by more than this factor (a strong l2 on features of
# small scale asks for a lot).
LARGEST = 1e4
PSEUDO = 0.25  # Platt's 1 makes few rows too timid


def fit_temperature(left: LeftOut) -> float:
    """Return the temperature T for which softmax(logits / T) fits the left-out labels best.

    The likelihood is that of labels smoothed in Platt's way, (R + ¼) / (R + ½) for the label and
    the rest for the other classes, with R the sum of the weights, so that a few rows that are all
    right do not demand certainty. Without rows to leave out T is 1.
    """
    n, n_classes = left.logits.shape
    if not n:
        return 1.0
    total = float(left.weights.sum())
    rest = PSEUDO / (total + 2 * PSEUDO)
    targets = np.full((n, n_classes), rest / (n_classes - 1))
    targets[np.arange(n), left.labels] = 1 - rest
    wanted = (targets * left.logits).sum(1)

    def slope(log_sharpness: float) -> float:
        p = softmax(np.exp(log_sharpness) * left.logits)
        return float(left.weights @ ((p * left.logits).sum(1) - wanted))

    # The loss is convex in the sharpness 1/T, so that its slope has one root, if any.
    low, high = -np.log(LARGEST), np.log(LARGEST)
    if slope(low) >= 0:
        return LARGEST
    if slope(high) <= 0:
        return 1 / LARGEST
    return float(np.exp(-brentq(slope, low, high, xtol=1e-13)))
