"""Exact Firth regression by formula: what ``firthshot regress`` does, as a function."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError, check_choice
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

    def test_terms(
        self, *, method: str = "likelihood-ratio", penalty: str = "full-information"
    ) -> dict[str, TestResult]:
        """Test each term of the formula: all its coefficients zero, in every class, others free.

        Parameters are those of `JeffreysLogisticRegression.test`.
        """
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

    def summary(
        self, level: float = 0.95, method: str = "profile", *, odds_ratios: bool = False
    ) -> Summary:
        """Return the table of coefficients, followed by tests of terms if one has several.

        Parameters are those of `JeffreysLogisticRegression.summary`.
        """
        from firthshot.jeffreys._summarise import summarise

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
        method: str = "profile",
    ) -> Figure:
        """Draw odds ratios or profiles, as `JeffreysLogisticRegression.plot` does."""
        return self.model.plot(path, kind=kind, level=level, method=method)

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
        cov: ArrayLike | None = None,
    ) -> pd.DataFrame:
        """Return probabilities or linear predictors for other rows, with intervals if wanted.

        Parameters
        ----------
        data : pandas or polars frame, or dict
            Rows with the columns of the right-hand side.
        kind : {"probability", "linear"}, default="probability"
            Linear predictors are log odds against the reference, offset included.
        interval : {"wald"}, default=None
            Add ``std_error``, ``lower`` and ``upper``. Bounds of a probability are made on the
            logit scale, so that they lie between 0 and 1; standard errors by the delta method.
        level : float, default=0.95
        offset : array-like of shape (n,), default=None
            As in `predict_proba`.
        cov : array-like of shape (n_parameters, n_parameters), default=None
            Another covariance matrix, such as ``model.robust_cov()``.

        Returns
        -------
        pandas.DataFrame
            One line for each row and class; of two classes the second one only.
        """
        from firthshot.jeffreys._prediction import predict

        if interval is not None:
            check_choice("interval", interval, ("wald",))
        frame, shift = self._new_design(data, offset)
        return predict(self, frame, shift, kind, level if interval else None, cov)

    def marginal_effects(
        self,
        data: Any,
        variables: Sequence[str] | None = None,
        *,
        level: float = 0.95,
        cov: ArrayLike | None = None,
    ) -> pd.DataFrame:
        """Return average marginal effects on the probabilities, with delta-method intervals.

        The effect of a number is the mean slope of the probability, through every term that holds
        the variable. The effect of a level is the mean change from the first level to it.

        Parameters
        ----------
        data : pandas or polars frame, or dict
            Rows to average over, usually those of the fit; the fit's column of weights counts.
        variables : sequence of str, default=None
            Columns of the table; all that the formula reads if None.
        level : float, default=0.95
        cov : array-like of shape (n_parameters, n_parameters), default=None
            Another covariance matrix, such as ``model.robust_cov()``.

        Returns
        -------
        pandas.DataFrame
            One line for each variable, change and class; of two classes the second one only.
        """
        from firthshot.jeffreys._prediction import marginal_effects

        return marginal_effects(self, data, variables, level, cov)


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
