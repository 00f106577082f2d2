"""What all few-shot estimators share: input, coefficients, probabilities, calibration.

A head is a subclass of `HeadEstimator` with two methods of its own, ``_fit_path`` and
``_logits``, and, where it knows a faster way than refitting, ``_left_out_logits``. All minimise

    Σ_i w_i [ CE(y_i‖p_i) + λ KL(u‖p_i) ] + (l2 / 2) ‖W‖²

over the rows i of the support set, with weights w (all 1 unless given) and the prior u (uniform
unless given). Divided by Σ w it is the paper's Equation (klobj), in which both terms are means
over the samples: λ is the same number in both, while ``l2`` is the 1/C of scikit-learn, whose
loss is a sum.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from firthshot.arrays import Array
from firthshot.estimators._input import (
    COEFFICIENT_WORDS,
    Input,
    check_coefficient,
    check_flag,
    check_solver,
)
from firthshot.estimators._left_out import LeftOut, choose, leavable_rows, left_out
from firthshot.estimators._optimum import plain_logits
from firthshot.estimators._saving import FITTED, Saving
from firthshot.estimators._support import Candidates, Support, scale_l2
from firthshot.estimators._temperature import (
    fit_temperature,
    rounds,
    share_of_support,
    support_temperature,
)
from firthshot.machine import one_thread_for_few_rows
from firthshot.objective import log_softmax, softmax, theory_coefficient

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

# Where "loo" looks, and what it falls back to when no row can be left out (one row per class).
LAM_GRID = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
L2_GRID = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # times the spread of the rows
LAM_FALLBACK = 1.0
L2_FALLBACK = 1.0


@dataclass(frozen=True)
class FittedHead:
    """A fitted head, and how the solver ended."""

    parameters: dict[str, Array]  # by the name of the attribute that will hold them
    n_iter: int
    converged: bool
    problem: str = ""  # why it has not converged and what to do, in one sentence
    start: Any = None  # where the solver may start without some of the rows


class HeadEstimator(Saving, Input, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: subclasses are dataclasses, whose fields are their parameters.

    Expected parameters: ``lam``, ``l2``, ``prior``, ``class_weight`` and ``calibrate``.
    """

    lam: float | str
    l2: float | str
    calibrate: bool

    _length_says_something: ClassVar[bool] = True  # of the rows that the head sees
    _refit_work: ClassVar[float] = 0.0  # K N³ up to which `leave_one_out` fits again

    # What a head implements

    def _fit_path(self, support: Support, path: Candidates) -> list[FittedHead]:
        """Return the heads fitted to a support set for several pairs (λ, l2)."""
        raise NotImplementedError

    def _logits(self, X: Array, parameters: dict[str, Array]) -> Array:
        """Return logits (n, K) of prepared rows X (n, d), also for two classes."""
        raise NotImplementedError

    def _left_out_logits(
        self, support: Support, rows: Array, path: Candidates, _fits: list[FittedHead]
    ) -> Array:
        """Return the logits of each row by a head fitted without it, (len(path), len(rows), K).

        Here by refitting without each. Override with something faster, which may start from the
        heads fitted to all rows.
        """
        return self._refitted_logits(support, rows[:, None], path)

    def _refitted_logits(self, support: Support, parts: Iterable[Array], path: Candidates) -> Array:
        """Return the logits of each part of the rows by heads fitted from the start without it."""
        found = [np.empty((len(path), 0, support.n_classes))]
        for part in parts:
            left = self._fit_path(support.without(part), path)
            found.append(np.stack([self._logits(support.X[part], fit.parameters) for fit in left]))
        return np.concatenate(found, axis=1)

    def _round_logits(
        self, support: Support, parts: list[Array], _fit: FittedHead, plainly: bool
    ) -> tuple[Array, Array | None]:
        """Return the logits (R, K) of parts of the rows left out, good for a temperature.

        If wished, also those that plain regression gives its rows, (N, K). Override with something
        faster, which may start from the head fitted to all rows.
        """
        logits = self._refitted_logits(support, parts, [(self.lam_, self.l2_)])[0]
        return logits, plain_logits(support) if plainly else None

    def _theory(self, support: Support) -> float:
        """Return λ = K rank(X) / (2N) of the support set; N is the sum of the weights."""
        X = support.X.toarray() if hasattr(support.X, "toarray") else support.X
        intercept = bool(getattr(self, "fit_intercept", False))
        theory = theory_coefficient(X, support.n_classes, intercept=intercept)
        return float(theory.value * theory.n_samples / support.weights.sum())

    # Fitting

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the head to a support set.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels: integers, strings or anything else that can be sorted.
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative: weight 2 is the row given twice, weight 0 the row left away.
        """
        self._check_parameters()
        support = self._support(X, y, sample_weight)
        with one_thread_for_few_rows(support.X):
            head = self._choose(support)
            self._publish(head)
            self.temperature_ = 1.0
            if self.calibrate and support.rows_differ:
                self.temperature_ = self._fit_temperature(support, head)
        if "fallback" in (self.lam_source_, self.l2_source_):
            self._say_fallback()
        return self

    def _fit_temperature(self, support: Support, fit: FittedHead) -> float:
        """Return the temperature from rows left out in rounds and from the support itself."""
        parts = list(rounds(support))
        rows = np.concatenate([np.empty(0, np.intp), *parts])
        shots = float(support.weights.sum()) / support.n_classes
        share = share_of_support(float(support.weights[rows].sum()), shots)
        plainly = share > 0 and self._length_says_something
        logits, plain = self._round_logits(support, parts, fit, plainly)
        temperature = fit_temperature(left_out(support, rows, logits)) ** (1 - share)
        if share:
            logits = self._logits(support.X, fit.parameters)
            own = support_temperature(logits, plain, support.labels, support.weights)
            temperature *= own**share
        return float(temperature)

    def leave_one_out(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> LeftOut:
        """Return what the fitted head's settings predict for each row without that row.

        Rows that are the only one of their class cannot be left out and are not among
        ``LeftOut.rows``. The coefficients are `lam_` and `l2_` of this fit; the probabilities are
        not calibrated. The estimator itself stays as it is.

        The linear and the cosine head are fitted again without each row, which is exact, where that
        takes seconds: K N³ up to 5e7, 170 rows of 10 classes. With more rows, and wherever "loo"
        compares candidates, one Newton step from the head of all rows stands for a fit: with two or
        three rows per class its accuracy is some points too high. The 3-layer head is fitted again
        without each of up to 10 rows, and without each of five parts of more.
        """
        check_is_fitted(self)
        support = self._support(X, y, sample_weight, reset=False)
        path = [(self.lam_, self.l2_)]
        exactly = support.n_classes * len(support.labels) ** 3 <= self._refit_work
        return self._left_out(support, path, None if exactly else self._fit_path(support, path))[0]

    def _check_parameters(self) -> None:
        for name in COEFFICIENT_WORDS:
            check_coefficient(name, getattr(self, name))
        for name in ("calibrate", "fit_intercept", "standardize"):
            check_flag(name, getattr(self, name, False))
        check_solver(getattr(self, "tol", 1.0), getattr(self, "max_iter", 1))

    def _choose(self, support: Support) -> FittedHead:
        """Settle λ and l2, and return the head fitted with them."""
        by_loo = "loo" in (self.lam, self.l2) and len(leavable_rows(support)) > 0
        lams, lam_source = self._candidates(self.lam, LAM_GRID, LAM_FALLBACK, by_loo, support)
        l2_grid, l2_fallback = self._l2_choices(support)
        l2s, l2_source = self._candidates(self.l2, l2_grid, l2_fallback, by_loo, support)
        path = [(lam, l2) for l2 in l2s for lam in lams]
        fits, best = self._fit_path(support, path), 0
        self.__dict__.pop("loo_path_", None)
        if by_loo:
            best, self.loo_path_ = choose(self._left_out(support, path, fits), path)
        self.lam_, self.l2_ = path[best]
        self.lam_source_, self.l2_source_ = lam_source, l2_source
        return fits[best]

    def _l2_choices(self, support: Support) -> tuple[tuple[float, ...], float]:
        """Return the grid of l2 and what stands for it without rows to leave out."""
        spread = support.moments.spread
        return tuple(spread * l2 for l2 in L2_GRID), spread * L2_FALLBACK

    def _candidates(
        self,
        value: float | str,
        grid: tuple[float, ...],
        fallback: float,
        by_loo: bool,
        support: Support,
    ) -> tuple[tuple[float, ...], str]:
        """Return the values to try for a coefficient, and where they come from."""
        if value == "theory":
            return (self._theory(support),), "theory"
        if value == "shots":
            return ((support.n_classes / float(support.weights.sum())) ** 2,), "shots"
        if value == "scale":
            return (scale_l2(support),), "scale"
        if value == "loo":
            return (grid, "loo") if by_loo else ((fallback,), "fallback")
        return (float(value),), "given"

    def _left_out(
        self, support: Support, path: Candidates, fits: list[FittedHead] | None
    ) -> list[LeftOut]:
        """Return left-out predictions for every pair of the path; without ``fits`` by refitting."""
        rows = leavable_rows(support)
        if fits is None or not len(rows):
            logits = self._refitted_logits(support, rows[:, None], path)
        else:
            logits = self._left_out_logits(support, rows, path, fits)
        return [left_out(support, rows, one) for one in logits]

    def _publish(self, fit: FittedHead) -> None:
        for name, value in fit.parameters.items():
            setattr(self, name, value)
        self._fitted_names = tuple(fit.parameters)
        self.n_iter_, self.converged_ = max(1, fit.n_iter), fit.converged
        if not fit.converged:
            warnings.warn(fit.problem, ConvergenceWarning, stacklevel=3)

    def _say_fallback(self) -> None:
        taken = [
            f"{name} = {getattr(self, name + '_'):g}"
            for name in ("lam", "l2")
            if getattr(self, name + "_source_") == "fallback"
        ]
        warnings.warn(
            f"Every class has one row, so that none can be left out: {' and '.join(taken)} "
            "is used instead of leave-one-out.",
            UserWarning,
            stacklevel=3,
        )

    # Predicting

    def _fitted_parameters(self) -> dict[str, Array]:
        """Return the head's parameters by attribute name."""
        return {name: getattr(self, name) for name in self._fitted_names}

    def _fitted_numbers(self) -> dict[str, Any]:
        """Return what else was settled, by attribute name."""
        return {name: getattr(self, name) for name in FITTED}

    def _scores(self, X: ArrayLike) -> Array:
        """Return logits (n, K) of new rows, corrected for `class_prior`."""
        check_is_fitted(self)
        found = self._logits(self._new_rows(X), self._fitted_parameters())
        if self._prior_shift is None:
            return found
        shift = np.asarray(self.temperature_ * self._prior_shift, found.dtype)
        return np.asarray(found + shift)

    def _tempered(self, X: ArrayLike) -> Array:
        """Return logits (n, K) of new rows over the temperature."""
        logits = self._scores(X)
        return logits if self.temperature_ == 1.0 else logits / self.temperature_

    def decision_function(self, X: ArrayLike) -> Array:
        """Return logits, (n_samples, n_classes), or for two classes their difference (n_samples,).

        Calibration does not change them.
        """
        logits = self._scores(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable class of each row."""
        best = self._scores(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return probabilities, (n_samples, n_classes), in the order of ``classes_``."""
        with one_thread_for_few_rows(X):
            return np.asarray(softmax(self._tempered(X)))

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Return log probabilities, (n_samples, n_classes), in the order of ``classes_``."""
        return np.asarray(log_softmax(self._tempered(X)))
