"""The Gaussian head: classes with means of their own and one covariance, shrunk.

Class means are themselves drawn from a Gaussian around the mean of all classes, so that a mean of
few rows is drawn to it and its uncertainty widens the class (the two-covariance model of speaker
recognition). With n rows of a class and κ = within / between,

    x | class  ~  N(μ + n/(n + κ) (m − μ),  (1 + 1/(n + κ)) Σ).

Without that, classes of few rows are at a disadvantage: the noise of their means puts them farther
away. The within-class covariance is a mixture of the pooled one and a sphere of the same trace, in
the share of Chen et al. (2010, "oracle approximating shrinkage"). Arrays have axes for the kinds of
columns and for the sets of rows in front, written (…).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri, spotrf, strtri

from firthshot.arrays import Array
from firthshot.estimators._few_shot.sets import Sets

# A within-class share of all scatter that rounding alone may leave, and the least sphere as a share
# of the pooled covariance, by the type of the rows.
NOTHING = {"d": 1e-12, "f": 1e-6}
LEAST_SPHERE = {"d": 1e-10, "f": 1e-4}
USUAL_DIRECTIONS, PAIRS = 40.0, 4.0  # of classes, before any are seen; the pairs that it counts for


@dataclass(frozen=True)
class Gaussian:
    """Fitted Gaussian heads.

    Attributes
    ----------
    centre : (…, 1, r); away : (…, K, r), the means of the classes beyond it
    whitening : (…, r, r), or (…, 1, 1) of a sphere: rows times it have unit variance in classes
    widening : (…, 1, K), factor on the covariance of each class
    directions : (…, 1, 1), effective number of dimensions, on which the widening acts
    """

    centre: Array
    away: Array
    whitening: Array
    widening: Array
    directions: Array

    def logits(self, rows: Array) -> Array:
        """Return log densities (…, n, K) of rows (…, n, r), up to a number for each row."""
        rows, means = rows - self.centre, _times(self.away, self.whitening)
        distance = _squares(means)[..., None, :]
        if (np.ptp(self.widening, axis=-1) > 0).any():
            white = _times(rows, self.whitening)
            distance = distance - 2 * white @ means.mT + _squares(white)[..., None]
        else:  # the square of the row is the same for all classes
            distance = distance - 2 * rows @ _times(means, self.whitening.mT).mT
        toll = self.directions * np.log(self.widening)
        return np.asarray(-0.5 * (distance / self.widening + toll))


@dataclass(frozen=True)
class Spread:
    """Where the classes of rows (S, N, r) lie in every set, and how far rows are from them.

    Attributes
    ----------
    means : (S, B, K, r); trace : (S, B), mean squared distance of rows from their class mean
    """

    rows: Array
    sets: Sets
    means: Array
    trace: Array


def spread_of(rows: Array, sets: Sets) -> Spread:
    """Return means and traces; a trace that no row shows is half of the classes' own variance."""
    means = sets.averaging @ rows[:, None]
    whole = _squares(rows) @ sets.weights.T
    inside = whole - (sets.counts * _squares(means)).sum(axis=2)
    apart = _squares(means - means.mean(axis=2, keepdims=True)).sum(axis=2)
    guess = np.where(apart > 0, apart / (2 * max(sets.n_classes - 1, 1)), 1.0)
    known = (sets.freedom > 0) & (inside > NOTHING[rows.dtype.char] * whole)
    return Spread(rows, sets, means, np.where(known, inside / np.maximum(sets.freedom, 1), guess))


def class_directions(spread: Spread) -> Array:
    """Return in how many independent directions the class means lie, (S,).

    Means in random directions of D dimensions have squared cosines of 1 / D on average. K means
    around their own centre show that in (K - 1) (K - 2) / 2 pairs.
    """
    means, K = spread.means[:, 0], spread.sets.n_classes
    away = means - means.mean(axis=1, keepdims=True)
    products = away @ away.mT
    squares = np.square(products).sum(axis=(1, 2))
    trace = np.trace(products, axis1=1, axis2=2)
    beyond = np.maximum((K - 1) * squares - trace**2, 0.0) / np.where(squares > 0, trace**2, 1.0)
    pairs = (K - 1) * (K - 2) / 2
    cosines = pairs * beyond / (K - 1) + PAIRS / USUAL_DIRECTIONS
    return np.asarray((pairs + PAIRS) / cosines)


