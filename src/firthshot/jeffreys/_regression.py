"""Exact Firth regression by formula: what ``firthshot regress`` does, as a function."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.formulas import ModelData, make_model_data, new_offset, new_rows
from firthshot.jeffreys._tests import TestResult, no_test
from firthshot.jeffreys.estimator import CollinearityError, JeffreysLogisticRegression

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd  # type: ignore[import-untyped]
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from firthshot.jeffreys._kernels.memory import FloatArray
    from firthshot.jeffreys._summary import Summary


@dataclass(frozen=True)
class Regression:
    """A fitted model with the design that a formula made of a table.

    Attributes
    ----------
    model : JeffreysLogisticRegression
        The fitted estimator, with `conf_int`, `test`, `profile`, `separation` and the rest.
    data : ModelData
        Design, outcome, weights and offset of the fit; ``data.terms`` maps each term to its
        columns.
    """

    model: JeffreysLogisticRegression
    data: ModelData

    def __repr__(self) -> str:
        """Name formula and size; the rows may be patients'."""
        formula, rows = self.data.source["formula"], len(self.data.y)
        return f"Regression({formula!r}, {rows} rows, {self.model.rank_} coefficients)"

    @property
    def design(self) -> pd.DataFrame:
        """Columns of the right-hand side, without intercept and offset."""
        return self.data.frame

    def with_covariance(
        self, covariance: str | ArrayLike = "HC1", clusters: str | ArrayLike | None = None
    ) -> Self:
        """Return the same fit with robust standard errors, Wald intervals and Wald tests.

        Parameters
        ----------
        covariance : {"HC0", "HC1", "HC2", "HC3"} or array, default="HC1"
            As in `JeffreysLogisticRegression.with_covariance`.
        clusters : str or array-like, default=None
            A column of the table, or the cluster of each of its rows.
        """
        if isinstance(clusters, str):
            if clusters not in self.data.table.columns:
                raise FirthshotError(f"The table has no column {clusters!r} of clusters.")
            clusters = self.data.table[clusters]
        if clusters is not None:
            clusters = self.data.of_rows(clusters)
        return replace(self, model=self.model.with_covariance(covariance, clusters))

    def test_terms(
        self, *, method: str | None = None, penalty: str = "full-information"
    ) -> dict[str, TestResult]:
        """Test each term of the formula: all its coefficients zero, in every class, others free.

        Parameters are those of `JeffreysLogisticRegression.test`; a robust covariance has Wald's
        test.
        """
        method = method or ("wald" if self.model.is_robust else "likelihood-ratio")
        return {
            term: self._test_columns(columns, method, penalty)
            for term, columns in self.data.terms.items()
        }

    def _test_columns(self, columns: tuple[int, ...], method: str, penalty: str) -> TestResult:
        model, first = self.model, int(self.data.intercept)
        width = first + self.design.shape[1]
        rows = [j * width + first + k for j in range(len(model.contrasts_)) for k in columns]
        if np.isnan(model.bse()[rows]).any():
            return no_test("collinear columns leave it undetermined", len(rows))
        result = model.test(
            np.eye(len(model.parameter_names_))[rows], method=method, penalty=penalty
        )
        assert isinstance(result, TestResult)
        return result

    def _method(self, method: str | None) -> str:
        return method or ("wald" if self.model.is_robust else "profile")

    def summary(
        self, level: float = 0.95, method: str | None = None, *, odds_ratios: bool = False
    ) -> Summary:
        """Return the table of coefficients, followed by tests of terms if one has several.

        Parameters are those of `JeffreysLogisticRegression.summary`; a robust covariance has
        Wald's method.
        """
        from firthshot.jeffreys._summarise import summarise

        method = self._method(method)
        tests = self.test_terms(method="wald" if method == "wald" else "likelihood-ratio")
        several = any(test.df > 1 for test in tests.values())
        return summarise(
            self.model,
            level,
            method,
            odds_ratios=odds_ratios,
            terms=tests if several else {},
            source=self.data.source,
        )

    def plot(
        self,
        path: str | Path | None = None,
        *,
        kind: str = "forest",
        level: float = 0.95,
        method: str | None = None,
    ) -> Figure:
        """Draw odds ratios or profiles, as `JeffreysLogisticRegression.plot` does."""
        return self.model.plot(path, kind=kind, level=level, method=self._method(method))

    def predict_proba(self, data: Any, offset: ArrayLike | None = None) -> FloatArray:
        """Return probabilities for other rows, in the order of ``model.classes_``.

        Parameters
        ----------
        data : pandas or polars frame, or dict
            Rows with the columns of the right-hand side.
        offset : array-like of shape (n,), default=None
            Instead of the column that the ``offset`` option of the fit named, if ``data`` lacks
            it; what ``offset(...)`` in the formula means is computed.
        """
        frame, shift = self._new_design(data, offset)
        return self.model.predict_proba(frame, offset=shift)

    def _new_design(
        self, data: Any, offset: ArrayLike | None
    ) -> tuple[pd.DataFrame, FloatArray | None]:
        """Return the columns and the whole offset of other rows."""
        frame, shift = new_rows(self.data, data)
        if offset is None:
            offset = new_offset(self.data, data)
        if offset is not None:
            shift = np.asarray(offset, dtype=np.float64) + (0.0 if shift is None else shift)
        return frame, shift

    def predict(
        self,
        data: Any,
        *,
        kind: str = "probability",
        interval: str | None = None,
        level: float = 0.95,
        offset: ArrayLike | None = None,
    ) -> pd.DataFrame:
        """Return probabilities or linear predictors for other rows, with intervals if wanted.

        Parameters
        ----------
        data : pandas or polars frame, or dict
            Rows with the columns of the right-hand side.
        kind : {"probability", "linear"}, default="probability"
            Linear predictors are log odds against the reference, offset included.
        interval : {"profile", "wald"}, default=None
            Add ``std_error``, ``lower``, ``upper`` and the name of the interval. Bounds of a
            probability are made on the logit scale, so that they lie between 0 and 1; standard
            errors by the delta method. With three or more classes, probabilities have Wald
            intervals and linear predictors both.
        level : float, default=0.95
        offset : array-like of shape (n,), default=None
            As in `predict_proba`.

        Returns
        -------
        pandas.DataFrame
            One line for each row and class; of two classes the second one only.
        """
        from firthshot.jeffreys._prediction import predict

        frame, shift = self._new_design(data, offset)
        return predict(self.model, frame, shift, kind=kind, interval=interval, level=level)

    def marginal_effects(
        self,
        data: Any = None,
        variables: str | Sequence[str] | None = None,
        *,
        level: float = 0.95,
    ) -> pd.DataFrame:
        """Return average marginal effects on the probabilities, with delta-method intervals.

        The effect of a number is the mean slope of the probability, through every term that holds
        the variable. The effect of a level is the mean change from the reference level to it, and
        that of a column of 0 and 1 the mean change from 0 to 1.

        Parameters
        ----------
        data : pandas or polars frame, or dict, default=None
            Rows to average over, with the fit's column of weights; the rows of the fit if None,
            and then a row of ``cbind(…)`` counts as often as it has trials.
        variables : str or sequence of str, default=None
            Columns of the table; all that the formula reads if None.
        level : float, default=0.95

        Returns
        -------
        pandas.DataFrame
            One line for each variable, change and class; of two classes the second one only.
        """
        from firthshot.jeffreys._effects import marginal_effects

        return marginal_effects(self, data, variables, level)


