"""Distribution Calibration as a head of the engine."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from firthshot.arrays import Array
from firthshot.calibration._sampling import Stream, check_fit, draw
from firthshot.calibration._solver import solve_path
from firthshot.calibration._statistics import BaseStatistics
from firthshot.calibration._task import CalibrationRows, CalibrationTerms
from firthshot.engine import (
    Converged,
    Fitted,
    Head,
    Linear,
    Solver,
    Trial,
    fitted_linear,
    register_head,
)
from firthshot.errors import FirthshotError
from firthshot.objective import PenaltyTables


@register_head
@dataclass(frozen=True)
class CalibratedLinear(Head):
    """A linear head on the support rows and artificial rows drawn around them."""

    statistics: BaseStatistics = field(repr=False)  # of the base classes of the source
    artificial: int = 750  # artificial rows per class; with 0 this is the plain linear head
    neighbours: int = 2  # base classes that lend their mean and covariance to a support row
    alpha: float = 0.21  # added to every entry of a covariance
    name = "calibrated"
    solvers = (Converged,)

    def __post_init__(self) -> None:
        if self.artificial < 0:
            raise FirthshotError(f"artificial = {self.artificial} must not be negative.")
        if not 0 <= self.alpha < np.inf:
            raise FirthshotError(f"alpha = {self.alpha} must be finite and at least 0.")
        check_fit(self.statistics.d, self.statistics, self.neighbours)

    def draw(
        self, support: Array, labels: Array, key: int, trial: int, *, centre: bool = True
    ) -> CalibrationRows:
        """Return the training rows of a task."""
        return draw(
            support, labels, self.statistics, Stream(key, trial), artificial=self.artificial,
            neighbours=self.neighbours, alpha=self.alpha, centre=centre,
        )  # fmt: skip

    def fit(
        self, trial: Trial, solver: Solver, form: PenaltyTables, keep_weights: bool
    ) -> dict[int, Fitted]:
        """Draw the rows of one trial and bring the head to its optimum with every coefficient."""
        if self.artificial == 0:
            return Linear().fit(trial, solver, form, keep_weights)
        rows = self.draw(trial.support, trial.labels, trial.key, trial.number)
        path = form_terms(form, len(trial.labels), rows.count)
        tolerance, most = solver.tolerance, solver.max_iterations  # type: ignore[attr-defined]
        found = solve_path(rows, trial.n_classes, path, tolerance, most)
        status = np.array([one.status for one in found], np.int8)
        return {0: fitted(trial, [rows.weights(one.theta) for one in found], status, keep_weights)}


def form_terms(form: PenaltyTables, n_support: int, n_rows: int) -> list[CalibrationTerms]:
    """Return the coefficients of a form that was made for the support alone.

    The ridge is ½‖W‖² over the number of rows trained on: artificial rows count.
    """
    if form.confidence.any():
        raise FirthshotError("Distribution Calibration has no confidence penalty: use 'firth'.")
    if form.bias_decay.any():
        raise FirthshotError("Distribution Calibration needs l2_kind 'ridge', which spares biases.")
    share = n_support / n_rows
    return [
        CalibrationTerms(
            float(form.probability[l]), float(form.label[l]), form.target[:, l],
            share * float(form.weight_decay[l]),
        )
        for l in range(len(form.label))
    ]  # fmt: skip


def fitted(
    trial: Trial, weights: list[tuple[Array, Array]], status: Array | None, keep_weights: bool
) -> Fitted:
    """Return what the engine scores: logits of the queries, squared norms, weights on request."""
    coef, intercept = (np.stack(part) for part in zip(*weights, strict=True))
    return fitted_linear(trial, coef, intercept, keep_weights, status)
