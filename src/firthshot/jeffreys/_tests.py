"""Penalised likelihood-ratio tests and Wald tests of linear hypotheses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import FirthshotError, check_choice
from firthshot.jeffreys._design import make_design
from firthshot.jeffreys._model import Fit, Maximum, Model, fit
from firthshot.jeffreys._restricted import restricted_maxima, side_by_side
from firthshot.progress import ambient_listener

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firthshot.jeffreys._kernels.memory import FloatArray

PENALTIES = ("full-information", "drop-column", "null-calibrated")
HIGHER_BY = 1e-4  # in log-likelihood: above the rounding of long sums, below any printed digit
HIGHER = "the restricted fit lies higher than the full fit, which is a local maximum only"
_CONSTANT = 1e-12  # range of a constant column made again from its basis, relative to its size


@dataclass(frozen=True)
class TestResult:
    """Outcome of one test.

    Attributes
    ----------
    chi2 : float
    df : int
    p_value : float
    restricted_loglik : float
        Penalised log-likelihood under the hypothesis; NaN for a Wald test.
    converged : bool
    reason : str
        How the restricted fit ended.
    """

    __test__ = False  # not a test class, whatever pytest thinks of its name

    chi2: float
    df: int
    p_value: float
    restricted_loglik: float
    converged: bool
    reason: str


def no_test(reason: str, df: int = 1) -> TestResult:
    """Return the outcome of a test that cannot be made."""
    return TestResult(np.nan, df, np.nan, np.nan, False, reason)


UNDETERMINED = no_test("not determined by the data")


def chi2_tail(chi2: FloatArray | float, df: int) -> FloatArray:
    """Return the upper tail probability of the chi-squared distribution."""
    from scipy.special import chdtrc

    return np.asarray(chdtrc(df, np.maximum(chi2, 0.0)))


def wald_test(fitted: Fit, C: FloatArray, values: FloatArray, convention: str) -> TestResult:
    """Test ``C β = values`` by the squared distance in the metric of the covariance."""
    gap = C @ fitted.beta.ravel() - values
    spread = C @ fitted.covariance(convention) @ C.T
    chi2 = float(gap @ np.linalg.solve(spread, gap))
    p_value = float(chi2_tail(chi2, len(C)))
    return TestResult(chi2, len(C), p_value, np.nan, True, "Wald test: no restricted fit")


def likelihood_ratio_test(
    fitted: Fit, C: FloatArray, values: FloatArray, penalty: str = PENALTIES[0]
) -> TestResult:
    """Test ``C β = values``, C (m, J p), by twice the difference of penalised log-likelihoods.

    With ``full-information`` the restricted fit is penalised by the information of the full model
    (logistf). The other two remove whole columns, and the smaller model is penalised by its own
    information; ``null-calibrated`` compares each model with its own null model first, so that the
    statistic does not depend on the units of the dropped columns.
    """
    check_choice("penalty", penalty, PENALTIES)
    if not np.all(fitted.estimable[np.any(C != 0.0, axis=0)]):
        raise FirthshotError(
            "The hypothesis involves coefficients that collinear columns leave undetermined: "
            "remove the columns named in `dependent_columns_` and fit again."
        )
    if penalty == "full-information":
        (restricted,) = restricted_maxima(fitted, C[None], values[None])
        return _compare(fitted.penalised_loglik, restricted, len(C))
    columns = _whole_columns(fitted, C, values)
    smaller = fit(_without_columns(fitted.model, columns), tol=fitted.tol)
    if penalty == "drop-column":
        return _compare(fitted.penalised_loglik, smaller.maximum, len(C), nested=False)
    gains = [gain_over_null(one) for one in (fitted, smaller)]
    full = gains[0] - gains[1] + smaller.penalised_loglik
    if not np.isfinite(full):
        return no_test("a null model has no maximum", len(C))
    return _compare(full, smaller.maximum, len(C), nested=False)


def each_coefficient(fitted: Fit, indices: Sequence[int]) -> tuple[TestResult, ...]:
    """Test each coefficient against zero by the penalised likelihood ratio.

    The restricted fits keep the information of the full model.
    """
    results = dict.fromkeys(indices, UNDETERMINED)
    determined = [k for k in indices if fitted.estimable[k]]
    eye, some = np.eye(fitted.beta.size), side_by_side(fitted)
    listener = ambient_listener()
    listener.start(len(indices), "coefficients tested")
    listener.advance(len(indices) - len(determined))
    for start in range(0, len(determined), some):
        rows = determined[start : start + some]
        zeros = np.zeros((len(rows), 1))
        maxima = restricted_maxima(fitted, eye[rows][:, None], zeros, rough=True)
        for k, maximum in zip(rows, maxima, strict=True):
            results[k] = _compare(fitted.penalised_loglik, maximum, 1)
        listener.advance(len(rows))
    return tuple(results[k] for k in indices)


def _compare(full: float, restricted: Maximum, df: int, nested: bool = True) -> TestResult:
    """Return the test; unless ``nested`` the penalties differ, and either model may lie higher."""
    reached = restricted.reached
    if nested and restricted.converged and reached > full + HIGHER_BY:
        return TestResult(np.nan, df, np.nan, reached, False, HIGHER)
    chi2 = max(0.0, 2.0 * (full - reached)) if restricted.converged else np.nan
    p_value = float(chi2_tail(chi2, df)) if df else 1.0
    return TestResult(chi2, df, p_value, reached, restricted.converged, restricted.reason)


def _whole_columns(fitted: Fit, C: FloatArray, values: FloatArray) -> list[int]:
    """Return the columns of X whose coefficients the hypothesis sets to zero in every class."""
    J, p = fitted.beta.shape
    touched = np.any(C != 0.0, axis=0).reshape(J, p)
    columns = [int(k) for k in np.flatnonzero(touched.all(axis=0))]
    coordinate = np.all(np.count_nonzero(C, axis=1) == 1)
    if np.any(values != 0.0) or not coordinate or touched.sum() != J * len(columns):
        raise FirthshotError(
            "Tests that drop columns need coefficients set to zero in every class: "
            "use penalty='full-information' for other hypotheses."
        )
    return columns


def _without_columns(model: Model, columns: list[int]) -> Model:
    design = make_design(np.delete(model.X, columns, axis=1))
    return Model(design, model.data._replace(Z=design.Z))


def gain_over_null(fitted: Fit) -> float:
    """Return the gain over the model with intercepts only, penalised by the same information."""
    model = fitted.model
    J, p = fitted.beta.shape
    X = model.X
    constant = np.flatnonzero(np.ptp(X, axis=0) <= _CONSTANT * np.abs(X).max(axis=0))
    others = np.setdiff1d(np.arange(p), constant[:1])
    C = np.eye(J * p)[[j * p + k for j in range(J) for k in others]]
    if not len(C):
        return 0.0
    (null,) = restricted_maxima(fitted, C[None], np.zeros((1, len(C))))
    return fitted.penalised_loglik - null.penalised_loglik if null.converged else np.nan
