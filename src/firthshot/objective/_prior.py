"""The class prior u of a support set, by name or as given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from firthshot.objective._softmax import Array

PRIORS = ("uniform", "class-frequency")
SUM_TOLERANCE = 1e-6


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
