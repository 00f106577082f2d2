"""The neighbours' head: a class is as likely as its rows are near.

With a wide kernel it is the nearest class mean, with a narrow one the nearest neighbour. It is the
one head whose classes need not lie on two sides of a plane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array
from firthshot.estimators._few_shot.gaussian import one_shot_trace, within_trace
from firthshot.estimators._few_shot.rows import LabelledRows

WIDTH = 0.1  # of the kernel, times the mean squared distance of a row from its class mean
LEAST = 1e-300


@dataclass(frozen=True)
class Neighbours:
    """A fitted neighbours' head: its rows, and the width of their kernel."""

    examples: LabelledRows
    width: float

    def logits(self, rows: Array) -> Array:
        """Return log densities (n, K), up to a number for each row."""
        known = self.examples
        squares = (
            np.einsum("ij,ij->i", rows, rows)[:, None]
            + np.einsum("ij,ij->i", known.rows, known.rows)
            - 2 * rows @ known.rows.T
        )
        squares -= squares.min(axis=1, keepdims=True)
        near = np.exp(-squares / (2 * self.width))
        return np.asarray(np.log(np.maximum(near @ known.averaging, LEAST)))


def fit_neighbours(examples: LabelledRows) -> Neighbours:
    """Fit the head: the width follows the spread inside classes."""
    return Neighbours(examples, WIDTH * (within_trace(examples) or one_shot_trace(examples)))
