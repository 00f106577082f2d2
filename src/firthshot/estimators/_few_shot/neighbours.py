"""The neighbours' head: a class is as likely as its rows are near.

With a wide kernel it is the nearest class mean, with a narrow one the nearest neighbour. It is the
one head whose classes need not lie on two sides of a plane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array
from firthshot.estimators._few_shot.gaussian import Spread

WIDTH = 0.1  # of the kernel, times the mean squared distance of a row from its class mean
LEAST = 1e-300


@dataclass(frozen=True)
class Neighbours:
    """Fitted neighbours' heads.

    Attributes
    ----------
    known : (…, N, r), the rows; averaging : (…, N, K), their share in the mean of their class
    away : (…, 1, N), 0 or, for a row that was left out, infinity
    width : (…, 1, 1), of the kernel
    """

    known: Array
    averaging: Array
    away: Array
    width: Array

    def logits(self, rows: Array) -> Array:
        """Return log densities (…, n, K) of rows (…, n, r), up to a number for each row."""
        squares = np.vecdot(self.known, self.known)[..., None, :] - 2 * rows @ self.known.mT
        squares += self.away
        squares -= squares.min(axis=-1, keepdims=True)
        near = np.exp(-squares / (2 * self.width))
        return np.asarray(np.log(np.maximum(near @ self.averaging, LEAST)))


def fit_neighbours(spread: Spread) -> Neighbours:
    """Fit the head: the width follows the spread inside classes."""
    sets, shape = spread.sets, spread.trace.shape
    out = np.where(sets.weights > 0, 0.0, np.inf)[:, None]
    known, averaging = spread.rows[:, None], sets.averaging.mT
    return Neighbours(
        np.broadcast_to(known, (*shape, *known.shape[2:])),
        np.broadcast_to(averaging, (*shape, *averaging.shape[1:])),
        np.broadcast_to(out, (*shape, *out.shape[1:])),
        WIDTH * spread.trace[..., None, None],
    )
