"""The linear head at its optimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from firthshot.arrays import Array
from firthshot.engine.results import Status
from firthshot.estimators._base import FittedHead, HeadEstimator
from firthshot.estimators._left_out import LinearOptimum, left_out_logits
from firthshot.estimators._optimum import (
    NEGLIGIBLE,
    PLAIN,
    ROUGH,
    ROUGH_ALONE,
    logits,
    plain_logits,
    public,
    solve_linear,
    variant_logits,
)
from firthshot.estimators._saving import Shapes
from firthshot.estimators._small import Variant, ridge_rows
from firthshot.estimators._support import Candidates, Support, centre_if_far

if TYPE_CHECKING:
    from collections.abc import Iterable

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

    def _fit_path(self, support: Support, path: Candidates) -> list[FittedHead]:
        found = solve_linear(
            support, path, self.tol, self.max_iter, fit_intercept=self.fit_intercept
        )
        return [
            FittedHead(
                public(found.coef[l], found.intercept[l], support.dense[1], support.X),
                int(found.iterations[l]),
                status == Status.OK,
                _problem(status),
                None if found.starts is None else found.starts[l],
            )
            for l, status in enumerate(found.status.tolist())
        ]

    def _refitted_logits(self, support: Support, parts: Iterable[Array], path: Candidates) -> Array:
        parts = list(parts)
        variants = [Variant(lam, l2, part) for lam, l2 in path for part in parts]
        each = iter(variant_logits(support, variants, self.tol, self.max_iter, self.fit_intercept))
        found = np.empty((len(path), sum(map(len, parts)), support.n_classes))
        for one in found:
            one[:] = np.concatenate([next(each)[part] for part in parts]) if parts else 0.0
        return found

    def _round_logits(
        self, support: Support, parts: list[Array], fit: FittedHead, plainly: bool
    ) -> tuple[Array, Array | None]:
        variants = [Variant(self.lam_, self.l2_, part, fit.start) for part in parts]
        with_plain = plainly and self.fit_intercept and support.moments.spread >= NEGLIGIBLE
        if with_plain:
            variants.append(PLAIN)
        tol = max(self.tol, ROUGH if parts else ROUGH_ALONE)
        each = variant_logits(support, variants, tol, self.max_iter, self.fit_intercept)
        plain = each.pop() if with_plain else plain_logits(support) if plainly else None
        found = [np.empty((0, support.n_classes))]
        found += [z[part] for z, part in zip(each, parts, strict=True)]
        return np.concatenate(found), plain

    def _left_out_logits(
        self, support: Support, rows: Array, path: Candidates, fits: list[FittedHead]
    ) -> Array:
        X = np.asarray(support.dense[0], np.float64)
        if self.fit_intercept:
            X = centre_if_far(X, support.weights, support.moments)[0]
        gram, labels = X @ X.T, support.one_hot()
        found = np.empty((len(path), len(rows), support.n_classes))
        for l, ((lam, l2), fit) in enumerate(zip(path, fits, strict=True)):
            optimum = LinearOptimum(
                support.weights,
                labels + lam * support.prior,
                np.asarray(self._logits(support.X, fit.parameters), np.float64),
                1.0 + lam,
                l2 * ridge_rows(support.n_classes),
            )
            found[l] = left_out_logits(gram, optimum, rows, self.fit_intercept)
        return found

    def _logits(self, X: Array, parameters: dict[str, Array]) -> Array:
        return logits(X, parameters)

    def _shapes(self, d: int, n_classes: int) -> Shapes:
        rows = 1 if n_classes == 2 else n_classes
        return {"coef_": (rows, d), "intercept_": (rows,)}


def _problem(status: int) -> str:
    if status == Status.NO_OPTIMUM:
        return (
            "The classes are separated and nothing holds the weights back, so that there is no "
            "optimum: set lam or l2 above zero."
        )
    return "The solver stopped before reaching tol: raise max_iter, or scale the features."
