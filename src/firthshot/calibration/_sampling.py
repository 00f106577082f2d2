"""From a support set and base statistics to training rows: calibrate every row, draw around it.

For a support row x (already transformed), with the k base classes whose means are nearest,

    mean = (Σ_b m_b + x) / (k + 1)            covariance = Σ_b C_b / k + α 11'

α 11' is a shift √α ξ that all features of a draw share, ξ standard normal. The rest is drawn
through a Cholesky factor, the same for all rows with the same neighbours, and kept for them.

A covariance may be singular (fewer rows than features, constant features) and comes rounded to
float32, which can make it indefinite. 2⁻²³ of its Frobenius norm is therefore added to the
diagonal, which bounds both roundings: directions without variance get a standard deviation of
some 10⁻³ of the others', and no covariance is refused.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf

from firthshot.arrays import Array, round_up
from firthshot.calibration._kernels.normals import fill_normal
from firthshot.calibration._kernels.passes import finish_rows
from firthshot.calibration._statistics import BaseStatistics
from firthshot.calibration._task import F32, CalibrationRows
from firthshot.errors import FirthshotError
from firthshot.kernels.streams import NOISE

_COLUMNS = 128  # of a triangular factor multiplied at once: what lies above them is not
FACTOR_BYTES = 1e9  # Cholesky factors kept, all statistics together


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


@dataclass(frozen=True)
class Stream:
    """Where the draws of a trial come from (:mod:`firthshot.kernels.streams`)."""

    key: int
    trial: int

    def normals(self, substream: int, shape: tuple[int, ...]) -> Array:
        """Return standard normals; each place has its own, whatever the shape."""
        out = np.empty(shape, F32)
        fill_normal(np.uint64(self.key), substream, self.trial, NOISE, out.reshape(-1))
        return out


@dataclass(frozen=True)
class Calibrated:
    """Calibrated distributions of N support rows: means (N, d), neighbours (N, k), draws (N,)."""

    means: Array
    neighbours: Array
    draws: Array


def calibrate(
    support: Array, labels: Array, statistics: BaseStatistics, *, artificial: int, neighbours: int
) -> Calibrated:
    """Return the calibrated distribution of every support row and how often it is drawn from.

    ``artificial`` draws per class are shared evenly over its rows; what does not divide is dropped,
    as published.
    """
    check_fit(support.shape[1], statistics, neighbours)
    base = statistics.means.astype(np.float64)
    wide = support.astype(np.float64)
    distances = (base**2).sum(1) - 2 * wide @ base.T
    nearest = np.sort(np.argsort(distances, axis=1, kind="stable")[:, :neighbours], axis=1)
    means = (base[nearest].sum(axis=1) + wide) / (neighbours + 1)
    return Calibrated(means, nearest, artificial // np.bincount(labels)[labels])


def check_fit(d: int, statistics: BaseStatistics, neighbours: int) -> None:
    """Refuse statistics of another number of features, or of too few classes."""
    if statistics.d != d:
        raise FirthshotError(
            f"The base statistics of {statistics.source!r} have {statistics.d} features and the "
            f"support rows {d}: source and target must come from the same backbone."
        )
    if not 1 <= neighbours <= len(statistics):
        raise FirthshotError(
            f"neighbours = {neighbours} must lie between 1 and the {len(statistics)} base classes "
            f"of {statistics.source!r}."
        )


class FactorCache:
    """Cholesky factors of averaged covariances, the least recently used go first."""

    def __init__(self, budget: float = FACTOR_BYTES) -> None:
        self.budget = budget
        self._kept: OrderedDict[tuple[int, tuple[int, ...]], tuple[BaseStatistics, Array]]
        self._kept = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, statistics: BaseStatistics, classes: tuple[int, ...]) -> Array:
        """Return L (d, d) with LL' = mean of the covariances of some base classes."""
        key = id(statistics), classes  # the statistics are kept with the factor: the id is theirs
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][1]
        factor = factorise(statistics.covariances[list(classes)])
        with self._lock:
            if key not in self._kept:
                self._kept[key] = statistics, factor
                self._bytes += factor.nbytes
            while self._bytes > self.budget and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1][1].nbytes
        return factor

    def clear(self) -> None:
        """Forget all factors."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0


FACTORS = FactorCache()


def factorise(covariances: Array) -> Array:
    """Return the Cholesky factor, float32, of the mean of covariances (k, d, d)."""
    mean = covariances.mean(axis=0, dtype=np.float64)
    size = np.linalg.norm(mean)
    if size == 0:
        return np.zeros(mean.shape, F32)
    np.einsum("ii->i", mean)[:] += 2.0**-23 * size
    # In LAPACK's order of entries the matrix is its transpose, and so is the factor.
    factor, failed = dpotrf(mean.T, lower=0, overwrite_a=1)
    if failed:
        raise FirthshotError("A base covariance is indefinite: it is no covariance of rows.")
    return np.asarray(factor.T, F32)


def draw(support: Array, labels: Array, statistics: BaseStatistics, stream: Stream, *,
         artificial: int = 750, neighbours: int = 2, alpha: float = 0.21,
         centre: bool = True) -> CalibrationRows:  # fmt: skip
    """Return the training rows of a task: draws around every support row, then the support.

    The support (N, d) is transformed, its labels (N,) count from 0 without gaps. Row s is drawn
    from substreams 2s (features) and 2s + 1 (the shared shift) of ``stream``: the draws depend on
    the trial alone, not on coefficients, threads or other trials. ``centre`` subtracts the mean of
    the rows, for the solver's sake; the intercept takes it up.
    """
    n, d = support.shape
    made = calibrate(support, labels, statistics, artificial=artificial, neighbours=neighbours)
    total = int(made.draws.sum()) + n
    middle = (made.draws @ made.means + support.sum(0, dtype=np.float64)) / total
    if not centre:
        middle[:] = 0.0
    x = np.empty((round_up(total, 16), round_up(d + 1, 16)), F32)
    at = 0
    for s in range(n):
        count = int(made.draws[s])
        if not count:
            continue
        block, noise = x[at : at + count], stream.normals(2 * s, (count, d))
        factor = FACTORS.get(statistics, tuple(made.neighbours[s].tolist()))
        shift = F32(np.sqrt(alpha)) * stream.normals(2 * s + 1, (count,))
        times_triangle(noise, factor, block)
        finish_rows(block, (made.means[s] - middle).astype(F32), shift)
        at += count
    x[at:total, :d] = support - middle
    finish_rows(x[at:total], np.zeros(d, F32), np.zeros(n, F32))
    x[total:] = 0.0
    moments = expected_moments(made, support, middle, statistics, alpha, total, x.shape[1])
    means = expected_class_means(made, support, labels, middle, x.shape[1])
    drawn = np.append(np.repeat(labels, made.draws), labels)
    return CalibrationRows(x, drawn, total, middle, moments, means)


def times_triangle(noise: Array, factor: Array, out: Array) -> None:
    """Write noise @ factor' to the first d columns of ``out``; factor is lower triangular."""
    for start in range(0, len(factor), _COLUMNS):
        end = min(len(factor), start + _COLUMNS)
        np.matmul(noise[:, :end], factor[start:end, :end].T, out=out[:, start:end])


