"""The multinomial logistic fit of a calibrated support set: thousands of rows, all coefficients.

The objective of coefficient l is that of the converged linear head,

    mean_i [ −Σ_c T_ic log p_ic ] + ½ decay ‖W‖²,      T_ic = label [c = y_i] + target_c,

but here N ≫ d, so that rows are never rotated and every product with them counts. The Hessian is
nearly known before the rows are drawn (:mod:`firthshot.calibration._metric`): L-BFGS on top of that
needs about ten products where plain L-BFGS needs a hundred. Logits move along a line, so that line
searches cost no product. Coefficients are solved from the most to the least regularising, each from
the optimum of the one before and with what was learnt of the curvature. Products are float32;
values and slopes are added up in float64.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.calibration._kernels.passes import (
    advance,
    curvatures,
    inner,
    logits,
    pull_back,
    step_along,
)
from firthshot.calibration._metric import Metrics
from firthshot.engine.results import Status
from firthshot.kernels.mean_loss import evaluate

Array = npt.NDArray[Any]
F32 = np.float32
MEMORY = 8  # pairs of L-BFGS
MOST_STEPS = 12  # of a line search
_FLAT = 0.6  # share of the slope that a line search may leave
_FLAT_START = 0.1  # where it finds the length of a start, for all that follows


@dataclass(frozen=True)
class Rows:
    """Training rows of one task, as the kernels want them.

    Attributes
    ----------
    x : (n, width) float32: features minus ``centre``, then a column of ones, then zeros; n and
        width are multiples of 16, rows past ``count`` are zero
    labels : (count,)
    count : rows that count
    centre : (d,) what was subtracted
    moments : (width, width) float32, (about) x'x / count; ones on the diagonal past the features
    class_means : (C, width) float32, (about) the mean row of every class
    """

    x: Array
    labels: Array
    count: int
    centre: Array
    moments: Array
    class_means: Array

    @property
    def d(self) -> int:
        """Return the number of features."""
        return len(self.centre)

    def weights(self, theta: Array) -> tuple[Array, Array]:
        """Return coef (C, d) and intercept (C,) for rows that are not centred."""
        coef = theta[:, : self.d].astype(np.float64)
        return coef, theta[:, self.d] - coef @ self.centre


@dataclass(frozen=True)
class Terms:
    """One coefficient: p's factor, what is subtracted for the label and for each class, L2."""

    probability: float
    label: float
    target: Array  # (C,)
    decay: float

    @property
    def pull(self) -> float:
        """Return how strongly the coefficient holds the weights back."""
        return float(self.target.sum() / self.label + self.decay)


@dataclass(frozen=True)
class Optimum:
    """Parameters (C, width) of one coefficient, iterations, largest gradient entry, status."""

    theta: Array
    iterations: int
    gradient: float
    status: Status


def solve_path(
    rows: Rows, n_classes: int, path: list[Terms], tolerance: float, max_iterations: int
) -> list[Optimum]:
    """Return the optimum of every coefficient.

    Parameters
    ----------
    tolerance : float
        Largest entry of the gradient by W and b, of features that are not centred.
    max_iterations : int
        Steps per coefficient.
    """
    theta = np.zeros((n_classes, rows.x.shape[1]), F32)
    found: dict[int, Optimum] = {}
    metrics, pairs = Metrics(rows), _no_pairs()
    for l in sorted(range(len(path)), key=lambda l: -path[l].pull):
        descent = _Descent(rows, n_classes, path[l], metrics, pairs)
        found[l] = descent.run(theta, tolerance, max_iterations)
        theta = found[l].theta
        if found[l].status != Status.OK:  # what did not end well is no start for the next
            theta, pairs = np.zeros_like(theta), _no_pairs()
    return [found[l] for l in range(len(path))]


Pairs = deque[tuple[Array, Array, float]]  # step, change of the gradient, their product


def _no_pairs() -> Pairs:
    return deque(maxlen=MEMORY)


