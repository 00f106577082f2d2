"""The linear head's problem for the converged solver, and its solution.

The objective of coefficient l is, with the weighted mean over samples (weights that sum to one),

    mean_i [ −Σ_c T_ic log p_ic + confidence KL(p_i‖U) ] + ½ weight_decay ‖W‖² + ½ bias_decay ‖b‖²

with T_ic = label y_ic + target_c: cross-entropy plus λ CE(u‖p) for Firth with prior u, smoothed
labels for label smoothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.engine.options import Converged
from firthshot.engine.results import Status
from firthshot.engine.solvers.span import Bias
from firthshot.errors import FirthshotError
from firthshot.kernels.mean_loss import MeanLoss
from firthshot.objective import PenaltyTables


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

    @classmethod
    def empty(cls, n_coefficients: int, n_classes: int, d: int) -> Solution:
        """Return room for optima, weights at zero."""
        shape = (n_coefficients, n_classes)
        iterations, norm, objective, status = (
            np.zeros(n_coefficients, kind) for kind in (np.int64, float, float, np.int8)
        )
        return cls(np.zeros((*shape, d)), np.zeros(shape), iterations, norm, objective, status)

    @property
    def converged(self) -> Array:
        """Return for every coefficient whether the gradient is within the tolerance, (L,)."""
        return np.asarray(self.status == Status.OK)

    def put(self, where: Array, other: Solution) -> None:
        """Replace the optima of some coefficients."""
        for part in fields(self):
            getattr(self, part.name)[where] = getattr(other, part.name)


@dataclass(frozen=True)
class LinearProblem:
    """Rows of positive weight with their target distributions, and how they are solved."""

    X: Array  # (N, d)
    Y: Array  # (K, N)
    weights: Array  # (N,), sum to one
    form: PenaltyTables  # with the L2 factor of weights on X / unit
    limits: Converged
    fit_intercept: bool
    warm_start: bool
    audit: bool
    unit: float

    @classmethod
    def pose(
        cls, X: Array, targets: Array, form: PenaltyTables, sample_weight: Array | None,
        unit: float, **settings: Any,
    ) -> LinearProblem:  # fmt: skip
        """Spread labels out, drop rows without weight and scale the weights to sum one."""
        X, targets = np.asarray(X, np.float64), np.asarray(targets)
        weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
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
        return cls(X, Y, weights / total, form, unit=unit, **settings)

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

    def loss(self, l: int, padded_weights: Array) -> MeanLoss:
        """Return the loss of coefficient l, for rows padded to as many as there are weights."""
        form, (n_classes, n) = self.form, self.Y.shape
        padded = np.zeros((n_classes, len(padded_weights)))
        targets = np.multiply(self.Y, form.label[l], out=padded[:, :n])
        targets += form.target[:, l, None]
        numbers = float(form.probability[l]), float(form.confidence[l])
        return MeanLoss(padded, padded_weights, *numbers)

    def steepness(self, chosen: list[int]) -> Array:
        """Return the ratios of the loss's curvature at zero to that of L2, infinite without L2."""
        form = self.form
        curvature = (form.probability + form.confidence)[chosen] / len(form.target)
        decay = form.weight_decay[chosen].astype(float)
        ratio: Array = np.full(len(chosen), np.inf)
        np.divide(curvature, decay, out=ratio, where=decay > 0)
        return ratio

    def largest_entry(self, l: int, by_logits: Array, found: Solution) -> float:
        """Return the largest entry of the gradient by W and b, given that by logits (K, n)."""
        g = by_logits[:, : len(self.X)]
        by_coef = g @ self.X
        by_coef += self.form.weight_decay[l] * self.unit**2 * found.coef[l]
        largest = max(by_coef.max(), -by_coef.min()) / self.unit
        if self.fit_intercept:
            by_intercept = g.sum(1) + self.form.bias_decay[l] * found.intercept[l]
            largest = max(largest, np.abs(by_intercept).max())
        return float(largest)
