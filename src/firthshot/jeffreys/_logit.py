"""Exact Firth regression behind the names that statsmodels uses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from firthshot.errors import check_choice
from firthshot.jeffreys._inference import INTERVALS
from firthshot.jeffreys._regression import Regression, regress
from firthshot.jeffreys.estimator import JeffreysLogisticRegression

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from numpy.typing import ArrayLike

    from firthshot.jeffreys._kernels.memory import FloatArray
    from firthshot.jeffreys._summary import Summary
    from firthshot.jeffreys._tests import TestResult


class Logit:
    """Logistic regression with Firth's penalty, called as in statsmodels.

    Parameters
    ----------
    endog : array-like of shape (n,)
        Labels of two or more classes.
    exog : array-like of shape (n, p)
        Columns, with a column of ones if there is to be a constant.
    freq_weights, offset : array-like of shape (n,), default=None
    **options
        Parameters of `JeffreysLogisticRegression`, such as ``tau`` and ``reference``.

    Examples
    --------
    >>> X = [[1, 0], [1, 0], [1, 0], [1, 1], [1, 1], [1, 1]]
    >>> Logit([0, 0, 0, 1, 1, 1], X).fit().params.round(4).tolist()
    [-1.9459, 3.8918]
    """

    def __init__(
        self,
        endog: ArrayLike,
        exog: ArrayLike,
        *,
        freq_weights: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        **options: Any,
    ) -> None:
        self.endog, self.exog = endog, exog
        self._rows = {"sample_weight": freq_weights, "offset": offset}
        self._options = options
        self._formula: str | None = None

    @classmethod
    def from_formula(cls, formula: str, data: Any, **options: Any) -> Self:
        """Make the model of a formula and a table; ``options`` are those of `regress`."""
        made = cls(np.zeros(0), data, **options)
        made._formula = formula
        return made

    def fit(self, method: str = "profile") -> LogitResults:
        """Fit, with inference by profile penalised likelihood or by Wald's method.

        Parameters
        ----------
        method : {"profile", "wald"}, default="profile"
            Of `pvalues`, `conf_int` and `summary`. statsmodels has Wald's.
        """
        check_choice("method", method, INTERVALS)
        if self._formula is not None:
            fitted = regress(self._formula, self.exog, **self._options)
            return LogitResults(fitted.model, method, fitted)
        model = JeffreysLogisticRegression(fit_intercept=False, **self._options)
        return LogitResults(model.fit(self.exog, self.endog, **self._rows), method)


@dataclass(frozen=True)
class LogitResults:
    """What a fit of `Logit` found, as pandas objects in the order of the coefficients.

    Attributes
    ----------
    estimator : JeffreysLogisticRegression
        The fitted model, with everything else that it can do.
    method : {"profile", "wald"}
    regression : Regression or None
        The fit of a formula.
    """

    estimator: JeffreysLogisticRegression
    method: str
    regression: Regression | None = None

    def _named(self, numbers: FloatArray) -> pd.Series[Any]:
        import pandas as pd

        return pd.Series(numbers, index=self.estimator.parameter_names_)

    @property
    def params(self) -> pd.Series[Any]:
        """Coefficients."""
        return self._named(self.estimator.params_)

    @property
    def bse(self) -> pd.Series[Any]:
        """Standard errors."""
        return self._named(self.estimator.bse())

    @cached_property
    def pvalues(self) -> pd.Series[Any]:
        """P-values against zero: penalised likelihood ratio, or Wald's."""
        way = "wald" if self.method == "wald" else "likelihood-ratio"
        return self._named(np.array([t.p_value for t in self.estimator.test(method=way)]))

    @property
    def llf(self) -> float:
        """Log-likelihood without the penalty."""
        return self.estimator.loglik_

    @property
    def aic(self) -> float:
        """Akaike's criterion, of the log-likelihood without the penalty."""
        return self.estimator.aic_

    @property
    def bic(self) -> float:
        """Bayesian criterion, of the log-likelihood without the penalty."""
        return self.estimator.bic_

    def cov_params(self) -> pd.DataFrame:
        """Return the covariance matrix of the coefficients."""
        import pandas as pd

        names = self.estimator.parameter_names_
        return pd.DataFrame(self.estimator.cov_params(), index=names, columns=names)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return intervals of level ``1 - alpha``; columns 0 and 1 are the bounds."""
        import pandas as pd

        bounds = self.estimator.conf_int(1.0 - alpha, self.method)
        return pd.DataFrame(bounds, index=self.estimator.parameter_names_)

    def summary(self, alpha: float = 0.05) -> Summary:
        """Return the table, which prints itself."""
        return (self.regression or self.estimator).summary(1.0 - alpha, self.method)

    def predict(self, exog: Any, offset: ArrayLike | None = None) -> FloatArray:
        """Return the probability of the second class, or of all classes if there are more.

        ``exog`` has the columns of the fit, or those of the table if there was a formula.
        """
        chances = (self.regression or self.estimator).predict_proba(exog, offset)
        return chances[:, 1] if chances.shape[1] == 2 else chances

    def wald_test(self, r_matrix: Any, value: ArrayLike = 0.0) -> TestResult:
        """Test ``R β = value``: a matrix, the name of a coefficient, or a list of names."""
        hypothesis = r_matrix if isinstance(r_matrix, str | dict) else _matrix_or_names(r_matrix)
        result: TestResult = self.estimator.test(hypothesis, value, method="wald")
        return result


def _matrix_or_names(given: Any) -> Any:
    array = np.asarray(given)
    return array if array.dtype.kind in "fiu" else list(given)
