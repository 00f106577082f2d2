"""What a head may ask of the base classes, on which the backbone was trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array, unit_length

_SPHERE = 0.5  # share of a sphere in the covariance, which is that of other classes


@dataclass(frozen=True, eq=False)
class BaseFacts:
    """The mean of all base rows, and a whitening of unit rows by their covariance inside classes.

    ``whitening`` W (d, d) is symmetric; that covariance is mixed with a sphere of the same trace.
    """

    mean: Array
    whitening: Array

    @classmethod
    def of(cls, classes: Sequence[Array]) -> BaseFacts:
        """Ask the rows (n_c, d) of every class."""
        rows = np.concatenate(classes).astype(np.float64)
        units = [unit_length(each.astype(np.float64)) for each in classes]
        inside = np.concatenate([each - each.mean(0) for each in units])
        covariance = inside.T @ inside / max(1, len(inside) - len(classes))
        values, vectors = np.linalg.eigh(covariance)
        mixed = (1 - _SPHERE) * np.maximum(values, 0) + _SPHERE * values.mean()
        return cls(rows.mean(0), (vectors / np.sqrt(mixed)) @ vectors.T)
