"""The multinomial logistic fit of a calibrated support set: preconditioned L-BFGS.

Here N ≫ d, so that rows are never rotated and every product with them counts. The Hessian is nearly
known before the rows are drawn (:mod:`firthshot.calibration._metric`). With its inverse as H₀,
L-BFGS needs about ten products where plain L-BFGS needs a hundred. Logits move along a line, so
that line searches cost no product. Coefficients are solved from the most to the least regularising,
each from the optimum of the one before and with its pairs of steps and gradient changes. Products
are float32; values and slopes are added up in float64.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from firthshot.arrays import Array
from firthshot.calibration._kernels.passes import (
    curvatures,
    inner,
    logits,
    pull_back,
    step_along,
    whole_step,
)
from firthshot.calibration._metric import Metrics
from firthshot.calibration._task import F32, CalibrationObjective, CalibrationRows, CalibrationTerms
from firthshot.engine import Status
from firthshot.engine.solvers.line_search import DECREASE, secant_step

# Pairs of L-BFGS. On top of the metric few are needed; twice as many save no step.
MEMORY = 8
# Steps of a line search; nearly all take the first.
MOST_STEPS = 12
# Wolfe's curvature condition: the share of the slope that a line search may leave. It is loose for
# steps, and tight for the length of a start from another coefficient, on which all others build.
_FLAT, _FLAT_START = 0.6, 0.1
# A step that is too short is followed by one _LONGER times as long; the length of a start is first
# changed by _FIRST_START.
_LONGER, _FIRST_START = 2.5, 0.1
# H₀ is scaled so that it is right along the last step, s'y / y'H₀y, by at most this factor.
_TRUSTED = 4.0

Pairs = deque[tuple[Array, Array, float]]  # step s, change y of the gradient, s'y


@dataclass(frozen=True)
class CalibrationOptimum:
    """Parameters (C, width) of one coefficient, iterations, largest gradient entry, status."""

    theta: Array
    iterations: int
    gradient: float
    status: Status


def solve_path(
    rows: CalibrationRows,
    n_classes: int,
    path: list[CalibrationTerms],
    tolerance: float,
    max_iterations: int,
) -> list[CalibrationOptimum]:
    """Return the optimum of every coefficient.

    ``tolerance`` is for the largest entry of the gradient by W and b, of features that are not
    centred.
    """
    theta = np.zeros((n_classes, rows.x.shape[1]), F32)
    found: dict[int, CalibrationOptimum] = {}
    metrics, pairs = Metrics(rows), Pairs(maxlen=MEMORY)
    for l in sorted(range(len(path)), key=lambda l: -path[l].strength):
        descent = _Lbfgs(CalibrationObjective(rows, n_classes, path[l]), metrics, pairs)
        found[l] = descent.run(theta, tolerance, max_iterations)
        theta = found[l].theta
        if found[l].status != Status.OK:  # what did not end well is no start for the next
            theta, pairs = np.zeros_like(theta), Pairs(maxlen=MEMORY)
    return [found[l] for l in range(len(path))]


class _Lbfgs:
    """One coefficient in progress, at logits ``z`` with ``gradient``; ``pairs`` are kept on."""

    def __init__(self, objective: CalibrationObjective, metrics: Metrics, pairs: Pairs) -> None:
        self.objective, self.metrics, self.pairs = objective, metrics, pairs
        self.rows, self.decay = objective.rows, objective.decay
        self.z, self.step_z = np.empty_like(objective.state.z), np.empty_like(objective.state.z)
        self.gradient = np.empty((len(self.z), self.rows.x.shape[1]), F32)

    def run(self, start: Array, tolerance: float, max_iterations: int) -> CalibrationOptimum:
        """Descend from ``start`` until the gradient is within the tolerance."""
        theta, status = start.copy(), Status.NOT_CONVERGED
        logits(self.rows.x, theta, self.objective.state.z)
        value = self.objective.value(theta)
        self._accept()
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
            change = self.gradient - before
            if (curvature := dot(moved, change)) > 0.0:
                self.pairs.append((moved, change, curvature))
        return CalibrationOptimum(theta, iteration, float(largest), status)

    def _accept(self) -> None:
        """Make the logits of the state those of the present place."""
        state = self.objective.state
        self.objective.state, self.z = state._replace(z=self.z), state.z

    def _advance(self, theta: Array, direction: Array, value: float) -> tuple[float, float]:
        """Go a whole step, which nearly always suits and reads the rows once; else search.

        Returns step and value; ``z`` and the gradient are those of the place reached.
        """
        slope = dot(self.gradient, direction)
        if not slope < 0.0:
            return 0.0, value
        there, objective = theta + direction, self.objective
        loss, loss_slope = whole_step(
            objective.loss,
            self.rows.x,
            direction,
            self.z,
            self.step_z,
            objective.state,
            self.gradient,
        )
        new = loss + objective.l2(there)
        here = loss_slope + dot(self.decay * there, direction)
        if new <= value + DECREASE * slope + _slack(value) and abs(here) <= _FLAT * abs(slope):
            self._accept()
            self.gradient += self.decay * there
            return 1.0, new
        step, value = self._search(theta, direction, value, slope)
        self._update_gradient(theta + F32(step) * direction)
        return step, value

    def _rescale(self, theta: Array, value: float) -> float:
        """Bring the optimum of another coefficient to the length that suits this one."""
        slope = inner(self.objective.state.gradient, self.z) + dot(self.decay * theta, theta)
        sign = -1.0 if slope > 0.0 else 1.0
        np.multiply(self.z, F32(sign), out=self.step_z)
        step, value = self._search(
            theta, F32(sign) * theta, value, -abs(slope), first=_FIRST_START, flat=_FLAT_START
        )
        theta *= F32(1.0 + sign * step)
        return value

    def _update_gradient(self, theta: Array) -> None:
        pull_back(self.rows.x, self.objective.state.gradient, self.gradient)
        self.gradient += self.decay * theta

    def _largest_entry(self) -> float:
        """Return the largest entry of the gradient by parameters of features not centred."""
        d = self.rows.d
        by_intercept = self.gradient[:, d]
        by_coef = self.gradient[:, :d] + np.multiply.outer(by_intercept, self.rows.centre)
        return float(max(np.abs(by_coef).max(), np.abs(by_intercept).max()))

    def _direction(self) -> Array:
        """Return −H g, H the inverse Hessian that L-BFGS knows on top of the metric."""
        p, terms = self.objective.state.p, self.objective.terms
        by_class = np.empty((len(p), len(p), len(p)))
        curvatures(p, self.rows.labels, by_class)
        by_class *= terms.probability / self.rows.count

        def apply_metric(direction: Array) -> Array:
            if not self.pairs:
                return self.metrics.inverse(by_class, terms.decay, direction)
            _, y, curvature = self.pairs[-1]
            both = self.metrics.inverse(by_class, terms.decay, np.stack([direction, y]))
            scale = min(_TRUSTED, max(1 / _TRUSTED, curvature / dot(y, both[1])))
            return np.asarray(F32(scale) * both[0])

        return two_loop_recursion(self.pairs, self.gradient, apply_metric)

    def _search(
        self, theta: Array, direction: Array, value: float, slope: float, *,
        first: float = 1.0, flat: float = _FLAT,
    ) -> tuple[float, float]:  # fmt: skip
        """Find a step that lowers the value and flattens the slope; move ``z`` there.

        Returns step and value, a step of zero where the value can no longer be lowered in float32.
        """
        low, high, slope_low, slope_high, step = 0.0, np.inf, slope, 0.0, first
        objective = self.objective
        for _ in range(MOST_STEPS if slope < 0.0 else 0):
            step_along(self.z, self.step_z, F32(step), objective.state.z)
            there = theta + F32(step) * direction
            new = objective.value(there)
            here = inner(objective.state.gradient, self.step_z) + dot(self.decay * there, direction)
            lower = new <= value + DECREASE * step * slope + _slack(value)
            if lower and abs(here) <= flat * abs(slope):
                self._accept()
                return step, new
            if lower and here < 0.0:
                low, slope_low = step, here
            else:
                high, slope_high = step, here
            bracketed = np.isfinite(high)
            step = secant_step(low, high, slope_low, slope_high) if bracketed else _LONGER * low
        objective.state.z[:] = self.z
        objective.value(theta)
        return 0.0, value


def two_loop_recursion(pairs: Pairs, gradient: Array, initial: Callable[[Array], Array]) -> Array:
    """Return −H g of L-BFGS (Nocedal & Wright, algorithm 7.4); ``initial`` applies H₀."""
    direction, alphas = -gradient, []
    for s, y, curvature in reversed(pairs):
        alphas.append(dot(s, direction) / curvature)
        direction -= gradient.dtype.type(alphas[-1]) * y
    direction = initial(direction)
    for (s, y, curvature), alpha in zip(pairs, reversed(alphas), strict=True):
        direction += gradient.dtype.type(alpha - dot(y, direction) / curvature) * s
    return direction


def _slack(value: float) -> float:
    """Return by how much two equal values may differ in float32: some ten units of rounding."""
    return 1e-6 * abs(value) + 1e-9


def dot(left: Array, right: Array) -> float:
    """Return Σ left · right."""
    return float(np.vdot(left, right))
