"""The scikit-learn face of exact Firth regression."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from firthshot.arrays import is_plain
from firthshot.errors import FirthshotError, check_choice, listed
from firthshot.jeffreys._analysis import AnalysisMixin
from firthshot.jeffreys._flic import flac, flic
from firthshot.jeffreys._inference import InferenceMixin
from firthshot.jeffreys._model import CONVENTIONS, Model, fit, make_model
from firthshot.jeffreys._refusals import explained, refuse_extremes, refuse_lazy
from firthshot.jeffreys._separation import INTERCEPT, NO_ESTIMATE, coefficient_names, surely_inside

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from firthshot.jeffreys._kernels.memory import FloatArray

CORRECTIONS = ("none", "flic", "flac")
COLLINEAR = ("minimal-norm", "refuse")


class CollinearityWarning(UserWarning):
    """Some columns are linear combinations of others; the coefficients of least norm are given."""


class CollinearityError(FirthshotError):
    """Some columns are linear combinations of others, and ``collinear="refuse"``."""


@dataclass(kw_only=True, eq=False, repr=False)
class JeffreysLogisticRegression(InferenceMixin, AnalysisMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic regression, binary or multinomial, penalised by the exact Jeffreys prior.

    Maximises ``log-likelihood + tau · log det F``, F the Fisher information. With ``tau = 0.5``
    this is Firth's bias-reduced estimate, finite even when the classes are separated.

    Parameters
    ----------
    reference : label, default=None
        Baseline category; the first class in sorted order if None.
    fit_intercept : bool, default=True
    tau : float, default=0.5
        Power of the penalty; 0 is maximum likelihood.
    standard_errors : {"inverse-information", "augmented"}, default="inverse-information"
        Convention of brglm2, or of logistf.
    correction : {"none", "flic", "flac"}, default="none"
        Make predicted probabilities right on average: FLIC changes the intercepts, FLAC all
        coefficients.
    collinear : {"minimal-norm", "refuse"}, default="minimal-norm"
        What to do when the rank of the design is below its number of columns: give the
        coefficients of least norm (with a warning that names the columns, unless there are more
        columns than rows), or raise an error that names them.
    tol : float, default=1e-8
        The fit ends when the next step is shorter than this many standard errors.
    max_iter : int, default=100

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    reference_ : label
    contrasts_ : ndarray of shape (n_classes - 1,)
        The other classes: the rows of ``coef_``.
    coef_ : ndarray of shape (n_classes - 1, n_features)
        Log odds ratios against the reference.
    intercept_ : ndarray of shape (n_classes - 1,)
    parameter_names_ : list of str
        Names in the order of `params_` and of every table: intercept first, class by class.
    loglik_, penalised_loglik_ : float
        At Firth's estimate.
    converged_ : bool
    reason_ : str
        How the fit ended, in words.
    n_iter_ : int
    rank_ : int
        Rank of the design.
    dependent_columns_ : dict of str to tuple of str
        Each collinear column with the columns of which it is a combination.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0], [0], [0], [1], [1], [1]])
    >>> model = JeffreysLogisticRegression().fit(X, [0, 0, 0, 1, 1, 1])
    >>> model.coef_.round(4).tolist(), model.conf_int().round(3).tolist()[1]
    ([[3.8918]], [0.439, 9.748])
    """

    reference: Any = None
    fit_intercept: bool = True
    tau: float = 0.5
    standard_errors: Literal["inverse-information", "augmented"] = "inverse-information"
    correction: Literal["none", "flic", "flac"] = "none"
    collinear: Literal["minimal-norm", "refuse"] = "minimal-norm"
    tol: float = 1e-8
    max_iter: int = 100

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies (any non-negative numbers): weight 2 is the row given twice.
        offset : array-like of shape (n_samples,) or (n_samples, n_classes - 1), default=None
            Added to the linear predictors, in the order of ``contrasts_``.
        """
        self._check_parameters()
        features, codes, weights = self._read(X, y, sample_weight)
        shifts = _checked_offset(offset, len(features), len(self.contrasts_))
        model = make_model(
            features,
            codes,
            len(self.classes_),
            intercept=self.fit_intercept,
            weights=weights,
            offset=shifts,
            tau=self.tau,
        )
        self.fit_ = fit(model, tol=self.tol, max_iter=self.max_iter)
        self._note_collinear(self.fit_.model)
        self._publish()
        return self

    def _read(
        self, X: Any, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[FloatArray, NDArray[np.int64], FloatArray | None]:
        """Return features, class numbers and weights; set the classes and the rows in use."""
        features, labels = self._validated(X, y)
        if self._columns().count(INTERCEPT) > self.fit_intercept:
            raise FirthshotError(
                f"A column is called {INTERCEPT!r}, the name of the model's constant: rename it."
            )
        refuse_extremes(features, self._columns()[int(self.fit_intercept) :])
        weights = _checked_weights(sample_weight, len(features))
        self._used = np.ones(len(features), dtype=bool) if weights is None else weights > 0.0
        return features, self._encode(labels, weights), weights

    def _validated(self, X: Any, y: Any) -> tuple[FloatArray, NDArray[Any]]:
        """Return features and labels as arrays; plain ones take a short way to the same checks."""
        plain = is_plain(X, 2, "f") and X.dtype == np.float64 and is_plain(y, 1, "iub")
        if plain and len(X) == len(y) > 1:
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            return X, y
        features, labels = self._checked_input(X, y)
        check_classification_targets(labels)
        return features, labels

    def _checked_input(self, X: Any, *y: ArrayLike, reset: bool = True) -> Any:
        """Return what scikit-learn makes of its arguments, errors in our words."""
        fewest = 1
        refuse_lazy(X)
        if self.fit_intercept and hasattr(X, "columns") and not len(X.columns):
            X, fewest = np.empty((len(X), 0)), 0  # a frame without columns: the model y ~ 1
        try:
            return validate_data(
                self, X, *y, reset=reset, dtype=np.float64, ensure_min_features=fewest
            )
        except ValueError as error:
            raise explained(error, X) from None

    def _check_parameters(self) -> None:
        check_choice("standard_errors", self.standard_errors, CONVENTIONS)
        check_choice("correction", self.correction, CORRECTIONS)
        check_choice("collinear", self.collinear, COLLINEAR)
        if not (isinstance(self.tau, int | float | np.number) and 0.0 <= self.tau < np.inf):
            raise FirthshotError(f"tau is {self.tau!r}; give a number that is not negative.")
        if self.correction != "none" and not (self.fit_intercept and self.tau > 0.0):
            raise FirthshotError(
                f"correction={self.correction!r} corrects Firth's intercept: "
                "it needs fit_intercept=True and tau > 0."
            )

    def _encode(self, y: NDArray[Any], weights: FloatArray | None) -> NDArray[np.int64]:
        """Set the classes and return class numbers with the reference as 0."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        codes = codes.astype(np.int64)
        counted = codes if weights is None else codes[weights > 0.0]
        present = np.bincount(counted, minlength=len(self.classes_)) > 0
        seen = int(present.sum())
        if seen < 2:
            raise FirthshotError(
                f"The labels hold {seen} class of positive weight: classification needs two."
            )
        if seen < len(self.classes_):
            missing = ", ".join(map(str, self.classes_[~present]))
            raise FirthshotError(f"Class {missing} has no row of positive weight: remove its rows.")
        first = 0
        if self.reference is not None:
            found = np.flatnonzero(self.classes_ == self.reference)
            if not len(found):
                known = listed(map(repr, self.classes_.tolist()))
                raise FirthshotError(
                    f"reference {self.reference!r} is not a class; choose of {known}."
                )
            first = int(found[0])
        self.reference_, self.contrasts_ = self.classes_[first], self.classes_[1:]
        if first == 0:
            return codes
        order = np.append(first, np.delete(np.arange(len(self.classes_)), first))
        self.contrasts_ = self.classes_[order[1:]]
        return np.argsort(order)[codes]

    def _note_collinear(self, model: Model) -> None:
        design = model.design
        columns = self._columns()
        self.rank_ = design.rank
        self.dependent_columns_ = {
            columns[j]: tuple(columns[k] for k in on) for j, on in design.dependent
        }
        if design.rank == len(columns):
            return
        message = f"the design has {len(columns)} columns but rank {design.rank}"
        if self.dependent_columns_:
            pairs = (f"{j} = f({', '.join(on)})" for j, on in self.dependent_columns_.items())
            message += f": {'; '.join(pairs)}"
        if self.collinear == "refuse":
            raise CollinearityError(
                f"Collinear columns: {message}; remove them, centre powers of "
                "large numbers (x - mean) before taking them, or set collinear='minimal-norm'.",
                "collinear=minimal-norm",
            )
        if self.dependent_columns_:
            warnings.warn(
                f"Collinear columns: {message}; coefficients of least norm are given.",
                CollinearityWarning,
                stacklevel=3,
            )

    @property
    def loglik_(self) -> float:
        """Log-likelihood without the penalty, at Firth's estimate."""
        return self.fit_.loglik

    def _columns(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        features = [f"x{k}" for k in range(self.n_features_in_)] if names is None else list(names)
        return [INTERCEPT, *features] if self.fit_intercept else features

    def _publish(self) -> None:
        """Set the attributes that describe the fit."""
        maximum = self.fit_.maximum
        self.converged_, self.reason_ = maximum.converged, maximum.reason
        self.n_iter_ = max(1, maximum.n_iter)
        self.penalised_loglik_ = maximum.penalised_loglik
        beta = self.fit_.beta
        if self.correction == "flic":
            beta, self._flic_errors = flic(self.fit_, 0)
        elif self.correction == "flac":
            self.flac_fit_ = flac(self.fit_, self.max_iter)
            beta = self.flac_fit_.beta[:, :-1]
        constant = 1 if self.fit_intercept else 0
        self.coef_ = np.ascontiguousarray(beta[:, constant:])
        self.intercept_ = beta[:, 0].copy() if constant else np.zeros(len(beta))
        self.parameter_names_ = coefficient_names(
            self._columns(), [str(c) for c in self.contrasts_]
        )
        if self.tau == 0.0 and not surely_inside(self.fit_) and (found := self.separation()):
            self.converged_ = False
            verb = "separates" if len(found.variables) == 1 else "separate"
            self.reason_ = f"{listed(found.variables)} {verb} the classes: {NO_ESTIMATE[:-1]}"
        if not self.converged_:
            way_out = "; use tau=0.5" if self.tau == 0.0 else ""
            warnings.warn(f"{self.reason_}{way_out}.", ConvergenceWarning, stacklevel=3)

    def _predictors(self, X: ArrayLike, offset: ArrayLike | None) -> FloatArray:
        """Return linear predictors of all classes in sorted order, shape (n, K)."""
        check_is_fitted(self)
        X = cast("FloatArray", self._checked_input(X, reset=False))
        eta = X @ self.coef_.T + self.intercept_
        shifts = _checked_offset(offset, len(X), len(self.contrasts_))
        eta = eta if shifts is None else eta + shifts
        first = int(np.flatnonzero(self.classes_ == self.reference_)[0])
        return np.insert(eta, first, 0.0, axis=1)

    def decision_function(self, X: ArrayLike, offset: ArrayLike | None = None) -> FloatArray:
        """Return log odds.

        Of the second class for two classes, shape (n_samples,); else of each class against the
        reference, shape (n_samples, n_classes).
        """
        eta = self._predictors(X, offset)
        return eta[:, 1] - eta[:, 0] if eta.shape[1] == 2 else eta

    def predict_log_proba(self, X: ArrayLike, offset: ArrayLike | None = None) -> FloatArray:
        """Return log probabilities, shape (n_samples, n_classes)."""
        from scipy.special import log_softmax

        return np.asarray(log_softmax(self._predictors(X, offset), axis=1))

    def predict_proba(self, X: ArrayLike, offset: ArrayLike | None = None) -> FloatArray:
        """Return probabilities, shape (n_samples, n_classes), in the order of ``classes_``."""
        from scipy.special import softmax

        return np.asarray(softmax(self._predictors(X, offset), axis=1))

    def predict(self, X: ArrayLike, offset: ArrayLike | None = None) -> NDArray[Any]:
        """Return the most probable class of each row."""
        best = self._predictors(X, offset).argmax(axis=1)
        return np.asarray(self.classes_[best])


def _checked_weights(weights: ArrayLike | None, n: int) -> FloatArray | None:
    if weights is None:
        return None
    numbers = np.asarray(weights, dtype=np.float64)
    if numbers.shape != (n,):
        raise FirthshotError(
            f"Sample weights have shape {numbers.shape}: give one for each of {n} rows."
        )
    bad = np.flatnonzero(~(numbers >= 0.0) | ~np.isfinite(numbers))
    if len(bad):
        raise FirthshotError(
            f"Sample weight {numbers[bad[0]]} in row {bad[0] + 1} is not a frequency: "
            "weights must be finite and not negative."
        )
    if not numbers.any():
        raise FirthshotError("Every sample weight is zero: give some row a positive weight.")
    return numbers


def _checked_offset(offset: ArrayLike | None, n: int, contrasts: int) -> FloatArray | None:
    if offset is None:
        return None
    numbers = np.asarray(offset, dtype=np.float64)
    if numbers.shape == (n,) and contrasts == 1:
        numbers = numbers[:, None]
    if numbers.shape != (n, contrasts) or not np.all(np.isfinite(numbers)):
        raise FirthshotError(
            f"The offset has shape {numbers.shape} or values that are not finite: "
            f"give finite numbers of shape ({n}, {contrasts})."
        )
    return numbers