def fit_means(spread: Spread, dimensions: int) -> Gaussian:
    """Fit the head whose covariance is a sphere."""
    whitening = np.sqrt(dimensions / spread.trace)[..., None, None]
    return _gaussian(spread, whitening, np.full_like(spread.trace, dimensions))


def fit_gaussian(spread: Spread, scatter: Array, dimensions: int) -> Gaussian:
    """Fit the head.

    Parameters
    ----------
    scatter : (S, B, r, r), Σ w x x' of the rows of every set
    dimensions : of the space in which the rows' coordinates were found
    """
    counts, freedom = spread.sets.counts, spread.sets.freedom
    within = scatter - (spread.means.mT * counts[:, None]) @ spread.means
    within /= np.maximum(freedom, 1)[:, None, None]
    shrinkage = _oas(within, spread.trace, dimensions, freedom)
    r, kind = within.shape[-1], within.dtype.char
    least = LEAST_SPHERE[kind] / r
    sphere = np.maximum(shrinkage / dimensions, least) * spread.trace
    within *= (1 - shrinkage)[..., None, None]
    within[..., np.arange(r), np.arange(r)] += sphere[..., None]
    whitening = np.empty_like(within)
    factor, invert = (dpotrf, dtrtri) if kind == "d" else (spotrf, strtri)
    for at in np.ndindex(shrinkage.shape):
        root = factor(within[at].T, lower=1, clean=1, overwrite_a=1)[0]
        whitening[at] = invert(root, lower=1, overwrite_c=1)[0].T
    outside = sphere * np.square(whitening).sum(axis=(-2, -1))
    kept = np.where(shrinkage < 1, 1 - shrinkage, 1.0)
    directions = np.where(shrinkage < 1, (r - outside) / kept, spread.trace / sphere)
    return _gaussian(spread, whitening, directions)


def _gaussian(spread: Spread, whitening: Array, directions: Array) -> Gaussian:
    centre = spread.means.mean(axis=2, keepdims=True)
    away = spread.means - centre
    drawn, widening = _certainty(
        _squares(_times(away, whitening)), directions[..., None], spread.sets.counts
    )
    return Gaussian(
        centre,
        drawn[..., None] * away,
        whitening,
        widening[..., None, :],
        directions[..., None, None],
    )


def _oas(covariance: Array, trace: Array, dimensions: int, freedom: Array) -> Array:
    """Return the share of the sphere."""
    squares, d = np.square(covariance).sum(axis=(-2, -1)), dimensions
    against = (freedom + 1 - 2 / d) * (squares - trace**2 / d)
    wanted = (1 - 2 / d) * squares + trace**2
    return np.where(against > wanted, wanted / np.where(against > 0, against, 1.0), 1.0)


def _certainty(square: Array, directions: Array, counts: Array) -> tuple[Array, Array]:
    """Return how much of each mean stands, and the widening of its class, (…, K) each."""
    n = counts.shape[-1]
    between = (square - directions / counts).mean(axis=-1, keepdims=True) * n / max(n - 1, 1)
    least = np.maximum(1e-6 * square.mean(axis=-1, keepdims=True), 1e-12)
    ratio = directions / np.maximum(between, least)
    return counts / (counts + ratio), 1 + 1 / (counts + ratio)


def _times(rows: Array, matrix: Array) -> Array:
    return np.asarray(rows * matrix if matrix.shape[-1] == 1 else rows @ matrix)


def _squares(rows: Array) -> Array:
    return np.asarray(np.vecdot(rows, rows))
