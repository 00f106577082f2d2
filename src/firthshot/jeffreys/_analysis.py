"""What an analysis reports besides the table: deviance, AIC, BIC, robust covariance."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from firthshot.errors import FirthshotError, check_choice
from firthshot.jeffreys._model import CONVENTIONS, Fit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from firthshot.jeffreys._kernels.memory import FloatArray

ROBUST = ("HC0", "HC1", "HC2", "HC3")


class AnalysisMixin:
    """Further numbers of `JeffreysLogisticRegression`, all at Firth's estimate."""

    fit_: Fit
    rank_: int
    correction: str
    contrasts_: NDArray[Any]
    standard_errors: str
    parameter_names_: list[str]
    _used: NDArray[np.bool_]

    @property
    def deviance_(self) -> float:
        """Minus twice the log-likelihood without penalty, each row on its own."""
        return -2.0 * self.fit_.loglik

    @property
    def aic_(self) -> float:
        """Deviance plus twice the number of coefficients."""
        return self.deviance_ + 2.0 * self.rank_ * len(self.contrasts_)

    @property
    def bic_(self) -> float:
        """Deviance plus log n for each coefficient, n the sum of the weights."""
        size = self.fit_.model.data.w.sum()
        return float(self.deviance_ + np.log(size) * self.rank_ * len(self.contrasts_))

    def robust_cov(self, kind: str = "HC1", clusters: ArrayLike | None = None) -> FloatArray:
        """Return a sandwich covariance matrix of the coefficients, in the order of the names.

        ``F⁻¹ M F⁻¹``, where M sums the squares of the rows' scores without penalty. Weights are
        frequencies here.

        Parameters
        ----------
        kind : {"HC0", "HC1", "HC2", "HC3"}, default="HC1"
            HC1 multiplies by n / (n - k), or with clusters (n - 1) / (n - k), k the number of
            coefficients. HC2 and HC3 divide scores by 1 - h or its square, h the hat value, and
            exist for two classes without clusters.
        clusters : array-like of shape (n_samples,), default=None
            Scores are summed in each cluster first, and M is multiplied by G / (G - 1).
        """
        check_choice("kind", kind, ROBUST)
        self._refuse_correction()
        if kind in ROBUST[2:] and (clusters is not None or len(self.contrasts_) > 1):
            raise FirthshotError(f"{kind} needs two classes and no clusters: use HC0 or HC1.")
        fitted = self.fit_
        data, k = fitted.model.data, fitted.model.size
        n = float(data.w.sum())
        scores = _scores(fitted)
        if clusters is None:
            # one of w equal rows has the hat value h / w
            shrink = (1.0 - fitted.hat / data.w) ** {"HC2": 1, "HC3": 2}.get(kind, 0)
            factor, meat = n / (n - k), (scores * (data.w / shrink)[:, None]).T @ scores
        else:
            sums = _cluster_sums(scores * data.w[:, None], np.asarray(clusters), self._used)
            factor, meat = (n - 1.0) / (n - k), sums.T @ sums * (len(sums) / (len(sums) - 1.0))
        inverse = fitted.inverse_information
        T = np.kron(np.eye(fitted.model.contrasts), fitted.model.design.T) @ inverse
        covariance = T @ meat @ T.T * (factor if kind == "HC1" else 1.0)
        determined = fitted.estimable
        return np.where(np.outer(determined, determined), covariance, np.nan)

    @property
    def is_robust(self) -> bool:
        """Whether standard errors come from another matrix than the information."""
        return self.standard_errors not in CONVENTIONS

    def with_covariance(
        self, covariance: str | ArrayLike = "HC1", clusters: ArrayLike | None = None
    ) -> Self:
        """Return a copy of the fitted model whose Wald inference uses another covariance.

        Standard errors, Wald intervals and Wald tests change; profile intervals and
        likelihood-ratio tests use the likelihood alone.

        Parameters
        ----------
        covariance : {"HC0", "HC1", "HC2", "HC3"} or array, default="HC1"
            A kind of `robust_cov`, or a matrix of shape (n_parameters, n_parameters).
        clusters : array-like of shape (n_samples,), default=None
            As in `robust_cov`.
        """
        if isinstance(covariance, str):
            matrix, name = self.robust_cov(covariance, clusters), covariance
            if clusters is not None:
                name += f", {len(np.unique(np.asarray(clusters)[self._used]))} clusters"
        else:
            self._refuse_correction()
            matrix = _given_matrix(covariance, len(self.parameter_names_), clusters)
            name = "from the matrix given"
        made, parts = (
            copy(self),
            {field.name: getattr(self.fit_, field.name) for field in fields(Fit)},
        )
        made.fit_ = _FitWithCovariance(**parts, name=name, matrix=matrix)
        made.standard_errors = name
        return made

    def _refuse_correction(self) -> None:
        if self.correction != "none":
            raise FirthshotError("Robust covariances are those of Firth's fit: use no correction.")


@dataclass(frozen=True, kw_only=True)
class _FitWithCovariance(Fit):
    """A fit with one more convention of standard errors."""

    name: str
    matrix: FloatArray

    def covariance(self, convention: str = "inverse-information") -> FloatArray:
        return self.matrix if convention == self.name else super().covariance(convention)


def _given_matrix(given: Any, size: int, clusters: Any) -> FloatArray:
    if clusters is not None:
        raise FirthshotError("A matrix has its clusters in it: name a kind, such as 'HC1'.")
    try:
        matrix = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.zeros(0)
    square = matrix.shape == (size, size) and np.allclose(matrix, matrix.T, equal_nan=True)
    if not square or np.any(np.diag(matrix) <= 0.0):
        raise FirthshotError(
            f"The matrix is no covariance of {size} coefficients: give a symmetric one of "
            f"{size} x {size} with positive variances."
        )
    return matrix


def _scores(fitted: Fit) -> FloatArray:
    """Return the score of each row, of weight one, in the basis of the design: (n, J r)."""
    data = fitted.model.data
    observed = data.y[None, :] == np.arange(1, fitted.model.contrasts + 1)[:, None]
    residuals = observed - fitted.P
    return np.asarray((residuals[:, None, :] * data.Z[None]).reshape(-1, data.y.size).T)


def _cluster_sums(scores: FloatArray, clusters: NDArray[Any], used: NDArray[Any]) -> FloatArray:
    if clusters.shape != used.shape:
        raise FirthshotError(
            f"The clusters have shape {clusters.shape}: give one for each of {used.size} rows."
        )
    if any(one is None or one != one for one in clusters[used].tolist()):  # NaN
        raise FirthshotError("Some clusters are missing: give every row its cluster.")
    labels, codes = np.unique(clusters[used], return_inverse=True)
    if len(labels) < 2:
        raise FirthshotError("All rows are in one cluster: a covariance needs two clusters.")
    sums = np.zeros((len(labels), scores.shape[1]))
    np.add.at(sums, codes, scores)
    return sums
