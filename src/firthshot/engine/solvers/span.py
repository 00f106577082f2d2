"""Features rotated onto the span of a few rows, so that a solver never works in d dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from firthshot.arrays import Array

Bias = Literal["joint", "free", "none"]

# From so many rows on the optimum is approached in float32 first (`lbfgs`); twice the value makes
# fits of some thousand rows slower, half of it those of a thousand.
MANY_ROWS = 2000

# A Gram matrix knows its eigenvalues to 1e-16 of the largest: below this ratio the singular
# vectors are taken from the rows themselves.
_WELL_CONDITIONED = 1e-8
# Up to this condition number float32 knows the directions that matter.
_WITHIN_SINGLE = 1e6


@dataclass(frozen=True)
class RowSpan:
    """Weighted rows written in an orthonormal basis V of their span, so that W = θ V'.

    The rows are [X 1] (``joint``: the intercept is a weight like the others), X − mean (``free``:
    the intercept is on its own, and appended as the last coordinate) or X (``none``).
    """

    features: Array  # (N, r), the rows in the basis; with a free intercept the last column is ones
    squares: Array  # (r,), weighted mean squares of the columns
    rank: int  # of the rows [X 1], or of X without an intercept
    bias: Bias
    mean: Array  # (d,), what a free intercept subtracts
    _rows: Array
    _basis: Basis

    def distinct(self) -> tuple[Array, Array]:
        """Return the first of equal rows, by number (M,), and for every row which of these (N,)."""
        _, first, which = np.unique(self._rows, axis=0, return_index=True, return_inverse=True)
        return first, which.ravel()

    def weights(self, theta: Array) -> tuple[Array, Array]:
        """Return coef (m, d) and intercept (m,) of parameters θ (m, r) in the basis."""
        rotated = theta[:, :-1] if self.bias == "free" else theta
        along = self._basis.expand(rotated)
        if self._basis.of_rows:
            coef, constant = along @ self._rows, along.sum(1)
        else:
            coef, constant = along[:, : len(self.mean)], along[:, -1]
        if self.bias == "free":
            return coef, theta[:, -1] - coef @ self.mean
        return coef, constant if self.bias == "joint" else np.zeros(len(coef))


@dataclass(frozen=True)
class Basis:
    """How coordinates become combinations of the rows (``of_rows``), or parameters directly.

    θ V' is θ left', or θ left⁻¹ where ``left`` is triangular, times ``scale``.
    """

    of_rows: bool
    left: Array | None = None
    triangular: bool = False
    scale: Array | float = 1.0

    def expand(self, theta: Array) -> Array:
        """Return dual variables (m, N), or parameters (m, d)."""
        if self.triangular:
            from scipy.linalg import solve_triangular

            theta = solve_triangular(self.left, theta.T, lower=True, trans=1, check_finite=False).T
        elif self.left is not None:
            theta = theta @ self.left.T
        return theta * self.scale


def span_of_rows(X: Array, weights: Array, bias: Bias, steepness: Array, n_classes: int) -> RowSpan:
    """Rotate rows X (N, d), whose positive weights sum to one, onto their span.

    For N ≤ d the basis comes from the Gram matrix and is never formed. It diagonalises the second
    moments, which makes conjugate gradients fast; where these are fast anyway, a triangular basis
    (or none, for N > d) saves the eigenvectors.

    Parameters
    ----------
    steepness : (L,)
        Curvature of the loss over that of the L2 term: times the largest second moment, it is the
        condition number without diagonalisation. Infinite without L2.
    """
    mean = weights @ X if bias == "free" else np.zeros(X.shape[1])
    rows = X - mean if bias == "free" else X
    n, joint = len(X), bias == "joint"
    root = np.sqrt(weights)[:, None]
    if n <= X.shape[1] + joint:
        moments = (rows @ rows.T + float(joint)) * (root * root.T)
        largest = float(np.linalg.norm(moments))
        diagonalise = _rotation_pays_off(largest, n, n, steepness, n_classes)
        features, basis = _few(rows, root, moments, bias, diagonalise)
    else:
        full = np.column_stack([rows, np.ones(n)]) if joint else rows
        largest = float(weights @ np.einsum("ij,ij->i", full, full))
        diagonalise = _rotation_pays_off(largest, n, full.shape[1], steepness, n_classes)
        features, basis = full, Basis(False)
        if diagonalise:
            features, basis = _many(full, weights, float(steepness.max()) * largest)
    rank, squares = features.shape[1], weights @ features**2
    if basis.triangular and bias == "free":
        rank -= 1
    if bias == "free":
        features = np.column_stack([features, np.ones(n)])
        squares, rank = np.append(squares, 1.0), rank + 1
    return RowSpan(features, squares, rank, bias, mean, rows, basis)


def independent_span(X: Array, weights: Array, intercept: bool) -> RowSpan:
    """Return what `span_of_rows` does where there is no L2: columns at right angles."""
    return span_of_rows(X, weights, "joint" if intercept else "none", np.array([np.inf]), 2)


def _rotation_pays_off(largest: float, n: int, rank: int, steepness: Array, n_classes: int) -> bool:
    """Weigh eigenvectors, about 0.4 ns · r³, against extra products of conjugate gradients.

    These take √condition products of N r C multiplications per Newton step, at worst; ``largest``
    bounds the second moments. With many rows, moments and rotation cost another 3 N r², and there
    are fewer products, because L-BFGS has come near the optimum before. The factors 0.25, 7 and 0.2
    are ratios of measured times; they change the time, and results within the tolerance only.
    """
    roots = np.sqrt(1 + steepness * largest).sum()
    if n >= MANY_ROWS and rank < n:
        return bool(0.25 * n_classes * roots >= rank + 7 * rank**2 / n)
    return bool(0.2 * n_classes * roots * n >= rank**2)


def _few(
    rows: Array, root: Array, moments: Array, bias: Bias, diagonalise: bool
) -> tuple[Array, Basis]:
    """Return features and basis of at most d rows, from their weighted Gram matrix."""
    if not diagonalise:
        factor = _cholesky(moments, root if bias == "free" else None)
        if factor is not None:
            features = factor / root
            if bias == "free":
                features -= (root[:, 0] ** 2) @ features
            return features, Basis(True, factor, triangular=True, scale=root[:, 0])
    vectors, sigma = _leading(moments, max(rows.shape))
    if len(sigma) and sigma[0] ** 2 < _WELL_CONDITIONED * sigma[-1] ** 2:
        full = np.column_stack([rows, np.ones(len(rows))]) if bias == "joint" else rows
        vectors, sigma, _ = np.linalg.svd(root * full, full_matrices=False)
        kept = sigma > sigma[0] * max(rows.shape) * np.finfo(float).eps
        vectors, sigma = vectors[:, kept], sigma[kept]
    return vectors * (sigma / root), Basis(True, vectors / sigma, scale=root[:, 0])


def _many(rows: Array, weights: Array, condition: float) -> tuple[Array, Basis]:
    """Return features and basis of more than d rows, from their second moments.

    Directions that do not exceed rounding may still be real (features of very small scale); they
    are kept where L2 keeps their weights finite. ``condition`` is infinite where it does not. Where
    it is far from float32's rounding, moments in float32 diagonalise well enough; their
    eigenvectors are a basis all the same.
    """
    precision = np.float32 if condition <= _WITHIN_SINGLE else np.float64
    scaled = np.empty(rows.shape, precision)
    np.multiply(rows, np.sqrt(weights)[:, None], out=scaled, casting="same_kind")
    moments = np.asarray(scaled.T @ scaled, np.float64)
    if np.isfinite(condition):
        vectors = np.linalg.eigh(moments)[1]
    else:
        vectors, _ = _leading(moments, max(rows.shape))
    return rows @ vectors, Basis(False, vectors)


def _leading(symmetric: Array, size: int) -> tuple[Array, Array]:
    """Return eigenvectors and square roots of the eigenvalues that exceed rounding."""
    values, vectors = np.linalg.eigh(symmetric)
    kept = values > max(values[-1], 0.0) * size * np.finfo(float).eps
    return vectors[:, kept], np.sqrt(values[kept])


def _cholesky(gram: Array, centre: Array | None) -> Array | None:
    """Return Cholesky's factor of a weighted Gram matrix, None where it is not well-conditioned.

    Centred rows are dependent: ``centre``, the roots of their weights, spans the null space. There
    the rows get a constant feature, which makes them independent and vanishes when the features
    are centred; L2 keeps its weight at zero.
    """
    if centre is not None:
        gram = gram + np.trace(gram) * centre * centre.T
    try:
        factor = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return None
    diagonal = np.diag(factor)
    if diagonal.min() ** 2 < _WELL_CONDITIONED * diagonal.max() ** 2:
        return None
    return np.asarray(factor)
