"""Compare two nested fits by the penalised likelihood ratio."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError, check_choice
from firthshot.jeffreys._summary import chi_squared, number, probability
from firthshot.jeffreys._tests import chi2_tail, gain_over_null, likelihood_ratio_test

if TYPE_CHECKING:
    from firthshot.jeffreys._kernels.memory import FloatArray
    from firthshot.jeffreys._regression import Regression
    from firthshot.jeffreys.estimator import JeffreysLogisticRegression

_CAVEATS = {
    "null-calibrated": "Each model is penalised by its own information and measured from its own "
    "null model, as logistf's anova(method = 'PLR') does. The two penalties differ, so χ² is not a "
    "ratio of one likelihood: use penalty='full-information' to match intervals.",
    "full-information": "The smaller model is penalised by the information of the larger one, as "
    "in profile intervals and test(). It is not the smaller model fitted alone.",
}
_OUTSIDE = 1e-8  # what a column may have outside the span of others, relative to its length


@dataclass(frozen=True)
class Comparison:
    """Penalised likelihood-ratio test of two nested models.

    Attributes
    ----------
    chi2 : float
    df : int
    p_value : float
    penalty : str
    smaller, larger : dict of str to float
        Number of coefficients, log-likelihood, AIC and BIC of each model.
    """

    chi2: float
    df: int
    p_value: float
    penalty: str
    smaller: dict[str, float]
    larger: dict[str, float]

    def __str__(self) -> str:
        """Return both models, the test, and what the test compares."""
        lines = ["model    " + "".join(f"{name:>16}" for name in self.smaller)]
        for title, model in (("smaller", self.smaller), ("larger", self.larger)):
            lines.append(f"{title:<9}" + "".join(f"{number(v):>16}" for v in model.values()))
        test = f"χ² = {chi_squared(self.chi2)} on {self.df} df, p = {probability(self.p_value)}"
        return "\n".join([*lines, "", f"Penalised likelihood ratio: {test}", fill(self.caveat, 80)])

    @property
    def caveat(self) -> str:
        """What the test compares, in words."""
        return _CAVEATS[self.penalty]


def compare(
    first: Regression | JeffreysLogisticRegression,
    second: Regression | JeffreysLogisticRegression,
    *,
    penalty: str = "full-information",
) -> Comparison:
    """Test the smaller of two nested models against the larger one.

    Parameters
    ----------
    first, second : Regression or JeffreysLogisticRegression
        Fits to the same rows, in any order. The columns of one are combinations of the other's.
    penalty : {"full-information", "null-calibrated"}, default="full-information"
        Penalise both models by the information of the larger one, as `test` and logistf's
        ``anova(method = "nested")`` do; or each by its own, from its null model, as logistf's
        ``anova(method = "PLR")`` does.

    Returns
    -------
    Comparison
    """
    check_choice("penalty", penalty, tuple(_CAVEATS))
    models = [_model_of(first), _model_of(second)]
    smaller, larger = sorted(models, key=lambda model: model.rank_)
    _check_same_data(smaller, larger)
    contained = _coordinates(smaller.fit_.model.X, larger.fit_.model.X)
    df = (larger.rank_ - smaller.rank_) * len(larger.contrasts_)
    if penalty == "null-calibrated":
        chi2 = 2.0 * (gain_over_null(larger.fit_) - gain_over_null(smaller.fit_))
        chi2 = max(0.0, chi2) if np.isfinite(chi2) else np.nan
    else:
        forms = np.asarray(np.kron(np.eye(len(larger.contrasts_)), contained), dtype=np.float64)
        chi2 = likelihood_ratio_test(larger.fit_, forms, np.zeros(len(forms))).chi2
    p_value = float(chi2_tail(chi2, df))
    return Comparison(chi2, df, p_value, penalty, _described(smaller), _described(larger))


def _model_of(fit: Any) -> JeffreysLogisticRegression:
    model: JeffreysLogisticRegression = getattr(fit, "model", getattr(fit, "estimator", fit))
    return model


def _described(model: JeffreysLogisticRegression) -> dict[str, float]:
    return {
        "coefficients": model.rank_ * len(model.contrasts_),
        "log-likelihood": model.loglik_,
        "AIC": model.aic_,
        "BIC": model.bic_,
    }


def _check_same_data(smaller: Any, larger: Any) -> None:
    """Refuse fits of other rows, outcomes, penalties, and fits of one size."""
    for name in ("tau", "fit_intercept", "reference_"):
        if getattr(smaller, name) != getattr(larger, name):
            raise FirthshotError(f"The two models differ in {name.rstrip('_')}: fit both alike.")
    for name, word in (("y", "outcome"), ("w", "weights"), ("offset", "offset")):
        if not np.array_equal(*(getattr(m.fit_.model.data, name) for m in (smaller, larger))):
            raise FirthshotError(
                f"The two models were fitted to different rows ({word}): use the same rows, and "
                "leave out rows with missing values before both fits."
            )
    for model in (smaller, larger):
        if not model.converged_:
            raise FirthshotError(f"A model has not converged ({model.reason_}): correct it first.")
        if model.correction == "flac":
            raise FirthshotError("correction='flac' changes the likelihood: fit without it.")
    if smaller.rank_ == larger.rank_:
        raise FirthshotError(
            f"Both models have rank {smaller.rank_}: a comparison needs one inside the other."
        )


def _coordinates(small: FloatArray, large: FloatArray) -> FloatArray:
    """Return the forms that vanish on the smaller model, in the larger one's coefficients."""
    scale, unit = np.linalg.norm(large, axis=0), small / np.linalg.norm(small, axis=0)
    inside = np.linalg.lstsq(large / scale, unit, rcond=None)[0]
    if np.abs(large / scale @ inside - unit).max() > _OUTSIDE:
        raise FirthshotError(
            "Neither model is nested in the other: every column of the smaller one must be a "
            "combination of columns of the larger one; compare aic_ instead."
        )
    left, sizes, _ = np.linalg.svd(inside, full_matrices=True)
    rank = int((sizes > _OUTSIDE * sizes[0]).sum())
    return np.asarray(left[:, rank:].T * scale)
