"""The linear head at its optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from firthshot.engine._converged import Solution, solve
from firthshot.engine._form import GradientForm
from firthshot.engine.results import Status
from firthshot.estimators._base import FewShotClassifier, Fit
from firthshot.estimators._left_out import Optimum, left_out_logits
from firthshot.estimators._support import Array, Support

if TYPE_CHECKING:
    from collections.abc import Sequence

# Settled by docs/choosing-lambda.md.
DEFAULT_LAM: float | str = "shots"
DEFAULT_L2: float | str = "scale"


class FirthClassifier(FewShotClassifier):
    """Multinomial logistic regression with Firth bias reduction, for few rows of many features.

    Minimises, over W and an intercept b that is not penalised,

        Σ_i w_i [ CE(y_i‖p_i) + lam · KL(u‖p_i) ] + (l2 / 2) ‖W‖².

    ``lam`` is the λ of the paper's Equation (klobj), where both terms are means over samples, and
    ``l2`` the 1/C of scikit-learn: with ``lam=0`` and ``l2=1/C`` this is
    ``LogisticRegression(C=C)``. For two classes W is one row, as it is there.

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
    class_weight : "balanced", dict or None, default=None
    calibrate : bool, default=True
        Divide logits by a temperature, fitted to rows of the support set that were left out (some
        of every class at once, at most five times), before they become probabilities. Where there
        are too few rows for that, it is the one at which the head is sure of its own rows.
    tol : float, default=1e-9
        Largest entry of the gradient, of the objective divided by (1 + lam) Σ w, at the end, for
        features in units of √v.
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
    n_iter_ : int
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where the features have names
    """

    _accepts_sparse: ClassVar[bool] = True

    def __init__(
        self,
        *,
        lam: float | str = DEFAULT_LAM,
        l2: float | str = DEFAULT_L2,
        prior: Any = "uniform",
        fit_intercept: bool = True,
        class_weight: Any = None,
        calibrate: bool = True,
        tol: float = 1e-9,
        max_iter: int = 200,
    ) -> None:
        self.lam = lam
        self.l2 = l2
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.tol = tol
        self.max_iter = max_iter

    def _fit_head(self, support: Support, lam: float, l2: float) -> Fit:
        return self._fit_path(support, [(lam, l2)])[0]

    def _fit_path(self, support: Support, path: Sequence[tuple[float, float]]) -> list[Fit]:
        found, _, columns = solve_linear(
            support, path, self.tol, self.max_iter, fit_intercept=self.fit_intercept
        )
        return [
            Fit(
                _public(found.coef[l], found.intercept[l], columns, support.X),
                int(found.iterations[l]),
                status == Status.OK,
                _problem(status),
            )
            for l, status in enumerate(found.status.tolist())
        ]

    def _left_out_logits(
        self,
        support: Support,
        rows: Array,
        path: Sequence[tuple[float, float]],
        fits: list[Fit],
    ) -> Array:
        X = np.asarray(dense_columns(support.X)[0], np.float64)
        gram, labels = X @ X.T, support.one_hot()
        found = np.empty((len(path), len(rows), support.n_classes))
        for l, ((lam, l2), fit) in enumerate(zip(path, fits, strict=True)):
            optimum = Optimum(
                support.weights,
                labels + lam * support.prior,
                np.asarray(self._logits(support.X, fit.parameters), np.float64),
                1.0 + lam,
                l2 * ridge_rows(support.n_classes),
            )
            found[l] = left_out_logits(gram, optimum, rows, self.fit_intercept)
        return found

    def _logits(self, X: Array, parameters: dict[str, Array]) -> Array:
        z = np.asarray(X @ parameters["coef_"].T + parameters["intercept_"])
        return np.hstack([-z / 2, z / 2]) if z.shape[1] == 1 else z


def plain_logits(support: Support) -> Array:
    """Return the logits (N, K) that ``LogisticRegression()`` gives the rows it was fitted to."""
    # So tight that rows given twice and weights of two lead to the same temperature.
    found, X, _ = solve_linear(support, [(0.0, 1.0)], 1e-11, 200)
    return np.asarray(X @ found.coef[0].T + found.intercept[0])


def solve_linear(
    support: Support,
    path: Sequence[tuple[float, float]],
    tol: float,
    max_iter: int,
    *,
    fit_intercept: bool = True,
) -> tuple[Solution, Array, Array | None]:
    """Return the optima for pairs (λ, l2), and the rows that were used with their columns.

    The unit of length is that of the rows: their spread, or their length without an intercept.
    """
    X, columns = dense_columns(support.X)
    moments = support.moments
    found = solve(
        X,
        support.labels,
        linear_form(support, path),
        tolerance=tol,
        max_iterations=max_iter,
        sample_weight=support.weights,
        fit_intercept=fit_intercept,
        warm_start=True,
        audit=False,
        unit=float(np.sqrt(moments.spread if fit_intercept else moments.square)),
    )
    take_shared_away(found.coef, found.intercept)
    return found, X, columns


def take_shared_away(coef: Array, intercept: Array) -> None:
    """Take the mean over classes off coef (…, K, d) and intercept (…, K), in place.

    What all classes share changes no probability; it is zero at the optimum of least norm.
    """
    share = 1.0 / coef.shape[-2]
    coef -= share * np.add.reduce(coef, axis=-2, keepdims=True)
    intercept -= share * np.add.reduce(intercept, axis=-1, keepdims=True)


def linear_form(support: Support, path: Sequence[tuple[float, float]]) -> GradientForm:
    """Return the objective of the module's equation, divided by (1 + λ) Σ w, for pairs (λ, l2)."""
    lam, l2 = np.array(path, float).T
    decay = l2 * ridge_rows(support.n_classes) / support.weights.sum()
    zero, one = np.zeros_like(lam), np.ones_like(lam)
    return GradientForm(
        probability=one,
        target=np.outer(support.prior, lam / (1.0 + lam)),
        label=1.0 / (1.0 + lam),
        confidence=zero,
        weight_decay=decay / (1.0 + lam),
        bias_decay=zero,
        decay_with_batch=True,
        decays=bool(l2.any()),
    )


def ridge_rows(n_classes: int) -> float:
    """Return the factor that l2 takes on K rows of weights.

    The one row w of two classes is the difference of two opposite halves: ½ ‖w‖² = ‖W‖².
    """
    return 2.0 if n_classes == 2 else 1.0


def dense_columns(X: Any) -> tuple[Array, Array | None]:
    """Return X as an ordinary array, and of a sparse one which columns that array holds.

    A column without entries has no weight at the optimum (of least norm), so that the columns that
    occur in a few sparse rows are all that matters.
    """
    if isinstance(X, np.ndarray):
        return X, None
    columns = np.unique(X.indices)
    if not len(columns):
        columns = np.zeros(1, np.int64)
    return X[:, columns].toarray(), columns


def _public(coef: Array, intercept: Array, columns: Array | None, X: Any) -> dict[str, Array]:
    """Return coefficients in scikit-learn's shapes and the type of the features."""
    if len(coef) == 2:
        coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    if columns is not None:
        spread = np.zeros((len(coef), X.shape[1]))
        spread[:, columns] = coef
        coef = spread
    return {"coef_": coef.astype(X.dtype), "intercept_": intercept.astype(X.dtype)}


def _problem(status: int) -> str:
    if status == Status.NO_OPTIMUM:
        return (
            "The classes are separated and nothing holds the weights back, so that there is no "
            "optimum: set lam or l2 above zero."
        )
    return "The solver stopped before reaching tol: raise max_iter, or scale the features."
