"""Rows of a linear head with L2 as their Gram matrix, which all coefficients of a path share.

Where rows are at most about twice as many as features, everything but the Gram matrix and the
final weights is computed in N dimensions. See :mod:`firthshot.engine._kernels.dual`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._kernels.dual import centre, minimise, weigh
from firthshot.engine._queries import round_up
from firthshot.engine._span import Bias
from firthshot.engine._trial import pad_columns
from firthshot.kernels.vectors import lanes_of

Array = npt.NDArray[Any]

# A centred Gram matrix made from an uncentred one loses digits where the mean is this much larger.
FAR_AWAY = 1e4
# Up to this condition number an inverse in float32 still preconditions well.
WITHIN_SINGLE = 1e5
# Rounding of logits in float32, with a margin.
ROUNDING = 2e-6
# So many rows of weights are computed at once: enough for a product, and few enough for a cache.
_AT_ONCE = 256


@dataclass(frozen=True)
class Rows:
    """The rows of a problem as the solver sees them.

    Attributes
    ----------
    gram : (n, n), S^½ X X' S^½, of centred rows where ``bias`` is "free", of [X 1] where it is
        "joint"; padded by zeros to whole vectors
    single : the same in float32
    weights, root, back : (n,), s, √s, and 1/√s, zero for padding
    largest, mean_square : bound on the largest eigenvalue of ``gram``, and their mean
    shift : norm of the mean of the rows, where they are centred
    """

    X: Array  # (N, d)
    bias: Bias
    gram: Array
    single: Array
    weights: Array
    root: Array
    back: Array
    root_single: Array
    largest: float
    mean_square: float
    shift: float
    mean: Array | None  # (d,), where the rows had to be centred before the product
    onto_mean: Array  # (N,), X times the mean
    unit: float  # of X: all but X, the mean and ``onto_mean`` is that of X / unit
    short: Array | None  # (N, d), X / unit in float32, centred where the intercept is free


def gather_rows(
    X: Array, weights: Array, bias: Bias, unit: float = 1.0, *, loose: bool = False
) -> Rows:
    """Compute the Gram matrix of rows X / unit (N, d), whose positive weights sum to one.

    With ``loose`` the products are computed in float32, which is good for a gradient of about 1e-5.
    """
    n, root = len(X), np.sqrt(weights)
    padded = round_up(n, lanes_of(np.float64))
    mean: Array | None
    short: Array | None = None
    if loose and bias != "joint":
        mean = weights @ X if bias == "free" else np.zeros(X.shape[1])
        short = np.empty(X.shape, np.float32)
        centre(X, mean, unit, short)
        products, onto_mean, shift = short @ short.T, np.empty(0), _norm(mean)
    elif bias == "free":
        products, mean, onto_mean, shift = _centred(X, weights)
    else:
        products, mean, onto_mean, shift = X @ X.T, None, np.empty(0), 0.0
    gram, single = np.zeros((padded, padded)), np.zeros((padded, padded), np.float32)
    along, constant = np.zeros(n), unit**2 * float(bias == "joint")
    if bias == "free" and mean is None:
        along, constant = onto_mean, float(weights @ onto_mean)
    scale = root / unit if short is None else root  # short rows are in that unit already
    largest = weigh(products, along, constant, scale, gram, single)
    root = pad_columns(root, padded)
    back = np.zeros(padded)
    np.divide(1.0, root, out=back, where=root > 0)
    return Rows(
        X, bias, gram, single, pad_columns(weights, padded), root, back, root.astype(np.float32),
        largest, float(gram.trace()) / n, shift / unit, mean, onto_mean, unit, short,
    )  # fmt: skip


def _norm(vector: Array) -> float:
    return float(np.sqrt(vector @ vector))


def _centred(X: Array, weights: Array) -> tuple[Array, Array | None, Array, float]:
    """Return XX', or (X − m)(X − m)' and m where it has to be taken off first; X m; ‖m‖."""
    gram = X @ X.T
    onto_mean = gram @ weights
    square = float(weights @ onto_mean)
    if square > FAR_AWAY * (float(weights @ np.diag(gram)) - square):
        mean = weights @ X
        rows = X - mean
        return rows @ rows.T, mean, X @ mean, _norm(mean)
    return gram, None, onto_mean, np.sqrt(max(square, 0.0))


@dataclass(frozen=True)
class Inverse:
    """(G + ridge)⁻¹ in float32, (n, n), which preconditions all coefficients of a path."""

    matrix: Array
    ridge: float


def invert(rows: Rows, ridge: float) -> Inverse | None:
    """Return (G + ridge)⁻¹, None where float32 does not know it."""
    from scipy.linalg.lapack import spotrf, spotri

    if not rows.largest <= WITHIN_SINGLE * ridge:
        return None
    shifted = rows.single.copy()
    shifted[np.diag_indices(len(shifted))] += np.float32(ridge)
    factor, failed = spotrf(shifted.T, lower=0, overwrite_a=1)
    if failed:
        return None
    upper, _ = spotri(factor, lower=0, overwrite_c=1)
    lower = np.tril(upper.T)
    matrix = lower + np.tril(lower, -1).T
    return Inverse(np.ascontiguousarray(matrix), ridge)


def minimise_from(
    rows: Rows,
    targets: Array,
    probability: float,
    decay: float,
    tolerance: float,
    max_iterations: int,
    start: Start,
    shared: Inverse | None = None,
) -> tuple[int, float, float, Array]:
    """Minimise for one coefficient, in place of the start; return how it ended.

    Parameters
    ----------
    targets : (C, n), probability, decay : the objective, see :mod:`firthshot.engine._problem`
    shared : preconditions the directions, where they need it

    Returns
    -------
    steps, bound on the largest entry of the gradient, value, dLoss/dZ (C, n)
    """
    curvature, by_logits = probability / len(targets), np.empty_like(targets)
    drift = ROUNDING * probability * float(np.sqrt(len(rows.X) * rows.mean_square))
    matrix, ridge = (rows.single, 0.0) if shared is None else (shared.matrix, shared.ridge)
    iterations, bound, value = minimise(
        rows.gram, rows.single, matrix, decay + curvature * rows.mean_square, curvature, ridge,
        rows.root_single, rows.back, rows.weights, rows.bias == "free", rows.shift, targets,
        probability, decay, tolerance, drift, max_iterations, start.nu, start.b, start.scaled,
        by_logits,
    )  # fmt: skip
    return iterations, bound, value, by_logits


@dataclass(frozen=True)
class Start:
    """Where the solver is: ν (C, n), the intercept b (C,) and ν G (C, n), or all of a path."""

    nu: Array
    b: Array
    scaled: Array

    @classmethod
    def zero(cls, *shape: int) -> Start:
        """Return zeros of a shape that ends in (C, n)."""
        return cls(np.zeros(shape), np.zeros(shape[:-1]), np.zeros(shape))

    def of(self, l: int) -> Start:
        """Return the part of one coefficient."""
        return Start(self.nu[l], self.b[l], self.scaled[l])


def weights_of(rows: Rows, nu: Array, b: Array, out: Array | None = None) -> tuple[Array, Array]:
    """Return coef (L, C, d) and intercept (L, C) of coefficients ν (L, C, n) of the rows.

    ``out`` receives coef where it is given: a path of them is large.
    """
    n, d = rows.X.shape
    coef = np.empty((*b.shape, d)) if out is None else out
    if rows.short is not None:
        return coef, _short_weights(rows, nu, b, coef)
    along = (nu[..., :n] * (rows.root[:n] / rows.unit**2)).reshape(-1, n)
    constant = b.reshape(-1)
    if rows.bias == "free":
        along -= along.sum(1, keepdims=True) * rows.weights[:n]
        constant = constant - along @ rows.onto_mean
    elif rows.bias == "joint":
        constant = along.sum(1) * rows.unit**2
    X = rows.X if rows.mean is None else rows.X - rows.mean
    np.matmul(along, X, out=coef.reshape(-1, d))
    return coef, constant.reshape(b.shape)


def _short_weights(rows: Rows, nu: Array, b: Array, coef: Array) -> Array:
    """Write coef by the rows in float32, and return the intercept."""
    assert rows.short is not None
    assert rows.mean is not None
    n, d = rows.short.shape
    along = (nu[..., :n] * (rows.root[:n] / rows.unit)).astype(np.float32).reshape(-1, n)
    flat = coef.reshape(-1, d)
    for first in range(0, len(flat), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        flat[part] = along[part] @ rows.short
    return b - coef @ rows.mean if rows.bias == "free" else np.zeros_like(b)