def regress(
    formula: str,
    data: Any,
    *,
    weights: str | None = None,
    offset: str | None = None,
    missing: str = "error",
    allow_python: bool = False,
    **options: Any,
) -> Regression:
    """Fit exact Firth regression to a data frame by a formula.

    Parameters
    ----------
    formula : str
        ``"outcome ~ terms"`` in the language of formulaic: ``C(group)``, ``a * b``,
        ``poly(age, 2)``, ``bs(age, df=4)``, ``offset(log(t))``, ``.`` for all other columns. The
        outcome is a column of classes or ``cbind(successes, failures)``. Names are columns, and
        functions are a fixed list; anything else is refused before it has a value.
    data : pandas or polars frame, or dict of columns
    weights, offset : str, default=None
        Columns of frequencies and of numbers added to the linear predictor.
    missing : {"error", "drop"}, default="error"
        Refuse missing values, or leave out the rows that have one in a column of the model.
    allow_python : bool, default=False
        Let the formula run any Python expression, with the rights of this process: it may read,
        write and delete files. Only for formulas that you wrote yourself.
    **options
        Parameters of `JeffreysLogisticRegression` besides ``fit_intercept``.

    Returns
    -------
    Regression

    Examples
    --------
    >>> table = {"dose": [0, 1, 2, 3], "ill": [0, 1, 4, 6], "n": [8, 8, 8, 8]}
    >>> fit = regress("cbind(ill, n - ill) ~ dose", table)
    >>> fit.model.coef_.round(4).tolist()
    [[1.4581]]
    """
    made = make_model_data(
        data, formula, weights=weights, offset=offset, missing=missing, allow_python=allow_python
    )
    return fit_model_data(made, **options)


def fit_model_data(data: ModelData, **options: Any) -> Regression:
    """Fit the estimator with some options to what a formula made of a table."""
    if "fit_intercept" in options:
        raise FirthshotError(
            "The formula decides about the intercept: write '- 1' to leave it out."
        )
    if options.get("reference") is None:
        options["reference"] = data.first_level
    model = JeffreysLogisticRegression(fit_intercept=data.intercept, **options)
    try:
        model.fit(data.frame, data.y, sample_weight=data.weights, offset=data.offset)
    except CollinearityError:
        _explain_spline(data)
        raise
    return Regression(model, data)


def _explain_spline(data: ModelData) -> None:
    """Name the way out where a natural spline, whose columns sum to one, meets the intercept."""
    for term in data.terms:
        if data.intercept and re.match(r"c[rc]\(.*\)$", term) and "constraints" not in term:
            raise CollinearityError(
                f"The columns of {term!r} sum to one, as the intercept does: write {term} - 1, or "
                f"{term[:-1]}, constraints='center')."
            ) from None
