"""What all few-shot estimators share: input, coefficients, probabilities, calibration.

A head is a subclass of `HeadEstimator` with a method of its own, ``_fit_path``; with ``_shapes``
and ``_logits`` where it is not linear, and with ``_left_out_logits`` where it knows a faster way
than refitting. All minimise

    Σ_i w_i [ CE(y_i‖p_i) + λ KL(u‖p_i) ] + (l2 / 2) ‖W‖²

over the rows i of the support set, with weights w (all 1 unless given) and the prior u (uniform
unless given). Divided by Σ w it is the paper's Equation (klobj), in which both terms are means
over the samples: λ is the same number in both, while ``l2`` is the 1/C of scikit-learn, whose
loss is a sum.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from firthshot.arrays import Array
from firthshot.errors import FirthshotError
from firthshot.estimators._input import (
    COEFFICIENT_WORDS,
    Input,
    check_coefficient,
    is_number,
)
from firthshot.estimators._left_out import LeftOut, choose, leavable_rows, left_out
from firthshot.estimators._optimum import FittedHead, logits, plain_logits
from firthshot.estimators._saving import FITTED, Saving, Shapes
from firthshot.estimators._support import Candidates, Support, scale_l2, shots_lam
from firthshot.estimators._temperature import (
    fit_temperature,
    rounds,
    share_of_support,
    support_temperature,
)
from firthshot.machine import one_thread_for_few_rows
from firthshot.objective import log_softmax, softmax, theory_coefficient

Grid = tuple[float, ...]
# Where "loo" looks, and what it falls back to when no row can be left out (one row per class).
LAM_GRID = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
L2_GRID = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # times the spread of the rows
LAM_FALLBACK = 1.0
L2_FALLBACK = 1.0


class HeadEstimator(Saving, Input, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: subclasses are dataclasses, whose fields are their parameters.

    Expected parameters: ``lam``, ``l2``, ``prior``, ``class_weight`` and ``calibrate``.
    """

    lam: float | str
    l2: float | str
    calibrate: bool
    fit_intercept: bool
    tol: float
    max_iter: int

    _length_says_something: ClassVar[bool] = True  # of the rows that the head sees
    _refit_work: ClassVar[float] = 0.0  # K N³ up to which `leave_one_out` fits again

    # What a head implements

    def _fit_path(self, support: Support, path: Candidates) -> list[FittedHead]:
        """Return the heads fitted to a support set for several pairs (λ, l2)."""
        raise NotImplementedError

    def _shapes(self, d: int, n_classes: int) -> Shapes:
        """Return the shapes of the parameters by attribute name; here of a linear head."""
        rows = 1 if n_classes == 2 else n_classes
        return {"coef_": (rows, d), "intercept_": (rows,)}

    def _logits(self, X: Array, parameters: dict[str, Array]) -> Array:
        """Return logits (n, K) of prepared rows X (n, d), also for two classes."""
        return logits(X, parameters)

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
        left = self._refitted_logits(support, parts, [(self.lam_, self.l2_)])[0]
        return left, plain_logits(support) if plainly else None

    def _theory(self, support: Support) -> float:
        """Return λ = K rank(X) / (2N) of the support set; N is the sum of the weights."""
        theory = theory_coefficient(
            support.dense[0], support.n_classes, intercept=self.fit_intercept
        )
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
            self.__dict__.update(head.parameters)
            self.n_iter_, self.converged_ = max(1, head.n_iter), not head.problem
            self.temperature_ = 1.0
            if self.calibrate and support.rows_differ:
                self.temperature_ = self._fit_temperature(support, head)
        if head.problem:
            warnings.warn(head.problem, ConvergenceWarning, stacklevel=2)
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
        of_parts, plain = self._round_logits(support, parts, fit, plainly)
        temperature = fit_temperature(left_out(support, rows, of_parts)) ** (1 - share)
        if share:
            of_all = self._logits(support.X, fit.parameters)
            own = support_temperature(of_all, plain, support.labels, support.weights)
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
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_):
                raise FirthshotError(f"{name} is {value!r}; give True or False.")
        tol: Any = self.tol
        steps: Any = self.max_iter
        if not is_number(tol) or not 0.0 < tol < np.inf:
            raise FirthshotError(f"tol is {tol!r}; give a number above zero, such as 1e-6.")
        if not is_number(steps) or not steps >= 1 or steps != int(steps):
            raise FirthshotError(f"max_iter is {steps!r}; give a whole number, 1 or more.")

    def _choose(self, support: Support) -> FittedHead:
        """Settle λ and l2, and return the head fitted with them."""
        by_loo = "loo" in (self.lam, self.l2) and len(leavable_rows(support)) > 0
        lams, self.lam_source_ = self._candidates("lam", support, by_loo)
        l2s, self.l2_source_ = self._candidates("l2", support, by_loo)
        path = [(lam, l2) for l2 in l2s for lam in lams]
        fits, best = self._fit_path(support, path), 0
        self.__dict__.pop("loo_path_", None)
        if by_loo:
            best, self.loo_path_ = choose(self._left_out(support, path, fits), path)
        self.lam_, self.l2_ = path[best]
        return fits[best]

    def _candidates(self, name: str, support: Support, by_loo: bool) -> tuple[Grid, str]:
        """Return the values to try for a coefficient, and where they come from."""
        value = getattr(self, name)
        if not isinstance(value, str):
            return (float(value),), "given"
        if value == "loo":
            grid, fallback = self._grid(name, support)
            return (grid, "loo") if by_loo else ((fallback,), "fallback")
        rules = {"theory": self._theory, "shots": shots_lam, "scale": scale_l2}
        return (rules[value](support),), value

    def _grid(self, name: str, support: Support) -> tuple[Grid, float]:
        """Return where "loo" looks for a coefficient, and what stands for it without such rows."""
        if name == "lam":
            return LAM_GRID, LAM_FALLBACK
        spread = support.moments.spread
        return tuple(spread * l2 for l2 in L2_GRID), spread * L2_FALLBACK

    def _left_out(
        self, support: Support, path: Candidates, fits: list[FittedHead] | None
    ) -> list[LeftOut]:
        """Return left-out predictions for every pair of the path; without ``fits`` by refitting."""
        rows = leavable_rows(support)
        if fits is None or not len(rows):
            of_rows = self._refitted_logits(support, rows[:, None], path)
        else:
            of_rows = self._left_out_logits(support, rows, path, fits)
        return [left_out(support, rows, one) for one in of_rows]

    def _say_fallback(self) -> None:
        sources = {"lam": self.lam_source_, "l2": self.l2_source_}
        taken = [name for name, source in sources.items() if source == "fallback"]
        values = " and ".join(f"{name} = {getattr(self, name + '_'):g}" for name in taken)
        warnings.warn(
            f"Every class has one row, so that none can be left out: {values} is used instead of "
            "leave-one-out.",
            UserWarning,
            stacklevel=3,
        )

    # Predicting

    def _fitted_parameters(self) -> dict[str, Array]:
        """Return the head's parameters by attribute name."""
        names = self._shapes(self.n_features_in_, len(self.classes_))
        return {name: getattr(self, name) for name in names}

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
        found = self._scores(X)
        return found if self.temperature_ == 1.0 else found / self.temperature_

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return probabilities, (n_samples, n_classes), in the order of ``classes_``."""
        with one_thread_for_few_rows(X):
            return np.asarray(softmax(self._tempered(X)))

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Return log probabilities, (n_samples, n_classes), in the order of ``classes_``."""
        return np.asarray(log_softmax(self._tempered(X)))
