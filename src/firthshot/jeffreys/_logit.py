"""Exact Firth regression behind the names that statsmodels uses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from firthshot.errors import FirthshotError, check_choice
from firthshot.jeffreys._analysis import ROBUST
from firthshot.jeffreys._inference import INTERVALS
from firthshot.jeffreys._profile import chi2_quantile
from firthshot.jeffreys._regression import Regression, regress
from firthshot.jeffreys._tests import chi2_tail
from firthshot.jeffreys.estimator import JeffreysLogisticRegression

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from numpy.typing import ArrayLike

    from firthshot.jeffreys._kernels.memory import FloatArray
    from firthshot.jeffreys._summary import Summary
    from firthshot.jeffreys._tests import TestResult

COVARIANCES = ("nonrobust", *ROBUST, "cluster")


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

    def fit(
        self,
        method: str | None = None,
        cov_type: str = "nonrobust",
        cov_kwds: dict[str, Any] | None = None,
    ) -> LogitResults:
        """Fit, with inference by profile penalised likelihood or by Wald's method.

        Parameters
        ----------
        method : {"profile", "wald"}, default=None
            Of `pvalues`, `conf_int` and `summary`: profile, or Wald's if standard errors are
            robust. statsmodels has Wald's.
        cov_type : {"nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster"}, default="nonrobust"
        cov_kwds : dict, default=None
            ``{"groups": …}`` for ``cov_type="cluster"``.
        """
        check_choice("cov_type", cov_type, COVARIANCES)
        method = method or ("profile" if cov_type == "nonrobust" else "wald")
        check_choice("method", method, INTERVALS)
        groups = _groups(cov_type, cov_kwds or {})
        if self._formula is None:
            model = JeffreysLogisticRegression(fit_intercept=False, **self._options)
            fitted: Any = model.fit(self.exog, self.endog, **self._rows)
        else:
            fitted = regress(self._formula, self.exog, **self._options)
        if cov_type != "nonrobust":
            kind = "HC1" if cov_type == "cluster" else cov_type
            fitted = fitted.with_covariance(kind, groups)
        if isinstance(fitted, Regression):
            return LogitResults(fitted.model, method, cov_type, fitted)
        return LogitResults(fitted, method, cov_type)


def _groups(cov_type: str, options: dict[str, Any]) -> Any:
    """Return the clusters; refuse options that would be ignored."""
    wanted = {"groups"} if cov_type == "cluster" else set()
    if set(options) != wanted:
        raise FirthshotError(
            f"cov_type={cov_type!r} takes cov_kwds with {sorted(wanted)}, not {sorted(options)}: "
            "give cov_kwds={'groups': …} for cov_type='cluster' and none otherwise."
        )
    return options.get("groups")


@dataclass(frozen=True)
class LogitResults:
    """What a fit of `Logit` found, as pandas objects in the order of the coefficients.

    Attributes
    ----------
    estimator : JeffreysLogisticRegression
        The fitted model, with everything else that it can do.
    method : {"profile", "wald"}
    cov_type : str
    regression : Regression or None
        The fit of a formula.
    """

    estimator: JeffreysLogisticRegression
    method: str
    cov_type: str = "nonrobust"
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

    @property
    def tvalues(self) -> pd.Series[Any]:
        """Estimates divided by their standard errors: Wald's z."""
        return self.params / self.bse

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

    @property
    def nobs(self) -> float:
        """Number of rows, or the sum of their weights."""
        return float(self.estimator.fit_.model.data.w.sum())

    @cached_property
    def llnull(self) -> float:
        """Log-likelihood of the constant alone, by maximum likelihood."""
        data = self.estimator.fit_.model.data
        null = JeffreysLogisticRegression(fit_intercept=False, tau=0.0)
        return null.fit(np.ones((data.y.size, 1)), data.y, data.w, data.offset.T).loglik_

    @property
    def prsquared(self) -> float:
        """McFadden's 1 - llf / llnull."""
        return 1.0 - self.llf / self.llnull

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
        result: TestResult = self.estimator.test(r_matrix, value, method="wald")
        return result

    def t_test(self, r_matrix: Any, value: ArrayLike = 0.0, alpha: float = 0.05) -> pd.DataFrame:
        """Test each row of ``R β = value`` on its own by Wald's method; R as in `wald_test`."""
        import pandas as pd

        C, values = self.estimator._forms(r_matrix, value)
        effect, error = C @ self.params, np.sqrt(np.diag(C @ self.cov_params() @ C.T))
        z, margin = (effect - values) / error, np.sqrt(chi2_quantile(1.0 - alpha)) * error
        columns = {"coef": effect, "std err": error, "z": z, "P>|z|": chi2_tail(z**2, 1)}
        return pd.DataFrame({**columns, "lower": effect - margin, "upper": effect + margin})

    def get_margeff(self) -> pd.DataFrame:
        """Return average marginal effects, as `Regression.marginal_effects` does."""
        if self.regression is None:
            raise FirthshotError("Marginal effects need a formula: use Logit.from_formula.")
        return self.regression.marginal_effects()
