"""The linear head's problem for the converged solver, and its solution.

The objective of coefficient l is, with the weighted mean over samples (weights that sum to one),

    mean_i [ −Σ_c T_ic log p_ic + confidence KL(p_i‖U) ] + ½ weight_decay ‖W‖² + ½ bias_decay ‖b‖²

with T_ic = label y_ic + target_c: cross-entropy plus λ CE(u‖p) for Firth with prior u, smoothed
labels for label smoothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._span import Bias
from firthshot.engine.results import Status
from firthshot.errors import FirthshotError
from firthshot.objective import PenaltyTables

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Solution:
    """Optima of one problem for every coefficient.

    Attributes
    ----------
    coef : (L, K, d), intercept : (L, K)
    iterations : (L,) Newton steps taken
    gradient_norm : (L,) largest absolute entry of the gradient by coef and intercept, as returned
    objective : (L,) value, see the module
    status : (L,) codes of :class:`Status`: OK, NOT_CONVERGED, NO_OPTIMUM or DIVERGED
    """

    coef: Array
    intercept: Array
    iterations: Array
    gradient_norm: Array
    objective: Array
    status: Array

    @property
    def converged(self) -> Array:
        """Return for every coefficient whether the gradient is within the tolerance, (L,)."""
        return np.asarray(self.status == Status.OK)


@dataclass(frozen=True)
class Problem:
    """Rows of positive weight with their target distributions; the weights sum to one."""

    X: Array  # (N, d)
    Y: Array  # (K, N)
    weights: Array  # (N,)
    form: PenaltyTables  # with the L2 factor of weights on X / unit
    fit_intercept: bool
    unit: float

    def targets(self, l: int) -> Array:
        """Return T of coefficient l, (K, N)."""
        targets: Array = self.form.label[l] * self.Y + self.form.target[:, l, None]
        return targets

    def bias_of(self, l: int) -> Bias:
        """Return how the intercept of coefficient l enters the rotation."""
        weight_decay, bias_decay = self.form.weight_decay[l], self.form.bias_decay[l]
        if not self.fit_intercept:
            return "none"
        if weight_decay == bias_decay:
            return "joint"
        if bias_decay == 0:
            return "free"
        raise FirthshotError(
            f"bias_decay = {bias_decay} must be 0 or equal weight_decay = {weight_decay}."
        )

    def empty(self) -> Solution:
        """Return room for the optima, weights at zero."""
        n_classes, n_coefficients = self.form.target.shape
        return Solution(
            np.zeros((n_coefficients, n_classes, self.X.shape[1])),
            np.zeros((n_coefficients, n_classes)),
            np.zeros(n_coefficients, np.int64),
            np.zeros(n_coefficients),
            np.zeros(n_coefficients),
            np.full(n_coefficients, Status.OK, np.int8),
        )

    def largest_entry(self, l: int, g: Array, found: Solution) -> float:
        """Return the largest entry of the gradient by W and b, given that by logits g (K, N)."""
        by_coef = g @ self.X
        by_coef += self.form.weight_decay[l] * self.unit**2 * found.coef[l]
        largest = max(by_coef.max(), -by_coef.min()) / self.unit
        if self.fit_intercept:
            by_intercept = g.sum(1) + self.form.bias_decay[l] * found.intercept[l]
            largest = max(largest, np.abs(by_intercept).max())
        return float(largest)


def pose(
    X: Array,
    targets: Array,
    form: PenaltyTables,
    sample_weight: Array | None,
    fit_intercept: bool,
    unit: float,
) -> Problem:
    """Spread labels out, drop rows without weight and scale the weights to sum one."""
    X, targets = np.asarray(X, np.float64), np.asarray(targets)
    weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    total, least = float(weights.sum()), float(weights.min(initial=0.0))
    if not (weights.shape == (len(X),) and least >= 0 and 0 < total < np.inf):
        raise FirthshotError(
            f"sample_weight must be {len(X)} numbers that are not negative, and not all zero."
        )
    used = weights > 0
    if not used.all():
        X, targets, weights = X[used], targets[used], weights[used]
    if targets.ndim == 1:
        Y = np.zeros((len(form.target), len(X)))
        Y[targets, np.arange(len(X))] = 1.0
    else:
        Y = np.ascontiguousarray(targets.T, np.float64)
    if unit != 1.0:
        form = replace(form, weight_decay=form.weight_decay / unit**2)
    return Problem(X, Y, weights / total, form, fit_intercept, unit)
