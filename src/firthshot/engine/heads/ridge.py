"""Logistic regression at its optimum with an L2 chosen like λ, and two corrections of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array
from firthshot.engine.heads.base import Head, TrialShape
from firthshot.engine.options import Converged, Solver

if TYPE_CHECKING:
    from firthshot.engine._trial import Fitted, Trial
    from firthshot.objective import PenaltyTables


@dataclass(frozen=True)
class RidgeLogistic(Head):
    """The linear head at the optimum of CE + λ ½‖W‖²/n, λ chosen on the validation classes."""

    name = "ridge-logistic"
    words = "ridge logistic"
    families = ("l2",)
    grid = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4)
    own_solver = "converged"
    solvers = (Converged,)
    published_l2 = (0.0, "ridge")

    def fit(
        self, trial: Trial, solver: Solver, form: PenaltyTables, keep_weights: bool
    ) -> dict[int, Fitted]:
        """Solve for every coefficient."""
        from firthshot.engine._trial import fitted_linear
        from firthshot.engine.solvers.optimum import solve

        assert isinstance(solver, Converged)
        found = solve(
            trial.support, trial.labels, form, sample_weight=self.sample_weight(trial),
            tolerance=solver.tolerance, max_iterations=solver.max_iterations,
        )  # fmt: skip
        intercept = found.intercept - self.correction(trial)
        return {0: fitted_linear(trial, found.coef, intercept, keep_weights, found.status)}

    def sample_weight(self, trial: Trial) -> Array | None:
        """Return the weight of every support row, None where all are alike."""
        del trial
        return None

    def correction(self, trial: Trial) -> Array:
        """Return what is taken off the intercepts, (K,)."""
        return np.zeros(trial.n_classes)

    def seconds(self, shape: TrialShape, passes: int | None) -> float:
        """Estimate the seconds of a trial; the optimum takes as long as some 150 passes."""
        return super().seconds(shape, passes or 150)


@dataclass(frozen=True)
class ClassWeights(RidgeLogistic):
    """The ridge logistic head with classes of equal weight, whatever their shots."""

    name = "class-weights"
    words = "class weights"

    def sample_weight(self, trial: Trial) -> Array | None:
        """Return one over the shots of each row's class."""
        shots = np.bincount(trial.labels, minlength=trial.n_classes)
        return np.asarray(1 / shots[trial.labels])


@dataclass(frozen=True)
class LogitAdjustment(RidgeLogistic):
    """The ridge logistic head with the log of the classes' shares off the logits.

    Menon et al. (2021). Adding them to the logits in training instead gives the same head, because
    the intercepts are free.
    """

    name = "logit-adjustment"
    words = "logit adjustment"

    def correction(self, trial: Trial) -> Array:
        """Return the log of every class's share of the support."""
        shots = np.bincount(trial.labels, minlength=trial.n_classes)
        return np.asarray(np.log(shots / len(trial.labels)))
