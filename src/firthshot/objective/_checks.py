"""Refuse bad labels, priors and coefficients with a sentence; repair nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from firthshot.objective._softmax import Array

PRIOR_SUM_TOLERANCE = 1e-6


def check_labels(labels: ArrayLike, n_classes: int) -> NDArray[np.integer[Any]]:
    """Return labels as integers in [0, n_classes), or refuse them."""
    y = np.asarray(labels)
    if y.dtype.kind not in "iu":
        raise FirthshotError(f"labels have type {y.dtype}; give integers from 0 to K-1.")
    if y.size and (y.min() < 0 or y.max() >= n_classes):
        raise FirthshotError(
            f"labels run from {y.min()} to {y.max()}; with {n_classes} classes they must lie "
            f"in 0..{n_classes - 1}."
        )
    return y


def match_labels(labels: ArrayLike, log_p: Array) -> NDArray[np.integer[Any]]:
    """Return checked labels broadcast to the samples of ``log_p``, shape (..., n)."""
    y = check_labels(labels, log_p.shape[-1])
    try:
        return np.broadcast_to(y, log_p.shape[:-1])
    except ValueError:
        raise FirthshotError(
            f"labels of shape {y.shape} do not fit logits of shape {log_p.shape}; give one "
            "label per sample."
        ) from None


def check_prior(prior: ArrayLike) -> Array:
    """Return a read-only copy of a class prior of shape (..., K), or refuse it."""
    a = np.array(prior, dtype=np.float64)
    if a.ndim < 1 or a.shape[-1] < 2:
        raise FirthshotError(f"the prior has shape {a.shape}; give one probability per class.")
    if not np.isfinite(a).all() or (a < 0).any():
        raise FirthshotError("the prior holds a negative or non-finite entry; give probabilities.")
    total = a.sum(axis=-1)
    worst = float(np.ravel(total)[np.argmax(np.abs(np.ravel(total) - 1.0))])
    if abs(worst - 1.0) > PRIOR_SUM_TOLERANCE:
        raise FirthshotError(f"the prior sums to {worst:.6g}; divide it by its sum.")
    a.setflags(write=False)
    return a


def match_prior(prior: Array, log_p: Array) -> Array:
    """Return a checked prior as (..., 1, K), of the type of ``log_p`` and broadcasting with it."""
    if prior.shape[-1] != log_p.shape[-1]:
        raise FirthshotError(
            f"the prior has {prior.shape[-1]} entries but the logits have {log_p.shape[-1]} "
            "classes; give one probability per class."
        )
    check_leading("the prior", prior.shape[:-1], log_p)
    return prior[..., None, :].astype(log_p.dtype, copy=False)


def check_coefficient(name: str, coefficient: ArrayLike, *, below: float = np.inf) -> Array:
    """Return a read-only copy of coefficients in [0, below), or refuse them."""
    c = np.array(coefficient, dtype=np.float64)
    if not np.isfinite(c).all() or (c < 0).any() or (c >= below).any():
        limit = "finite and not negative" if below == np.inf else f"in [0, {below:g})"
        raise FirthshotError(f"{name} is {c.tolist()}; it must be {limit}.")
    c.setflags(write=False)
    return c


def check_leading(name: str, shape: tuple[int, ...], log_p: Array) -> None:
    """Refuse an array whose leading axes ``shape`` do not broadcast with those of the logits."""
    try:
        np.broadcast_shapes(shape, log_p.shape[:-2])
    except ValueError:
        raise FirthshotError(
            f"{name} has leading axes {shape} but the logits have {log_p.shape[:-2]}; "
            "give axes that broadcast."
        ) from None


def check_matrix(X: ArrayLike, *, intercept: bool) -> Array:
    """Return finite features of shape (N, d) as float64, a column of ones appended on request."""
    features = np.asarray(X, dtype=np.float64)
    if features.ndim != 2 or 0 in features.shape:
        raise FirthshotError(f"X has shape {features.shape}; give (samples, features).")
    if not np.isfinite(features).all():
        raise FirthshotError("X holds a NaN or an infinity; remove or mend those samples.")
    if not intercept:
        return features
    return np.column_stack([features, np.ones(len(features))])


def class_frequencies(labels: ArrayLike, n_classes: int) -> Array:
    """Compute the share of each class among the labels: the `class-frequency` prior.

    Parameters
    ----------
    labels : integers of shape (..., n)
    n_classes : int

    Returns
    -------
    array of shape (..., K)
        Counts divided by n; classes without a sample get 0.
    """
    y = check_labels(labels, n_classes)
    if y.ndim < 1 or y.shape[-1] == 0:
        raise FirthshotError("there are no labels to count; give one sample or more.")
    frequencies: Array = (y[..., None] == np.arange(n_classes)).mean(axis=-2)
    return frequencies
