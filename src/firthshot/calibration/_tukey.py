"""Tukey's ladder of powers."""

from __future__ import annotations

import numpy as np

from firthshot.arrays import Array
from firthshot.errors import FirthshotError


def tukey(X: Array, power: float = 0.5) -> Array:
    """Return sign(x) |x|^power, entry by entry; power 0 is log(x).

    Zero stays zero. A negative feature, which the published transform does not meet (its features
    come out of a ReLU), keeps its sign: the transform is then odd and monotone, and equals the
    published one wherever that is defined. Power 1 changes nothing.

    Raises
    ------
    FirthshotError
        For a negative power, or for power 0 where a feature is not above zero.
    """
    if not 0 <= power < np.inf:
        raise FirthshotError(f"The power of Tukey's transform is {power}; it must not be negative.")
    X = np.asarray(X)
    if power == 1:
        return X
    if power == 0:
        if not (X > 0).all():
            raise FirthshotError(
                "Tukey's transform with power 0 is a logarithm, and some features are not above "
                "zero: use a power above 0."
            )
        return np.log(X)
    size = np.abs(X)
    size = np.sqrt(size) if power == 0.5 else size ** np.asarray(power, X.dtype)
    return np.asarray(np.copysign(size, X))
