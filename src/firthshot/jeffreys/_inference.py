"""What a fitted model can say: standard errors, intervals, tests, profiles, summary."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from firthshot.errors import FirthshotError, check_choice, listed
from firthshot.jeffreys._model import Fit
from firthshot.jeffreys._profile import (
    Profile,
    chi2_quantile,
    profile_curve,
    profile_intervals,
)
from firthshot.jeffreys._separation import Separation, find_separation
from firthshot.jeffreys._tests import (
    UNDETERMINED,
    TestResult,
    each_coefficient,
    likelihood_ratio_test,
    no_test,
    wald_test,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, NDArray

    from firthshot.jeffreys._kernels.memory import FloatArray
    from firthshot.jeffreys._summary import Summary
    from firthshot.jeffreys.estimator import JeffreysLogisticRegression

    Hypothesis = str | Sequence[str] | Mapping[str, float] | NDArray[np.float64]

INTERVALS = ("profile", "wald")
TESTS = ("likelihood-ratio", "wald")


class InferenceMixin:
    """Inference of `JeffreysLogisticRegression`; every array is in the order of its names."""

    fit_: Fit
    flac_fit_: Fit
    fit_intercept: bool
    tau: float
    correction: str
    standard_errors: str
    coef_: FloatArray
    intercept_: FloatArray
    contrasts_: NDArray[Any]
    reference_: Any
    parameter_names_: list[str]
    converged_: bool
    _flic_errors: FloatArray
    _used: NDArray[np.bool_]

    def _columns(self) -> list[str]:
        raise NotImplementedError

    @property
    def params_(self) -> FloatArray:
        """Coefficients as one vector, intercept first, class by class."""
        if not self.fit_intercept:
            return self.coef_.ravel()
        return np.column_stack([self.intercept_, self.coef_]).ravel()

    def _inferential_fit(self) -> tuple[Fit, list[int]]:
        """Return the fit that inference is about and the position of each parameter in it."""
        if not hasattr(self, "fit_"):
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(self)
        if self.correction != "flac":
            return self.fit_, list(range(len(self.parameter_names_)))
        p = len(self._columns())
        # FLAC's design has the indicator of pseudo-observations as one more, last column.
        return self.flac_fit_, [
            j * (p + 1) + k for j in range(len(self.contrasts_)) for k in range(p)
        ]

    def _intercept_rows(self) -> list[int]:
        p = len(self._columns())
        return [j * p for j in range(len(self.contrasts_))]

    def bse(self, convention: str | None = None) -> FloatArray:
        """Return standard errors, by default in the estimator's convention.

        Parameters
        ----------
        convention : {"inverse-information", "augmented"}, default=None
        """
        fitted, positions = self._inferential_fit()
        errors = fitted.standard_errors(convention or self.standard_errors)[positions]
        if self.correction == "flic":
            errors[self._intercept_rows()] = self._flic_errors
        return errors

    def cov_params(self, convention: str | None = None) -> FloatArray:
        """Return the covariance matrix of the coefficients, in the order of the names.

        The roots of its diagonal are `bse`; rows of coefficients that the data do not determine
        are NaN. FLIC takes its standard errors from two fits and has no such matrix.

        Parameters
        ----------
        convention : {"inverse-information", "augmented"}, default=None
        """
        if self.correction == "flic":
            raise FirthshotError(
                "FLIC's intercepts and slopes come from two fits and have no common covariance "
                "matrix: use correction='flac' or 'none'."
            )
        fitted, positions = self._inferential_fit()
        matrix = fitted.covariance(convention or self.standard_errors)[np.ix_(positions, positions)]
        determined = fitted.estimable[positions]
        return np.where(np.outer(determined, determined), matrix, np.nan)

    def conf_int(self, level: float = 0.95, method: str = "profile") -> FloatArray:
        """Return confidence intervals, shape (n_parameters, 2).

        Parameters
        ----------
        level : float, default=0.95
        method : {"profile", "wald"}, default="profile"
            Profile penalised likelihood, or estimate ± quantile x standard error. The
            intercepts of FLIC have Wald intervals always: they do not maximise the penalised
            likelihood. Without convergence there is no interval, only NaN; without penalty
            there is no bound where separation sends a coefficient to infinity.
        """
        check_choice("method", method, INTERVALS)
        if self.tau > 0.0 or self.converged_:
            return self._intervals(level, method)
        ways = np.array(list(self.separation().directions.values()))
        infinite = np.char.endswith(ways, "Inf")
        bounds = self._intervals(level, method, infinite)
        both = (ways == "±Inf") | (infinite & (method == "wald"))
        bounds[(ways == "-Inf") | both, 0] = -np.inf
        bounds[(ways == "+Inf") | both, 1] = np.inf
        return bounds

    def _intervals(
        self, level: float, method: str, infinite: NDArray[np.bool_] | None = None
    ) -> FloatArray:
        """Return intervals about the maximum; the profiles of infinite estimates are left out."""
        fitted, positions = self._inferential_fit()
        quantile = np.sqrt(chi2_quantile(level))
        if not fitted.maximum.converged:
            return np.full((len(positions), 2), np.nan)
        if method == "profile" and self.correction != "flic":
            bounds = np.full((len(positions), 2), np.nan)
            finite = np.ones(len(positions), bool) if infinite is None else ~infinite
            rows = [k for k, is_finite in zip(positions, finite, strict=True) if is_finite]
            if rows:
                bounds[finite] = profile_intervals(fitted, rows, level)
            return bounds
        margin = quantile * self.bse()
        bounds = np.column_stack([self.params_ - margin, self.params_ + margin])
        if method == "profile":
            rows = sorted(set(positions) - set(self._intercept_rows()))
            bounds[rows] = profile_intervals(fitted, rows, level)
        return bounds

    def test(
        self,
        hypothesis: Hypothesis | None = None,
        value: ArrayLike = 0.0,
        *,
        method: str = "likelihood-ratio",
        penalty: str = "full-information",
    ) -> Any:
        """Test hypotheses about the coefficients.

        Parameters
        ----------
        hypothesis : str, list of str, dict or array, default=None
            A coefficient, a column (all its coefficients), a list of either, a dict of name to
            value, or a matrix C of shape (m, n_parameters), as an array or a list of rows, for
            ``C β = value``. Without one, each coefficient is tested against zero.
        value : float or array, default=0.0
            Hypothetical values, for a list or matrix.
        method : {"likelihood-ratio", "wald"}, default="likelihood-ratio"
        penalty : {"full-information", "drop-column", "null-calibrated"}
            Which information penalises the restricted fit; see `docs/jeffreys.md`.

        Returns
        -------
        TestResult, or a tuple of them, one for each coefficient
        """
        check_choice("method", method, TESTS)
        fitted, positions = self._inferential_fit()
        if hypothesis is None:
            plain = (method, penalty) == ("likelihood-ratio", "full-information")
            if plain and fitted.maximum.converged and self.correction != "flic":
                return each_coefficient(fitted, positions)
            eye = np.eye(len(self.parameter_names_))
            return tuple(self._test(row[None], np.zeros(1), method, penalty) for row in eye)
        C, values = self._forms(hypothesis, value)
        return self._test(C, values, method, penalty)

    def _test(self, C: FloatArray, values: FloatArray, method: str, penalty: str) -> TestResult:
        fitted, positions = self._inferential_fit()
        if not fitted.maximum.converged:
            return no_test("the fit itself has not converged", len(C))
        rows = np.flatnonzero(np.any(C != 0.0, axis=0))
        if len(C) == 1 and not np.all(fitted.estimable[positions][rows]):
            return UNDETERMINED
        if self.correction == "flic" and set(rows) & set(self._intercept_rows()):
            return no_test("FLIC's intercept does not maximise the penalised likelihood", len(C))
        full = np.zeros((len(C), fitted.beta.size))
        full[:, positions] = C
        if method == "wald":
            return wald_test(fitted, full, values, self.standard_errors)
        return likelihood_ratio_test(fitted, full, values, penalty)

    def _forms(self, hypothesis: Hypothesis, value: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return C and the values of a hypothesis ``C β = values``."""
        if isinstance(hypothesis, str):
            hypothesis = [hypothesis]
        if not all(isinstance(part, str) for part in hypothesis):
            C = _matrix(hypothesis)
            if C.shape[1] != len(self.parameter_names_):
                raise FirthshotError(
                    f"The hypothesis has {C.shape[1]} columns: give one for each of the "
                    f"{len(self.parameter_names_)} names in `parameter_names_`."
                )
            return _checked_forms(C, _values(value, len(C)))
        if isinstance(hypothesis, dict):
            if np.any(np.asarray(value) != 0.0):
                raise FirthshotError(
                    "A dict holds the values of its hypothesis: give no other value."
                )
            value = list(hypothesis.values())
        names = list(hypothesis)
        rows = [self._positions(name) for name in names]
        flat = [k for group in rows for k in group]
        values = np.repeat(_values(value, len(names)), [len(group) for group in rows])
        return _checked_forms(np.eye(len(self.parameter_names_))[flat], values)

    def _positions(self, name: str) -> list[int]:
        """Return the coefficients that a name means: one, or those of a column in all classes."""
        if name in self.parameter_names_:
            return [self.parameter_names_.index(name)]
        columns = self._columns()
        if name not in columns:
            known = listed(self.parameter_names_)
            raise FirthshotError(f"No coefficient or column is called {name!r}; there are {known}.")
        k = columns.index(name)
        return [j * len(columns) + k for j in range(len(self.contrasts_))]

    def profile(self, name: str, level: float = 0.95, points: int = 61) -> Profile:
        """Return the profile penalised log-likelihood of one coefficient on a grid."""
        fitted, positions = self._inferential_fit()
        rows = self._positions(name)
        if len(rows) != 1:
            raise FirthshotError(
                f"{name!r} has a coefficient in each class: name one, as 'class:{name}'."
            )
        if not fitted.estimable[positions[rows[0]]]:
            raise FirthshotError(
                f"The data do not determine {name!r}, which has no profile: remove the columns in "
                "`dependent_columns_` and fit again."
            )
        curve = profile_curve(fitted, positions[rows[0]], name, level, points)
        if self.tau > 0.0 or self.converged_:
            return curve
        # Where the estimate is infinite, separation knows the bounds that no search finds.
        lower, upper = self.conf_int(level)[rows[0]].tolist()
        return replace(curve, interval=(lower, upper))

    def plot_profile(self, name: str, level: float = 0.95, ax: Any = None) -> Any:
        """Draw the profile of one coefficient and return the matplotlib axes."""
        from firthshot.jeffreys._plots import plot_profile

        return plot_profile(self.profile(name, level), ax, self._label(name))

    def plot(
        self,
        path: str | Path | None = None,
        *,
        kind: str = "forest",
        level: float = 0.95,
        method: str = "profile",
    ) -> Figure:
        """Draw the odds ratios of all slopes with their intervals, or the profiles.

        Parameters
        ----------
        path : str or Path, default=None
            Also write the figure to this .png, .svg or .pdf file.
        kind : {"forest", "profiles"}, default="forest"
            Odds ratios on a logarithmic axis with interval and p-value, or the profile
            likelihood of each coefficient beside its Wald approximation.
        level : float, default=0.95
        method : {"profile", "wald"}, default="profile"
            Intervals and tests of the odds ratios.

        Returns
        -------
        matplotlib Figure
        """
        from firthshot.jeffreys._plots import draw

        self._inferential_fit()
        model = cast("JeffreysLogisticRegression", self)
        return draw(model, path, kind=kind, level=level, method=method)

    def _label(self, name: str) -> str:
        """Return a name in words: a colon may stand in the class and in an interaction too."""
        if len(self.contrasts_) == 1 or name not in self.parameter_names_:
            return name
        contrast, column = divmod(self.parameter_names_.index(name), len(self._columns()))
        return f"{self._columns()[column]} ({self.contrasts_[contrast]} against {self.reference_})"

    def separation(self) -> Separation:
        """Detect separation in the data of the fit, and name the variables that cause it."""
        self._inferential_fit()
        data = self.fit_.model.data
        found = find_separation(
            self.fit_.model.X,
            data.y,
            self._columns(),
            [str(c) for c in self.contrasts_],
            weights=data.w,
            offset=data.offset.T,
        )
        separated = np.zeros(self._used.size, dtype=bool)
        separated[self._used] = found.separated
        rows = int(data.y.size)
        return replace(found, separated=separated, rows=rows, penalised=self.tau > 0.0)

    def summary(
        self, level: float = 0.95, method: str = "profile", *, odds_ratios: bool = False
    ) -> Summary:
        """Return the table that statistics packages print.

        Parameters
        ----------
        level : float, default=0.95
        method : {"profile", "wald"}, default="profile"
            Profile intervals with likelihood-ratio tests, or Wald intervals with Wald tests.
        odds_ratios : bool, default=False
            Show exp(estimate) and its bounds.
        """
        from firthshot.jeffreys._summarise import summarise

        model = cast("JeffreysLogisticRegression", self)
        return summarise(model, level, method, odds_ratios=odds_ratios)


