"""Rows far from the origin, brought to it: a column that is large everywhere says nothing.

In the products of such rows the digits that differ drown in those that do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from firthshot.estimators._support import Array

FAR = 1e-3  # the spread of the rows as a share of their mean square, below which they are centred


def centre_of(X: Array, weights: Array) -> Array:
    """Return the weighted mean of rows in float64; that of a constant column is its value."""
    first = np.asarray(X[0], np.float64)
    mean: Array = first + (weights / weights.sum()) @ (X - first)
    return mean


def centre_if_far(X: Array, weights: Array, moments: Any) -> tuple[Array, Array | None]:
    """Return the rows less their mean, and that mean, or the rows as they are and None."""
    if moments.spread >= FAR * moments.square:
        return X, None
    centre = centre_of(X, weights)
    return X - centre, centre
