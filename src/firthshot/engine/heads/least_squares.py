"""Least squares on one-hot labels, a reference head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array
from firthshot.engine.heads.base import Head
from firthshot.engine.options import Solver, require_number

if TYPE_CHECKING:
    from firthshot.engine._trial import Fitted, Trial
    from firthshot.objective import PenaltyTables


# Scores that are one-hot labels become logits whose gap is that of exact Firth, λ = K/2. Any other
# factor leaves accuracies as they are; twice the gap makes the head far too certain.
LOGIT_GAP = float(np.log(3))


@dataclass(frozen=True)
class LeastSquares(Head):
    """Ridge regression on centred one-hot labels, closed form; ``ridge`` multiplies ‖W‖².

    Scores become logits by the factor log 3: without ridge and with independent rows this is the
    exact Firth estimate (λ = K/2), whose optimum is closed-form.
    """

    ridge: float = 1.0

    name = "least-squares"
    words = "least squares"
    penalised = False
    reference = True
    spec_fields = ("ridge",)

    def __post_init__(self) -> None:
        require_number("ridge", self.ridge, 0)

    def fit(
        self, trial: Trial, _solver: Solver, form: PenaltyTables, keep_weights: bool
    ) -> dict[int, Fitted]:
        """Regress centred one-hot labels on the features; logits are log 3 times the scores."""
        from firthshot.engine._trial import fitted_for_all, query_logits

        targets = np.eye(trial.n_classes)[trial.labels] - 1 / trial.n_classes
        coef, intercept = ridge_regression(trial.support.astype(np.float64), targets, self.ridge)
        coef, intercept = LOGIT_GAP * coef, LOGIT_GAP * intercept
        logits = query_logits(trial, coef[None], intercept[None])
        weights = {"coef": coef, "intercept": intercept}
        norm = (coef**2).sum() + (intercept**2).sum()
        return fitted_for_all(form, logits, norm, weights if keep_weights else {})


def ridge_regression(X: Array, targets: Array, ridge: float) -> tuple[Array, Array]:
    """Minimise ‖X W' + b − targets‖² + ridge ‖W‖² with b free.

    Centred features decide W: by their Gram matrix for N ≤ d, by X'X otherwise, and by singular
    values without ridge, where the smallest ‖W‖ is meant.

    Returns
    -------
    coef (K, d), intercept (K,)
    """
    mean, level = X.mean(0), targets.mean(0)
    rows, wanted = X - mean, targets - level
    if ridge == 0:
        W = np.linalg.lstsq(rows, wanted)[0]
    elif len(rows) <= rows.shape[1]:
        W = rows.T @ _solve_shifted(rows @ rows.T, ridge, wanted)
    else:
        W = _solve_shifted(rows.T @ rows, ridge, rows.T @ wanted)
    return W.T, level - mean @ W


def _solve_shifted(matrix: Array, ridge: float, right: Array) -> Array:
    """Solve (matrix + ridge I) x = right for a positive semidefinite matrix."""
    from scipy.linalg import cho_factor, cho_solve

    matrix.flat[:: len(matrix) + 1] += ridge
    return np.asarray(cho_solve(cho_factor(matrix, overwrite_a=True), right))
