"""How frequent the classes will be among new rows, as a user says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.errors import FirthshotError


def class_frequencies(given: Any, classes: Array, counts: Array) -> Array:
    """Return the frequency of every class among new rows, (K,), or refuse what is none.

    Parameters
    ----------
    given : "uniform", "training", a dict by label, or numbers in the order of the classes
    counts : (K,), the training rows of every class
    """
    if isinstance(given, str):
        if given not in ("uniform", "training"):
            raise FirthshotError(
                f"class_prior is {given!r}; give 'uniform', 'training' or probabilities."
            )
        counts = np.ones(len(classes)) if given == "uniform" else counts
        return np.asarray(counts / counts.sum())
    labels = classes.tolist()
    if isinstance(given, Mapping):
        missing = [label for label in labels if label not in given]
        if missing:
            raise FirthshotError(f"class_prior has no probability of class {missing[0]!r}.")
        given = [given[label] for label in labels]
    values = np.asarray(given, np.float64)
    if values.shape != (len(labels),) or not ((values > 0) & (values < np.inf)).all():
        raise FirthshotError(
            f"class_prior is {given!r}; give {len(labels)} probabilities above zero, one for each "
            "class."
        )
    return np.asarray(values / values.sum())
