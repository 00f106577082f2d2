"""The linear head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from firthshot.engine.heads.base import Head, TrialShape
from firthshot.engine.options import Sgd, Solver, require

if TYPE_CHECKING:
    from firthshot.engine._trial import Fitted, Trial
    from firthshot.objective import PenaltyTables


@dataclass(frozen=True)
class Linear(Head):
    """Logits X W + b; weights start Xavier-uniform (or at zero), the bias at zero.

    A random start leaves noise in the directions that no support row spans: training never moves
    them. ``start="zero"`` removes it.
    """

    start: Literal["xavier", "zero"] = "xavier"

    name = "linear"
    exact_theory = True
    sgd_fields = ("start",)
    estimator = "FirthClassifier"

    def __post_init__(self) -> None:
        require(
            self.start in ("xavier", "zero"), f"start = {self.start!r} must be 'xavier' or 'zero'."
        )

    def fit(
        self, trial: Trial, solver: Solver, form: PenaltyTables, keep_weights: bool
    ) -> dict[int, Fitted]:
        """Train by SGD in the span of the support rows, or to the optimum, sought from zero."""
        if isinstance(solver, Sgd):
            from firthshot.engine.sgd.linear import fit_linear

            return fit_linear(trial, self, solver, form, keep_weights)
        from firthshot.engine._trial import fitted_linear
        from firthshot.engine.solvers.optimum import solve

        tolerance, most = solver.tolerance, solver.max_iterations  # type: ignore[attr-defined]
        found = solve(trial.support, trial.labels, form, tolerance=tolerance, max_iterations=most)
        return {0: fitted_linear(trial, found.coef, found.intercept, keep_weights, found.status)}

    def seconds(self, shape: TrialShape, passes: int | None) -> float:
        """Estimate the seconds of a trial; the optimum takes as long as some 150 passes."""
        return super().seconds(shape, passes or 150)
