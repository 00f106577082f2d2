"""LDA with automatic shrinkage as scikit-learn fits it, for more columns than rows.

scikit-learn solves with the whole covariance, which with 1,280 columns takes seconds. That
covariance is a diagonal plus a matrix of the rank of the rows, so that the same solution comes from
a system of as many equations as rows. A test compares the two.
"""

from __future__ import annotations

from typing import Self

import numpy as np


class RankLDA:
    """`LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")`, by the matrix of the rows."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Fit to rows with labels 0 … K − 1, some class with two rows or more."""
        K, (n, d) = int(y.max()) + 1, X.shape
        priors = np.bincount(y) / n
        self.means = np.array([X[y == k].mean(axis=0) for k in range(K)])
        diagonal, low_rank = np.zeros(d), []
        for k in range(K):
            rows = X[y == k]
            spread = rows.std(axis=0)
            spread[spread < 10 * np.finfo(float).eps * np.abs(rows).max()] = 1.0
            unit = (rows - self.means[k]) / spread
            shrinkage, variance = _ledoit_wolf(unit)
            diagonal += priors[k] * shrinkage * variance * spread**2
            low_rank.append(np.sqrt(priors[k] * (1 - shrinkage) / len(rows)) * unit * spread)
        self.coef = _solve(diagonal, np.concatenate(low_rank), self.means.T).T
        self.intercept = -0.5 * (self.means * self.coef).sum(axis=1) + np.log(priors)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return probabilities (n, K)."""
        z = X @ self.coef.T + self.intercept
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))


def _solve(diagonal: np.ndarray, rows: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return (diag + rows' rows)⁻¹ right by the formula of Woodbury, or the shortest solution.

    Two rows of every class leave nothing to the diagonal: scikit-learn then takes the latter.
    """
    if diagonal.max() <= 1e-12 * np.square(rows).sum():
        inverse = np.linalg.pinv(rows, rcond=1e-7)
        return np.asarray(inverse @ (inverse.T @ right))
    scaled = rows / diagonal
    inner = np.eye(len(rows)) + scaled @ rows.T
    first = right / diagonal[:, None]
    return np.asarray(first - scaled.T @ np.linalg.solve(inner, rows @ first))


def _ledoit_wolf(X: np.ndarray) -> tuple[float, float]:
    """Return the shrinkage of centred rows and the variance of its target."""
    n, d = X.shape
    squares = np.square(X).sum(axis=1)
    variance = squares.sum() / n / d
    beta_ = float(np.square(squares).sum())
    delta_ = float(np.square(X @ X.T).sum()) / n**2
    beta = (beta_ / n - delta_) / (d * n)
    delta = (delta_ - 2 * variance * squares.sum() / n + d * variance**2) / d
    return (0.0 if min(beta, delta) == 0 else min(beta, delta) / delta), float(variance)
