"""The linear head at its optimum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from firthshot.arrays import Array
from firthshot.estimators._base import HeadEstimator
from firthshot.estimators._left_out import left_out_logits, posterior_kernel
from firthshot.estimators._optimum import (
    ROUGH,
    ROUGH_ALONE,
    FittedHead,
    LinearSolver,
    logits_without,
    solve_linear,
)
from firthshot.estimators._support import Candidates, Support

# Settled by studies/defaults.
DEFAULT_LAM: float | str = "shots"
DEFAULT_L2: float | str = "scale"


@dataclass(kw_only=True, eq=False, repr=False)
class FirthClassifier(HeadEstimator):
    """Multinomial logistic regression with Firth bias reduction, for few rows of many features.

    Minimises, over W and an intercept b that is not penalised,

        Σ_i w_i [ CE(y_i‖p_i) + lam · KL(u‖p_i) ] + (l2 / 2) ‖W‖².

    ``lam`` is the λ of the paper's Equation (klobj), where both terms are means over samples, and
    ``l2`` the 1/C of scikit-learn: with ``lam=0``, ``l2=1/C`` and
    ``class_weight=None`` this is ``LogisticRegression(C=C)``. For two classes W is one row, as it
    is there.

    Parameters
    ----------
    lam : float, "shots", "theory" or "loo", default="shots"
        Strength of the bias reduction. "shots" is (K / N)² for K classes and N rows. "theory" is
        K · rank(X) / (2N), Firth's own value: K / 2 for independent rows. "loo" takes the value of
        a grid with the best leave-one-out likelihood on the support set.
    l2 : float, "scale" or "loo", default="scale"
        Ridge. "scale" is v max(¼, min(r / (N - 1), √(K / N))) with v the mean squared distance of
        the rows from their mean, so that predictions do not depend on the scale of the features,
        and r the number of directions that they effectively go in. "loo" looks from 0.01 v to
        10 v. Both "loo": the best pair of the two grids.
    prior : {"uniform", "class-frequency"} or array of shape (n_classes,), default="uniform"
        The distribution u to which the penalty pulls, in the order of ``classes_``.
    fit_intercept : bool, default=True
    class_weight : "balanced", dict or None, default="balanced"
        Classes count alike by default, however many rows they have. None lets frequent classes
        count more, as scikit-learn's objective does (``studies/unequal_shots``).
    class_prior : None, "uniform", "training", dict or array of shape (n_classes,), default=None
        How frequent classes will be among new rows: all alike, as in the rows to fit, or as given
        (by label, or in the order of ``classes_``). Logits are corrected for it. None takes them
        as ``class_weight`` weighs them.
    calibrate : bool, default=True
        Divide logits by a temperature, fitted to rows of the support set that were left out (some
        of every class at once, at most five times), before they become probabilities. Where there
        are too few rows for that, it is the one at which the head is sure of its own rows.
    standardize : bool, default=False
        Bring the columns to mean 0 and standard deviation 1 first, as a StandardScaler in front
        does; it is part of the fitted head and of the file that `save` writes.
    tol : float, default=1e-4
        Norm of the gradient, of the objective divided by (1 + lam) Σ w, at the end, for features in
        units of √v. The default leaves probabilities within 5e-3 of the optimum's
        (``studies/defaults``).
    max_iter : int, default=200

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
    lam_, l2_ : float
        The coefficients used.
    lam_source_, l2_source_ : {"given", "shots", "scale", "theory", "loo", "fallback"}
        Where they come from. "fallback": no row could be left out.
    loo_path_ : dict of arrays "lam", "l2", "nll", "accuracy"
        Leave-one-out scores of every candidate, where one was asked for.
    temperature_ : float
        1.0 unless calibrated.
    column_scale_ : ColumnScale or None
        With ``standardize``: ``mean`` and ``spread`` of the columns, (n_features,) each. ``coef_``
        then acts on (x - mean) / spread.
    n_iter_ : int
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where the features have names
    """

    lam: float | str = DEFAULT_LAM
    l2: float | str = DEFAULT_L2
    prior: Any = "uniform"
    fit_intercept: bool = True
    class_weight: Any = "balanced"
    class_prior: Any = None
    calibrate: bool = True
    standardize: bool = False
    tol: float = 1e-4
    max_iter: int = 200

    _accepts_sparse: ClassVar[bool] = True
    _refit_work: ClassVar[float] = 5e7

    def _solver(self, least_tol: float = 0.0) -> LinearSolver:
        return LinearSolver(max(self.tol, least_tol), self.max_iter, self.fit_intercept)

    def _fit_path(self, support: Support, path: Candidates) -> list[FittedHead]:
        return solve_linear(support, path, self._solver())

    def _refitted_logits(self, support: Support, parts: Iterable[Array], path: Candidates) -> Array:
        solver, parts = self._solver(), list(parts)
        return np.stack([logits_without(support, parts, pair, solver)[0] for pair in path])

    def _round_logits(
        self, support: Support, parts: list[Array], fit: FittedHead, plainly: bool
    ) -> tuple[Array, Array | None]:
        solver, pair = self._solver(ROUGH if parts else ROUGH_ALONE), (self.lam_, self.l2_)
        return logits_without(support, parts, pair, solver, fit.start, plainly)

    def _left_out_logits(
        self, support: Support, rows: Array, path: Candidates, fits: list[FittedHead]
    ) -> Array:
        X = support.near[0] if self.fit_intercept else support.dense[0]
        X = np.asarray(X, np.float64)
        gram, found = X @ X.T, []
        for (lam, l2), fit in zip(path, fits, strict=True):
            logits = np.asarray(self._logits(support.X, fit.parameters), np.float64)
            kernel = posterior_kernel(support, gram, lam, l2, intercept=self.fit_intercept)
            found.append(left_out_logits(support, kernel, logits, lam, rows))
        return np.stack(found)
