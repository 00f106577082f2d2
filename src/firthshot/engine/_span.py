"""Features rotated onto the span of a few rows, so that a solver never works in d dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Bias = Literal["joint", "free", "none"]

# A Gram matrix knows its eigenvalues to 1e-16 of the largest: below this ratio the singular
# vectors are taken from the rows themselves.
_WELL_CONDITIONED = 1e-8


@dataclass(frozen=True)
class Span:
    """Weighted rows written in an orthonormal basis of their span.

    The rows are [X 1] (``joint``: the intercept is a weight like the others), X − mean (``free``: the
    intercept is on its own, and appended as the last coordinate) or X (``none``).

    Attributes
    ----------
    features : (N, r), the rows in the basis; with a free intercept the last column is ones
    squares : (r,), weighted mean squares of the columns, which are orthogonal under the weights
    rank : int, of the rows [X 1], or X without an intercept
    """

    features: Array
    squares: Array
    rank: int
    bias: Bias
    mean: Array
    _left: Array
    _right: Array

    def weights(self, theta: Array) -> tuple[Array, Array]:
        """Return coef (m, d) and intercept (m,) of parameters θ (m, r) in the basis."""
        rotated = theta[:, :-1] if self.bias == "free" else theta
        rows = (rotated @ self._left) @ self._right
        if self.bias == "joint":
            return rows[:, :-1], rows[:, -1]
        if self.bias == "free":
            return rows, theta[:, -1] - rows @ self.mean
        return rows, np.zeros(len(rows))


def span_of_rows(X: Array, weights: Array, bias: Bias) -> Span:
    """Rotate rows X (N, d), whose positive weights sum to one, onto their span.

    With √weights ∘ rows = U σ V' the features are rows · V; for N ≤ d they come from the
    eigenvectors of the Gram matrix, V is never formed and W = θ V' is (θ/σ) U' (√weights ∘ rows).
    """
    mean = weights @ X if bias == "free" else np.zeros(X.shape[1])
    rows = X - mean if bias == "free" else X
    if bias == "joint":
        rows = np.column_stack([X, np.ones(len(X))])
    root = np.sqrt(weights)[:, None]
    scaled = root * rows
    if len(rows) <= rows.shape[1]:
        U, sigma = _left_vectors(scaled)
        features, left, right = U * (sigma / root), U.T / sigma[:, None], scaled
    else:
        V, sigma = _leading(scaled.T @ scaled, scaled.shape)
        features, left, right = rows @ V, np.eye(len(sigma)), V.T
    squares, rank = sigma**2, len(sigma)
    if bias == "free":
        features = np.column_stack([features, np.ones(len(X))])
        squares, rank = np.append(squares, 1.0), rank + 1
    return Span(features, squares, rank, bias, mean, left, right)


def _leading(symmetric: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return eigenvectors and square roots of the eigenvalues that exceed rounding."""
    values, vectors = np.linalg.eigh(symmetric)
    kept = values > max(values[-1], 0.0) * max(shape) * np.finfo(float).eps
    return vectors[:, kept], np.sqrt(values[kept])


def _left_vectors(rows: Array) -> tuple[Array, Array]:
    """Return left singular vectors (N, r) and singular values (r,) of rows with N ≤ d."""
    U, sigma = _leading(rows @ rows.T, rows.shape)
    if not len(sigma) or sigma[0] ** 2 >= _WELL_CONDITIONED * sigma[-1] ** 2:
        return U, sigma
    U, sigma, _ = np.linalg.svd(rows, full_matrices=False)
    kept = sigma > sigma[0] * max(rows.shape) * np.finfo(float).eps
    return U[:, kept], sigma[kept]
