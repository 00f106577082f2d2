"""Heads with a formula: the nearest class mean and least squares. They take no penalty."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._trial import Fitted, Trial, query_logits
from firthshot.engine.options import Centroid, LeastSquares, Solver
from firthshot.errors import FirthshotError
from firthshot.objective import PenaltyTables

Array = npt.NDArray[Any]

# Scores that are one-hot labels become logits whose gap is that of exact Firth, λ = K/2.
LOGIT_GAP = float(np.log(3))


def fit_centroid(
    trial: Trial, _head: Centroid, _solver: Solver, form: PenaltyTables, keep_weights: bool
) -> dict[int, Fitted]:
    """Classify by the nearest class mean m_c: logits ⟨x, m_c⟩ − ½‖m_c‖².

    They are −½‖x − m_c‖² but for ½‖x‖², which all classes of a query share and which would only
    cost digits.
    """
    means = class_means(trial.support.astype(np.float64), trial.labels, trial.n_classes)
    intercept = -0.5 * (means**2).sum(1)
    # Logits are the same for means seen from their own centre, and keep more digits there.
    centre = means.mean(0)
    shift = intercept + 0.5 * centre @ centre
    logits = query_logits(trial, (means - centre)[None], shift[None])
    return _for_all(trial, form, logits, means, intercept, (means**2).sum(), keep_weights)


def class_means(X: Array, labels: Array, n_classes: int) -> Array:
    """Return the mean row of every class, shape (K, d)."""
    members = np.eye(n_classes)[labels]
    counts = members.sum(0)
    if not counts.all():
        raise FirthshotError(
            f"Class {int(counts.argmin())} has no support row, so that it has no mean."
        )
    means: Array = (members / counts).T @ X
    return means


def fit_least_squares(
    trial: Trial, head: LeastSquares, _solver: Solver, form: PenaltyTables, keep_weights: bool
) -> dict[int, Fitted]:
    """Regress centred one-hot labels on the features; logits are log 3 times the scores."""
    targets = np.eye(trial.n_classes)[trial.labels] - 1 / trial.n_classes
    coef, intercept = ridge_regression(trial.support.astype(np.float64), targets, head.ridge)
    coef, intercept = LOGIT_GAP * coef, LOGIT_GAP * intercept
    logits = query_logits(trial, coef[None], intercept[None])
    norm = (coef**2).sum() + (intercept**2).sum()
    return _for_all(trial, form, logits, coef, intercept, norm, keep_weights)


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


def _for_all(
    trial: Trial,
    form: PenaltyTables,
    logits: Array,
    coef: Array,
    intercept: Array,
    norm: float,
    keep_weights: bool,
) -> dict[int, Fitted]:
    """Give every coefficient the same logits (C, 1, Q + padding), norm and weights."""
    each = len(form.label)
    weights = {}
    if keep_weights:
        both = {"coef": coef, "intercept": intercept}
        weights = {
            name: np.repeat(w[None], each, 0).astype(trial.dtype) for name, w in both.items()
        }
    return {0: Fitted(np.repeat(logits, each, axis=1), np.full(each, norm), weights)}