class _Descent:
    """One coefficient in progress; arrays by class along the rows, (C, n) or (C, width)."""

    def __init__(
        self, rows: Rows, n_classes: int, terms: Terms, metrics: Metrics, pairs: Pairs
    ) -> None:
        self.rows, self.terms, self.metrics, self.pairs = rows, terms, metrics, pairs
        n, width = rows.x.shape
        shape = (n_classes, n)
        self.z, self.tried, self.step_z, self.p, self.by_logits = (
            np.empty(shape, F32) for _ in range(5)
        )
        self.top, self.total = np.empty(n, F32), np.empty(n, F32)
        self.row_weights = np.zeros(n, F32)
        self.row_weights[: rows.count] = 1 / rows.count
        self.targets = np.zeros(shape, F32)
        self.targets[:, : rows.count] = terms.target[:, None]
        self.targets[rows.labels, np.arange(rows.count)] += F32(terms.label)
        self.decay = np.zeros(width, F32)
        self.decay[: rows.d] = terms.decay
        self.gradient = np.empty((n_classes, width), F32)

    def run(self, start: Array, tolerance: float, max_iterations: int) -> Optimum:
        """Descend from ``start`` until the gradient is within the tolerance."""
        theta, status = start.copy(), Status.NOT_CONVERGED
        logits(self.rows.x, theta, self.z)
        value = self._evaluate(self.z, theta)
        if theta.any():
            value = self._rescale(theta, value)
        self._update_gradient(theta)
        for iteration in range(max_iterations + 1):
            largest = self._largest_entry()
            if largest <= tolerance or not np.isfinite(largest):
                status = Status.OK if np.isfinite(largest) else Status.DIVERGED
                break
            if iteration == max_iterations:
                break
            direction, before = self._direction(), self.gradient.copy()
            step, value = self._advance(theta, direction, value)
            if step == 0.0:
                break
            moved = F32(step) * direction
            theta += moved
            self._remember(moved, self.gradient - before)
        return Optimum(theta, iteration, float(largest), status)

    def _advance(self, theta: Array, direction: Array, value: float) -> tuple[float, float]:
        """Go a whole step, which nearly always suits and reads the rows once; else search.

        Returns step and value; ``z`` and the gradient are those of the place reached.
        """
        slope = dot(self.gradient, direction)
        if not slope < 0.0:
            return 0.0, value
        there = theta + direction
        loss, tilt = advance(
            self.rows.x, direction, self.z, self.targets, self.rows.count,
            F32(self.terms.probability), self.step_z, self.tried, self.p, self.by_logits,
            self.gradient,
        )  # fmt: skip
        new = loss + 0.5 * float((self.decay * there**2).sum(dtype=np.float64))
        here = tilt + dot(self.decay * there, direction)
        if new <= value + 1e-4 * slope + _slack(value) and abs(here) <= _FLAT * abs(slope):
            self.z, self.tried = self.tried, self.z
            self.gradient += self.decay * there
            return 1.0, new
        step, value = self._search(theta, direction, value, slope)
        self._update_gradient(theta + F32(step) * direction)
        return step, value

    def _rescale(self, theta: Array, value: float) -> float:
        """Bring the optimum of another coefficient to the length that suits this one."""
        slope = inner(self.by_logits, self.z) + dot(self.decay * theta, theta)
        sign = -1.0 if slope > 0.0 else 1.0
        np.multiply(self.z, F32(sign), out=self.step_z)
        step, value = self._search(
            theta, F32(sign) * theta, value, -abs(slope), first=0.1, flat=_FLAT_START
        )
        theta *= F32(1.0 + sign * step)
        return value

    def _update_gradient(self, theta: Array) -> None:
        pull_back(self.rows.x, self.by_logits, self.gradient)
        self.gradient += self.decay * theta

    def _remember(self, moved: Array, turned: Array) -> None:
        curvature = dot(moved, turned)
        if curvature > 0.0:
            self.pairs.append((moved, turned, curvature))

    def _evaluate(self, z: Array, theta: Array) -> float:
        """Return the objective; leave P and dLoss/dZ."""
        loss = evaluate(
            z, self.targets, self.row_weights, F32(self.terms.probability), self.p,
            self.by_logits, self.top, self.total,
        )  # fmt: skip
        return float(loss) + 0.5 * float((self.decay * theta**2).sum(dtype=np.float64))

    def _largest_entry(self) -> float:
        """Return the largest entry of the gradient by parameters of features not centred."""
        d = self.rows.d
        by_intercept = self.gradient[:, d]
        by_coef = self.gradient[:, :d] + np.multiply.outer(by_intercept, self.rows.centre)
        return float(max(np.abs(by_coef).max(), np.abs(by_intercept).max()))

    def _direction(self) -> Array:
        """Return −H g, H the inverse Hessian that L-BFGS knows on top of the metric."""
        direction, shares = -self.gradient, []
        for moved, turned, curvature in reversed(self.pairs):
            shares.append(dot(moved, direction) / curvature)
            direction -= F32(shares[-1]) * turned
        direction = self._in_metric(direction)
        for (moved, turned, curvature), share in zip(self.pairs, reversed(shares), strict=True):
            direction += F32(share - dot(turned, direction) / curvature) * moved
        return direction

    def _in_metric(self, direction: Array) -> Array:
        """Return the inverse metric times a direction, scaled to the last step's curvature."""
        n_classes = len(self.p)
        by_class = np.empty((n_classes, n_classes, n_classes))
        curvatures(self.p, self.rows.labels, by_class)
        by_class *= self.terms.probability / self.rows.count
        if not self.pairs:
            return self.metrics.inverse(by_class, self.terms.decay, direction)
        _, turned, curvature = self.pairs[-1]
        both = np.stack([direction, turned])
        both = self.metrics.inverse(by_class, self.terms.decay, both)
        scale = curvature / dot(turned, both[1])
        return np.asarray(F32(min(4.0, max(0.25, scale))) * both[0])

    def _search(
        self, theta: Array, direction: Array, value: float, slope: float, *,
        first: float = 1.0, flat: float = _FLAT,
    ) -> tuple[float, float]:  # fmt: skip
        """Find a step that lowers the value and flattens the slope; move ``z`` there.

        Returns step and value, a step of zero where the value can no longer be lowered in float32.
        """
        low, high, slope_low, slope_high, step = 0.0, np.inf, slope, 0.0, first
        slack = _slack(value)
        for _ in range(MOST_STEPS if slope < 0.0 else 0):
            step_along(self.z, self.step_z, F32(step), self.tried)
            there = theta + F32(step) * direction
            new = self._evaluate(self.tried, there)
            here = inner(self.by_logits, self.step_z) + dot(self.decay * there, direction)
            lower = new <= value + 1e-4 * step * slope + slack
            if lower and abs(here) <= flat * abs(slope):
                self.z, self.tried = self.tried, self.z
                return step, new
            if lower and here < 0.0:
                low, slope_low = step, here
            else:
                high, slope_high = step, here
            step = _between(low, high, slope_low, slope_high)
        self._evaluate(self.z, theta)
        return 0.0, value


def _slack(value: float) -> float:
    """Return by how much two equal values may differ in float32."""
    return 1e-6 * abs(value) + 1e-9


def _between(low: float, high: float, slope_low: float, slope_high: float) -> float:
    """Return the next step to try: farther out, or between two by the secant of the slopes."""
    if not np.isfinite(high):
        return 2.5 * low
    share = 0.5
    if slope_high > 0.0:
        share = min(0.9, max(0.1, -slope_low / (slope_high - slope_low)))
    return low + share * (high - low)


def dot(left: Array, right: Array) -> float:
    """Return Σ left · right."""
    return float(np.vdot(left, right))
