"""Small fits of the linear objective without a compiled kernel: NumPy all the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array
from firthshot.engine import (
    Metric,
    Optima,
    Problems,
    has_recession_direction,
    independent_span,
    minimise_together,
    shared_rows,
)
from firthshot.estimators._support import Support
from firthshot.machine import one_thread

SINGLE = 1e-6  # the least norm of a gradient for which float32 is good enough
MOST_LOGITS = 16_384  # of all problems of a batch: what a step touches stays in the cache
# A metric is for this many times the L2 of the problem that it is made for, and serves others whose
# L2 is between these shares of it: rows left out make L2 count up to twice as much, and above
# twice the metric's, coordinates of rows that depend on each other grow without bound.
AHEAD, NEAR = 4.0, (0.05, 1.4)
# The least L2 that a metric is made for, beside rows of mean square 1. 1e-12 saves steps where
# columns differ in scale by thousands, and takes more where rows nearly depend on each other.
LEAST = 1e-9


@dataclass(frozen=True)
class Variant:
    """One problem on the rows of a support set."""

    lam: float
    l2: float
    weights: Array | None = None  # of the rows, instead of the support set's; 0 leaves one out
    start: Optimum | None = None  # of another variant


@dataclass(frozen=True)
class Optimum:
    """Where NumPy got to with a variant."""

    point: Array  # of the solver
    logits: Array  # (N, K), of all rows
    converged: bool
    iterations: int


def ridge_rows(n_classes: int) -> float:
    """Return the factor that l2 takes on K rows of weights.

    The one row w of two classes is the difference of two opposite halves: ½ ‖w‖² = ‖W‖².
    """
    return 2.0 if n_classes == 2 else 1.0


def small_fits(support: Support, intercept: bool, tol: float, ridge: bool = True) -> SmallFits:
    """Return what fits heads to a support set, in the precision that its size and tol ask for.

    Without a ridge every direction of the rows matters, whatever its scale: float64 knows more.
    """
    how = intercept, support.in_single and tol >= SINGLE and ridge, ridge
    if how not in support.prepared:
        support.prepared[how] = SmallFits(support, *how)
    found: SmallFits = support.prepared[how]
    return found


class SmallFits:
    """Fits by NumPy to the rows of a support set, which the solver sees as (X − centre) / unit.

    Without a ridge it sees them in the basis of their span that the compiled solvers take, where an
    intercept is a weight like the others: the norm that is least counts it.
    """

    def __init__(self, support: Support, intercept: bool, single: bool, ridge: bool) -> None:
        X, moments = support.dense[0], support.moments
        self._support, self._kind = support, np.float32 if single else np.float64
        self._unit = float(np.sqrt(moments.spread if intercept else moments.square))
        self._centre = None
        if intercept:
            X, self._centre = support.centred if ridge else support.near
        X, shares = X / np.float64(self._unit), support.weights / support.weights.sum()
        self._span = None if ridge else independent_span(X, shares, intercept)
        X = X if self._span is None else self._span.features
        self._rows = shared_rows(
            X.astype(self._kind, copy=False), support.labels, intercept and ridge,
            support.n_classes, shares, self._gram if single == support.in_single else None,
            l2=ridge,
        )  # fmt: skip
        self._metrics: list[Metric] = []

    def _gram(self) -> Array:
        support = self._support
        gram = support.gram_of_lengths if self._centre is None else support.gram
        return gram / self._unit**2

    def solve(self, variants: list[Variant], tol: float, max_iter: int) -> list[Optimum]:
        """Return the optima of variants: at once those that share a metric, if memory allows."""
        support = self._support
        own = [support.weights if one.weights is None else one.weights for one in variants]
        weights = np.array(own) / support.weights.sum()
        lam, l2 = np.array([(one.lam, one.l2) for one in variants]).T
        totals = weights.sum(axis=1) * support.weights.sum()
        decay = ridge_rows(support.n_classes) * l2 / (self._unit**2 * (1 + lam) * totals)
        groups: dict[Metric, list[int]] = {}
        for number, one in enumerate(decay.tolist()):
            groups.setdefault(self._metric(one), []).append(number)
        at_once = max(1, MOST_LOGITS // (support.n_classes * len(support.labels)))
        found: dict[int, Optimum] = {}
        with one_thread:
            for metric, numbers in groups.items():
                for first in range(0, len(numbers), at_once):
                    part = numbers[first : first + at_once]
                    problems = self._problems(weights[part], lam[part], decay[part])
                    start = self._start([variants[number].start for number in part])
                    done = minimise_together(self._rows, metric, problems, start, tol, max_iter)
                    self._metrics[self._metrics.index(metric)] = metric = done.metric
                    found |= dict(zip(part, _each(done, tol), strict=True))
        return [found[number] for number in range(len(variants))]

    def weights(self, points: Array) -> tuple[Array, Array]:
        """Return coef (B, K, d) and intercept (B, K) in float64 for rows as they are."""
        coef, intercept = self._rows.weights(points)
        if self._span is not None:
            W, b = self._span.weights(coef.reshape(-1, coef.shape[2]))
            coef, intercept = W.reshape(*coef.shape[:2], -1), b.reshape(intercept.shape)
        coef = coef / np.float64(self._unit)
        return coef, intercept if self._centre is None else intercept - coef @ self._centre

    def falls_for_ever(self, lam: float, optimum: Optimum) -> bool:
        """Return whether there is no optimum, because nothing holds separated classes back."""
        if self._span is None:
            return False
        supported = (self._support.one_hot() + lam * self._support.prior).T > 0
        return has_recession_direction(self._span, supported, np.zeros(1), 0.0, optimum.logits.T)

    def _metric(self, l2: float) -> Metric:
        l2 = max(l2, LEAST)
        for metric in self._metrics:
            if NEAR[0] <= l2 / metric.l2 <= NEAR[1]:
                return metric
        self._metrics.append(self._rows.metric(AHEAD * l2))
        return self._metrics[-1]

    def _problems(self, weights: Array, lam: Array, decay: Array) -> Problems:
        """Return the problems of a batch; their targets are w (y + λ u) / (1 + λ)."""
        weights = (weights / weights.sum(axis=1, keepdims=True))[:, None]
        labels = self._support.labels
        targets = np.outer(lam / (1 + lam), self._support.prior)[:, :, None]
        targets = targets.repeat(len(labels), axis=2)
        targets[:, labels, np.arange(len(labels))] += (1 / (1 + lam))[:, None]
        parts = weights, weights * targets, decay[:, None]
        return Problems(*(part.astype(self._kind, copy=False) for part in parts))

    def _start(self, starts: list[Optimum | None]) -> Array:
        """Return points to start from: of other variants, or zero."""
        points = np.zeros((len(starts), self._rows.size), self._kind)
        for own, start in zip(points, starts, strict=True):
            if start is not None:
                own[:] = start.point
        return points


def _each(found: Optima, tol: float) -> list[Optimum]:
    rest = found.logits.swapaxes(1, 2), (found.norm <= tol).tolist(), found.iterations.tolist()
    return [Optimum(*parts) for parts in zip(found.points, *rest, strict=True)]
