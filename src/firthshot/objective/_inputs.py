"""Logits, labels, priors and features as the objective takes them; what is none is refused.

Nothing is repaired.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firthshot.errors import FirthshotError

Array = NDArray[np.floating[Any]]
PRIORS = ("uniform", "class-frequency")
SUM_TOLERANCE = 1e-6


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


def class_prior(
    prior: Any, labels: NDArray[Any], n_classes: int, weights: Array | None = None
) -> Array:
    """Return the prior u over classes, (K,): by name, or given in the order of the classes.

    The class frequency is a class's share of the ``weights`` (N,) of all samples, one each unless
    given.
    """
    if isinstance(prior, str):
        if prior == "uniform":
            return np.full(n_classes, 1 / n_classes)
        if prior == "class-frequency":
            counts = np.bincount(labels, weights, minlength=n_classes)
            return np.asarray(counts / (len(labels) if weights is None else weights.sum()))
        raise FirthshotError(
            f"prior is {prior!r}; give 'uniform', 'class-frequency' or {n_classes} probabilities."
        )
    wanted = (
        f"prior must be {n_classes} probabilities that sum to 1, in the order of the classes, "
        f"not {prior}"
    )
    try:
        u = check_prior(prior)
    except FirthshotError as refusal:
        raise FirthshotError(f"{wanted}: {refusal}") from None
    except (TypeError, ValueError):  # no numbers
        raise FirthshotError(f"{wanted}.") from None
    if u.shape != (n_classes,):
        raise FirthshotError(f"{wanted}.")
    return u


def check_prior(prior: ArrayLike) -> Array:
    """Return a read-only copy of a class prior of shape (..., K), or refuse it."""
    a = np.array(prior, dtype=np.float64)
    if a.ndim < 1 or a.shape[-1] < 2:
        raise FirthshotError(f"the prior has shape {a.shape}; give one probability per class.")
    if not np.isfinite(a).all() or (a < 0).any():
        raise FirthshotError("the prior holds a negative or non-finite entry; give probabilities.")
    total = np.ravel(a.sum(axis=-1))
    worst = float(total[np.argmax(np.abs(total - 1.0))])
    if abs(worst - 1.0) > SUM_TOLERANCE:
        raise FirthshotError(f"the prior sums to {worst:.6g}; divide it by its sum.")
    a.setflags(write=False)
    return a
