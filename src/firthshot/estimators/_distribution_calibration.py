"""Distribution Calibration with the face of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from firthshot.engine import Status
from firthshot.errors import FirthshotError
from firthshot.estimators._base import HeadEstimator
from firthshot.estimators._linear import FirthClassifier
from firthshot.estimators._optimum import FittedHead, public, take_shared_away
from firthshot.estimators._small import ridge_rows
from firthshot.estimators._support import Candidates, Support
from firthshot.objective import theory_lambda

if TYPE_CHECKING:
    from firthshot.calibration import CalibratedLinear


UNFINISHED = (
    "The solver stopped before reaching tol: raise tol or max_iter; below about 1e-7 single "
    "precision ends."
)


@dataclass(kw_only=True, eq=False, repr=False)
class DistributionCalibrationClassifier(HeadEstimator):
    """Multinomial logistic regression on a support set enlarged by Distribution Calibration.

    Every support row, after Tukey's transform, lends its mean to a normal distribution together
    with those of the nearest base classes, whose covariance it takes; artificial rows are drawn
    from it (Yang, Liu & Xu, ICLR 2021). With N rows in all, artificial ones included, the fit
    minimises

        Σ_i [ CE(y_i‖p_i) + lam · KL(u‖p_i) ] + (l2 / 2) ‖W‖².

    Parameters
    ----------
    base : BaseStatistics, or a pair of arrays (means (B, d), covariances (B, d, d))
        Of base classes, in raw features (`firthshot.calibration.base_statistics`).
    artificial : int, default=750
        Artificial rows per class, shared evenly over its support rows; 0 for none.
    neighbours : int, default=2
        Base classes that lend mean and covariance.
    alpha : float, default=0.21
        Added to every entry of the covariance.
    power : float, default=0.5
        Of Tukey's transform ``sign(x) |x|^power``, applied to support and query; 1 for none.
    lam : float, "shots", "theory" or "loo", default=0.01
        Strength of the bias reduction; the default is the authors' pick for one shot and 750
        artificial rows. "theory" is K · rank(X) / (2N), artificial rows included; "shots" and
        "loo" look at the support rows, as in `FirthClassifier`.
    l2 : float, "scale" or "loo", default=1.0
        Ridge, the 1/C of scikit-learn. "scale" and "loo" follow the transformed support rows, as
        in `FirthClassifier`.
    prior : {"uniform", "class-frequency"} or array of shape (n_classes,), default="uniform"
    class_prior : None, "uniform", "training", dict or array of shape (n_classes,), default=None
        As in `FirthClassifier`.
    calibrate : bool, default=False
        Divide logits by a temperature fitted to support rows that were left out, as in
        `FirthClassifier`: at most five refits.
    random_state : int, default=0
        Key of the stream of artificial rows, which are the same for every ``lam``.
    tol : float, default=3e-6
        Largest entry of the gradient, of the objective divided by N, at the end; without
        artificial rows as in `FirthClassifier`.
    max_iter : int, default=200

    Attributes
    ----------
    classes_, coef_, intercept_, lam_, l2_, n_iter_, converged_, temperature_, …
        As in `FirthClassifier`; ``coef_`` acts on transformed features.
    """

    base: Any = field(default=None, kw_only=False)
    artificial: int = 750
    neighbours: int = 2
    alpha: float = 0.21
    power: float = 0.5
    lam: float | str = 0.01
    l2: float | str = 1.0
    prior: Any = "uniform"
    class_prior: Any = None
    calibrate: bool = False
    random_state: int = 0
    tol: float = 3e-6
    max_iter: int = 200

    fit_intercept: ClassVar[bool] = True  # type: ignore[misc]
    class_weight = None

    def _prepare(self, X: Any) -> Any:
        from firthshot.calibration import tukey

        return tukey(X, self.power)

    def _head(self) -> CalibratedLinear:
        from firthshot.calibration import BaseStatistics, CalibratedLinear

        base = self.base
        if base is None:
            raise FirthshotError(
                "Distribution Calibration needs base statistics: give base=base_statistics(bank), "
                "or a pair of means and covariances."
            )
        if not isinstance(base, BaseStatistics):
            base = BaseStatistics(*base)
        return CalibratedLinear(base, self.artificial, self.neighbours, self.alpha)

    def _fit_path(self, support: Support, path: Candidates) -> list[FittedHead]:
        from firthshot.calibration import CalibrationTerms, solve_path

        if np.ptp(support.weights) > 0:
            raise FirthshotError(
                "Distribution Calibration draws as many rows around every support row of a class: "
                "it takes no sample_weight."
            )
        head = self._head()
        if not self.artificial:
            return FirthClassifier(tol=self.tol, max_iter=self.max_iter)._fit_path(support, path)
        rows = head.draw(support.X, support.labels, self.random_state, 0)
        share = ridge_rows(support.n_classes) / rows.count
        terms = [
            CalibrationTerms(1.0 + lam, 1.0, lam * support.prior, l2 * share) for lam, l2 in path
        ]
        found = solve_path(rows, support.n_classes, terms, self.tol, self.max_iter)
        heads = []
        for one in found:
            coef, intercept = map(np.array, rows.weights(one.theta))
            take_shared_away(coef, intercept)
            problem = "" if one.status == Status.OK else UNFINISHED
            heads.append(FittedHead(public(coef, intercept, support), one.iterations, problem))
        return heads

    def _theory(self, support: Support) -> float:
        shots = support.rows_per_class
        rows = int((shots + self.artificial // shots * shots).sum())
        return theory_lambda(support.n_classes, min(rows, support.X.shape[1] + 1), rows)

    def save(self, path: str | Path, **_more: Any) -> NoReturn:
        """Refuse: the base statistics it was made with are no part of a model file."""
        raise FirthshotError(
            f"{path} is not written: a DistributionCalibrationClassifier cannot be saved; keep its "
            "coef_ and intercept_, which act on features under Tukey's transform."
        )
