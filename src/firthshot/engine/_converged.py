"""The linear head at its optimum, as the engine trains it."""

from __future__ import annotations

from firthshot.engine._form import GradientForm
from firthshot.engine._trial import Fitted, Trial, fitted_linear
from firthshot.engine.options import Converged, Linear
from firthshot.engine.solvers.optimum import solve


def fit_converged(
    trial: Trial, _head: Linear, solver: Converged, form: GradientForm, keep_weights: bool
) -> dict[int, Fitted]:
    """Bring the linear head of one trial to its optimum with every coefficient.

    The head's start plays no part: the optimum is sought from zero.
    """
    tolerance, most = solver.tolerance, solver.max_iterations
    found = solve(trial.support, trial.labels, form, tolerance=tolerance, max_iterations=most)
    return {0: fitted_linear(trial, found.coef, found.intercept, keep_weights, found.status)}