def _matrix(rows: Any) -> FloatArray:
    try:
        return np.atleast_2d(np.asarray(rows, dtype=np.float64))
    except (TypeError, ValueError):
        raise FirthshotError(
            "The hypothesis is no matrix: give names, or rows with a number for each coefficient."
        ) from None


def _values(value: ArrayLike, rows: int) -> FloatArray:
    """Return one finite value for each row of a hypothesis."""
    try:
        values = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise FirthshotError(f"The value {value!r} of the hypothesis is no number.") from None
    if values.shape not in ((), (rows,)):
        raise FirthshotError(
            f"The values of the hypothesis have shape {values.shape}: give one number, or {rows}."
        )
    if not np.all(np.isfinite(values)):
        raise FirthshotError(f"The value {value!r} of the hypothesis is not finite.")
    return np.broadcast_to(values, rows).copy()


def _checked_forms(C: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Refuse a hypothesis that says nothing, or one thing twice."""
    if not C.size:
        raise FirthshotError("The hypothesis is empty: name a coefficient or a column.")
    if not np.all(np.isfinite(C)):
        raise FirthshotError("The hypothesis matrix has entries that are not finite.")
    if np.linalg.matrix_rank(C) < len(C):
        raise FirthshotError(
            "The rows of the hypothesis depend on one another (or are zero): leave some out."
        )
    return C, values
