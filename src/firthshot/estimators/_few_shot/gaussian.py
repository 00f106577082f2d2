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
from scipy.linalg.lapack import dpotrf, dtrtri

from firthshot.arrays import Array
from firthshot.estimators._few_shot.rows import LabelledRows

NOTHING = 1e-12  # a within-class share of all scatter that rounding alone may leave


@dataclass(frozen=True)
class Gaussian:
    """A fitted Gaussian head.

    Attributes
    ----------
    centre : (r,); away : (K, r), the means of the classes beyond it
    whitening : (r, r), or a number for a sphere: rows times it have unit variance inside classes
    widening : (K,), factor on the covariance of each class
    directions : effective number of dimensions, on which the widening acts
    """

    centre: Array
    away: Array
    whitening: Array | float
    widening: Array
    directions: float

    def logits(self, rows: Array) -> Array:
        """Return log densities (n, K), up to a number for each row."""
        rows, means = rows - self.centre, _times(self.away, self.whitening)
        if np.ptp(self.widening) > 0:
            white = _times(rows, self.whitening)
            distance = _squares(means) - 2 * white @ means.T + _squares(white)[:, None]
        else:  # the square of the row is the same for all classes
            distance = _squares(means) - 2 * rows @ _times(means, self.whitening, back=True).T
        toll = self.directions * np.log(self.widening)
        return np.asarray(-0.5 * (distance / self.widening + toll))


def fit_gaussian(examples: LabelledRows, scatter: Array | None, dimensions: int) -> Gaussian:
    """Fit the head.

    Parameters
    ----------
    scatter : (r, r), Σ w x x' of the rows; None keeps nothing of the covariance but its trace
    dimensions : of the space in which the rows' coordinates were found
    """
    means, counts = examples.class_means, examples.counts
    centre = means.mean(axis=0)
    away = means - centre
    trace = within_trace(examples)
    if not trace or scatter is None:
        variance = (trace or one_shot_trace(examples)) / dimensions
        whitening: Array | float = 1 / np.sqrt(variance)
        directions = float(dimensions)
    else:
        within = (scatter - (means.T * counts) @ means) / examples.freedom
        whitening, directions = _whitening(within, trace, dimensions, examples.freedom)
    square = _squares(_times(away, whitening))
    drawn, widening = _certainty(square, directions, counts)
    return Gaussian(centre, drawn[:, None] * away, whitening, widening, directions)


def within_trace(examples: LabelledRows) -> float:
    """Return the mean squared distance of rows from their class mean; 0 where it is not known."""
    whole = float(examples.weights @ _squares(examples.rows))
    between = float(examples.counts @ _squares(examples.class_means))
    inside = whole - between
    return inside / examples.freedom if examples.freedom and inside > NOTHING * whole else 0.0


def one_shot_trace(examples: LabelledRows) -> float:
    """Return half of the total variance, as which that inside classes is then taken."""
    away = examples.rows - examples.rows.mean(axis=0)
    return float(_squares(away).sum()) / (2 * max(len(away) - 1, 1)) or 1.0


def _whitening(within: Array, trace: float, dimensions: int, freedom: float) -> tuple[Array, float]:
    """Return C'⁻¹ for the shrunk covariance C C', and tr(Σ⁻¹ within)."""
    shrinkage = _oas(within, trace, dimensions, freedom)
    sphere = max(shrinkage * trace / dimensions, 1e-10 * trace / len(within))
    covariance = (1 - shrinkage) * within
    covariance[np.diag_indices(len(within))] += sphere
    inverse = dtrtri(dpotrf(covariance, lower=1, clean=1)[0], lower=1)[0]
    if shrinkage < 1:
        outside = sphere * float(np.square(inverse).sum())
        return inverse.T, (len(within) - outside) / (1 - shrinkage)
    return inverse.T, trace / sphere


def _oas(covariance: Array, trace: float, dimensions: int, freedom: float) -> float:
    """Return the share of the sphere."""
    squares, d = float(np.square(covariance).sum()), dimensions
    against = (freedom + 1 - 2 / d) * (squares - trace**2 / d)
    return 1.0 if against <= 0 else min(1.0, ((1 - 2 / d) * squares + trace**2) / against)


def _certainty(square: Array, directions: float, counts: Array) -> tuple[Array, Array]:
    """Return how much of each mean stands, and the widening of its class, (K,) each."""
    n = len(counts)
    between = float((square - directions / counts).mean()) * n / max(n - 1, 1)
    between = max(between, 1e-6 * float(square.mean()), 1e-12)
    ratio = directions / between
    return counts / (counts + ratio), 1 + 1 / (counts + ratio)


def _times(rows: Array, whitening: Array | float, *, back: bool = False) -> Array:
    if isinstance(whitening, float):
        return np.asarray(rows * whitening)
    return np.asarray(rows @ (whitening.T if back else whitening))


def _squares(rows: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))
