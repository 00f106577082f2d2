"""Log-probabilities of a softmax, and the checks that every function on logits shares.

Conventions of this room: K classes; logits of shape (..., n, K) with any leading batch axes
(trials, coefficients); labels are integers of shape (..., n); a per-sample value has shape
(..., n) and is never reduced here. float32 stays float32, integers become float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firthshot.errors import FirthshotError

Array = NDArray[np.floating[Any]]


def as_logits(logits: ArrayLike) -> Array:
    """Return logits as a floating array of shape (..., n, K), K ≥ 2, or refuse them."""
    given = np.asarray(logits)
    if given.ndim < 2 or given.shape[-1] < 2:
        raise FirthshotError(
            f"logits have shape {given.shape}; give (..., samples, classes), "
            "with two classes or more."
        )
    if given.dtype.kind not in "fiu":
        raise FirthshotError(f"logits have type {given.dtype}; give real numbers.")
    return given.astype(np.result_type(given.dtype, np.float32), copy=False)


def log_softmax(logits: ArrayLike) -> Array:
    """Compute log p = z - log Σ_j exp z_j of logits (..., n, K) along the last axis, stably.

    A NaN makes its whole sample NaN. The largest of each sample is -log1p(Σ of the other terms), so
    that a confident, right prediction keeps the relative accuracy of its tiny loss.
    """
    z = as_logits(logits)
    top = np.argmax(z, axis=-1, keepdims=True)
    shifted = z - np.take_along_axis(z, top, axis=-1)
    others = np.exp(shifted)
    np.put_along_axis(others, top, 0.0, axis=-1)
    log_p: Array = shifted - np.log1p(others.sum(axis=-1, keepdims=True))
    return log_p


def softmax(logits: ArrayLike) -> Array:
    """Compute p = exp(z) / Σ_j exp z_j along the last axis, shape (..., n, K), stably."""
    return np.exp(log_softmax(logits))
