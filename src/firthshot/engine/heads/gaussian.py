"""Gaussian classes with one covariance, shrunk: linear discriminant analysis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from firthshot.arrays import Array, unit_length
from firthshot.engine.heads.base import Head
from firthshot.engine.heads.base_classes import BaseFacts
from firthshot.engine.heads.centroid import class_means
from firthshot.engine.options import Solver, require

if TYPE_CHECKING:
    from firthshot.engine._trial import Fitted, Trial
    from firthshot.objective import PenaltyTables


@dataclass(frozen=True)
class SharedGaussian(Head):
    """Classes of equal weight that share one covariance, shrunk towards a sphere.

    Rows are brought to unit length first, unless ``unit`` is False.
    ``shrinkage`` is the share of the sphere, as in scikit-learn's
    ``LinearDiscriminantAnalysis(solver="lsqr", shrinkage=…)``; None is that of Ledoit and Wolf
    (2004), of the rows seen from the means of their classes. One shot leaves the sphere alone, and
    with it the nearest class mean.
    """

    shrinkage: float | None = None
    unit: bool = True

    name = "gaussian"
    words = "Gaussian"
    penalised = False
    own_solver = "closed-form"

    def __post_init__(self) -> None:
        require(
            self.shrinkage is None or 0 < self.shrinkage <= 1,
            f"shrinkage = {self.shrinkage} must lie in (0, 1], or be None.",
        )

    def fit(
        self, trial: Trial, _solver: Solver, form: PenaltyTables, keep_weights: bool
    ) -> dict[int, Fitted]:
        """Classify by ⟨x, Σ⁻¹ m_c⟩ − ½ ⟨m_c, Σ⁻¹ m_c⟩."""
        from firthshot.engine._trial import fitted_for_all, query_logits

        X = trial.support.astype(np.float64)
        if self.unit:
            X, trial = unit_length(X), replace(trial, query=trial.query.unit())
        coef, intercept = self.weights(X, trial)
        logits = query_logits(trial, coef[None], intercept[None])
        weights = {"coef": coef, "intercept": intercept} if keep_weights else {}
        norm = float((coef**2).sum() + (intercept**2).sum())
        return fitted_for_all(form, logits, norm, weights)

    def weights(self, X: Array, trial: Trial) -> tuple[Array, Array]:
        """Return the linear weights (K, d) and intercepts (K,) of rows X."""
        means = class_means(X, trial.labels, trial.n_classes)
        centre = means.mean(0)
        inside = X - means[trial.labels]
        share, sphere = self._sphere(inside)
        coef = _solve(inside, share, sphere, means - centre)
        return coef, -0.5 * ((means + centre) * coef).sum(1)

    def _sphere(self, inside: Array) -> tuple[float, float]:
        """Return the sphere's share of the covariance, and its variance."""
        variance = float((inside**2).sum()) / inside.size
        if not variance:
            return 1.0, 1.0
        return self.shrinkage or ledoit_wolf(inside, variance), variance


@dataclass(frozen=True)
class BaseGaussian(SharedGaussian):
    """The Gaussian head seen through the base classes: their covariance takes the sphere's place.

    Rows are whitened by the covariance inside the base classes first; how much of the support's own
    covariance stands beside it is again Ledoit and Wolf's share.
    """

    base: BaseFacts | None = None

    name = "gaussian-base"
    words = "Gaussian (base covariance)"
    needs_base = True

    def weights(self, X: Array, trial: Trial) -> tuple[Array, Array]:
        """Return the weights of whitened rows, for rows as they are."""
        if self.base is None:
            return super().weights(X, trial)
        whitening = self.base.whitening
        coef, intercept = super().weights(X @ whitening, trial)
        return coef @ whitening, intercept

    def _sphere(self, inside: Array) -> tuple[float, float]:
        """Return the share of the base classes' covariance, which is a sphere of variance one."""
        if not inside.any():
            return 1.0, 1.0
        return self.shrinkage or ledoit_wolf(inside, 1.0), 1.0


def ledoit_wolf(inside: Array, variance: float) -> float:
    """Return the share of a sphere of this variance that loses least in the mean square."""
    n, d = inside.shape
    products = inside @ inside.T / n
    squares = float((products**2).sum())  # ‖S‖², S = inside' inside / n
    trace = float(np.trace(products))
    distance = squares - 2 * variance * trace + variance**2 * d
    noise = float((np.diagonal(products) ** 2).sum()) - squares / n
    return float(min(1.0, max(noise / distance, 1e-6))) if distance > 0 else 1.0


def _solve(inside: Array, share: float, sphere: float, right: Array) -> Array:
    """Return Σ⁻¹ right' for Σ = (1 − share) inside' inside / n + share · sphere · I, as rows.

    By the identity of Woodbury where there are fewer rows than dimensions.
    """
    n, d = inside.shape
    level, own = share * sphere, (1 - share) / n
    if n >= d:
        covariance = own * inside.T @ inside
        covariance.flat[:: d + 1] += level
        return np.asarray(np.linalg.solve(covariance, right.T).T)
    small = own * inside @ inside.T
    small.flat[:: n + 1] += level
    correction = np.linalg.solve(small, own * inside @ right.T)
    return np.asarray((right - correction.T @ inside) / level)
