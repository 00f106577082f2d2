"""Refuse bad labels, axes and features with a sentence; repair nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from firthshot.objective._softmax import Array


def match_labels(labels: ArrayLike, log_p: Array) -> NDArray[np.integer[Any]]:
    """Return integer labels in [0, K), broadcast to the samples of ``log_p``, (..., n)."""
    y, n_classes = np.asarray(labels), log_p.shape[-1]
    if y.dtype.kind not in "iu":
        raise FirthshotError(f"labels have type {y.dtype}; give integers from 0 to K-1.")
    if y.size and (y.min() < 0 or y.max() >= n_classes):
        raise FirthshotError(
            f"labels run from {y.min()} to {y.max()}; with {n_classes} classes they must lie "
            f"in 0..{n_classes - 1}."
        )
    try:
        return np.broadcast_to(y, log_p.shape[:-1])
    except ValueError:
        raise FirthshotError(
            f"labels of shape {y.shape} do not fit logits of shape {log_p.shape}; give one "
            "label per sample."
        ) from None


def match_leading(name: str, array: ArrayLike, log_p: Array, *, own: int) -> Array:
    """Return an array of axes (leading, own) as (leading, 1, own), to broadcast with log p."""
    a = np.asarray(array, dtype=log_p.dtype)
    leading = a.shape[: a.ndim - own]
    try:
        np.broadcast_shapes(leading, log_p.shape[:-2])
    except ValueError:
        raise FirthshotError(
            f"{name} has leading axes {leading} but the logits have {log_p.shape[:-2]}; "
            "give axes that broadcast."
        ) from None
    return a.reshape(*leading, 1, *a.shape[a.ndim - own :])


def check_matrix(X: ArrayLike, *, intercept: bool) -> Array:
    """Return finite features (N, d) as float64, a column of ones appended on request."""
    features = np.asarray(X, dtype=np.float64)
    if features.ndim != 2 or 0 in features.shape:
        raise FirthshotError(f"X has shape {features.shape}; give (samples, features).")
    if not np.isfinite(features).all():
        raise FirthshotError("X holds a NaN or an infinity; remove or mend those samples.")
    if not intercept:
        return features
    return np.column_stack([features, np.ones(len(features))])
