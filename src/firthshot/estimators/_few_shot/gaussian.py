"""The Gaussian head: classes with means of their own and one covariance, shrunk.

Class means are themselves drawn from a Gaussian around the mean of all classes, so that a mean of
few rows is drawn to it and its uncertainty widens the class (the two-covariance model of speaker
recognition). With n rows of a class and κ = within / between,

    x | class  ~  N(μ + n/(n + κ) (m − μ),  (1 + 1/(n + κ)) Σ).

Without that, classes of few rows are at a disadvantage: the noise of their means puts them farther
away. The within-class covariance is a mixture of the pooled one and a sphere of the same trace, in
the share of Chen et al. (2010, "oracle approximating shrinkage").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.estimators._few_shot.rows import Examples
from firthshot.estimators._support import Array


@dataclass(frozen=True)
class Gaussian:
    """A fitted Gaussian head.

    Attributes
    ----------
    centre : (r,); means : (K, r), of the classes, drawn to the centre
    precision : (r, r), of a row inside its class
    widening : (K,), factor on the covariance of each class
    directions : effective number of dimensions, of which the widening takes its toll
    """

    centre: Array
    means: Array
    precision: Array
    widening: Array
    directions: float

    def logits(self, rows: Array) -> Array:
        """Return log densities (n, K), up to a number for each row."""
        rows, means = rows - self.centre, self.means - self.centre
        along = means @ self.precision
        distance = np.einsum("ij,ij->i", along, means) - 2 * rows @ along.T
        if np.ptp(self.widening) > 0:
            distance += np.einsum("ij,ij->i", rows @ self.precision, rows)[:, None]
        return np.asarray(
            -0.5 * distance / self.widening - 0.5 * self.directions * np.log(self.widening)
        )


def fit_gaussian(examples: Examples, dimensions: int, *, sphere: bool) -> Gaussian:
    """Fit the head; ``sphere`` keeps nothing of the covariance but its trace.

    Parameters
    ----------
    dimensions : of the space in which the rows' coordinates were found
    """
    means = examples.class_means()
    centre = means.mean(axis=0)
    within, share, variance = _within(examples, means, dimensions, sphere)
    precision = _inverse(share * within, (1 - share) * variance)
    directions = float((precision * within).sum()) if examples.freedom else float(dimensions)
    away = means - centre
    square = np.einsum("ij,jk,ik->i", away, precision, away)
    drawn, widening = _certainty(square, directions, examples.counts)
    return Gaussian(centre, centre + drawn[:, None] * away, precision, widening, directions)


def _within(
    examples: Examples, means: Array, dimensions: int, sphere: bool
) -> tuple[Array, float, float]:
    """Return the pooled covariance, its share in the mixture, and the variance of the sphere.

    Where every class has one row, half of the total variance is taken to lie inside classes.
    """
    r = examples.rows.shape[1]
    if not examples.freedom:
        away = examples.rows - examples.rows.mean(axis=0)
        total = float(np.square(away).sum()) / max(len(away) - 1, 1)
        return np.zeros((r, r)), 0.0, (total / 2 or 1.0) / dimensions
    away = examples.rows - means[examples.labels]
    within = (away.T * examples.weights) @ away / examples.freedom
    trace = float(np.trace(within))
    if not trace:
        return within, 0.0, 1.0 / dimensions
    shrinkage = 1.0 if sphere else _oas(within, trace, dimensions, examples.freedom)
    return within, 1.0 - shrinkage, trace / dimensions


def _oas(covariance: Array, trace: float, dimensions: int, freedom: float) -> float:
    """Return the share of the sphere."""
    squares, d = float(np.square(covariance).sum()), dimensions
    against = (freedom + 1 - 2 / d) * (squares - trace**2 / d)
    return 1.0 if against <= 0 else min(1.0, ((1 - 2 / d) * squares + trace**2) / against)


def _inverse(part: Array, sphere: float) -> Array:
    """Return the inverse of a covariance and a sphere; the sphere alone is quick."""
    if not part.any():
        return np.eye(len(part)) / sphere
    floor = max(sphere, 1e-10 * float(np.trace(part)) / len(part))
    return np.linalg.inv(part + floor * np.eye(len(part)))


def _certainty(square: Array, directions: float, counts: Array) -> tuple[Array, Array]:
    """Return how much of each mean stands, and the widening of its class, (K,) each."""
    n = len(counts)
    between = float((square - directions / counts).mean()) * n / max(n - 1, 1)
    between = max(between, 1e-6 * float(square.mean()), 1e-12)
    ratio = directions / between
    return counts / (counts + ratio), 1 + 1 / (counts + ratio)