def expected_moments(
    made: Calibrated, support: Array, middle: Array, statistics: BaseStatistics, alpha: float,
    total: int, width: int,
) -> Array:  # fmt: skip
    """Return the expected second moments of the rows about ``middle``, (width, width)."""
    d, k = support.shape[1], made.neighbours.shape[1]
    weights = np.zeros(len(statistics))
    np.add.at(weights, made.neighbours, (made.draws / (k * total))[:, None])
    used = np.flatnonzero(weights)
    moments = np.eye(width, dtype=F32)
    inner = np.full((d, d), alpha * made.draws.sum() / total, F32)
    for b in used:
        inner += F32(weights[b]) * statistics.covariances[b]
    spread = (made.means - middle) * np.sqrt(made.draws / total)[:, None]
    rows = np.vstack([spread, (support - middle) / np.sqrt(total)]).astype(F32)
    moments[:d, :d] = inner + rows.T @ rows
    return moments


def expected_class_means(
    made: Calibrated, support: Array, labels: Array, middle: Array, width: int
) -> Array:
    """Return the expected mean row of every class about ``middle``, (C, width)."""
    d, counts = support.shape[1], np.bincount(labels, made.draws + 1)
    sums = np.zeros((len(counts), d))
    np.add.at(sums, labels, made.draws[:, None] * (made.means - middle) + (support - middle))
    means = np.zeros((len(counts), width), F32)
    means[:, :d] = sums / counts[:, None]
    means[:, d] = 1.0
    return means
