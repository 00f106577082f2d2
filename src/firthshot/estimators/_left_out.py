"""Leave-one-out: what a support set says of a head without any other data.

For the linear head one Newton step per left-out row stands for a fit. At the optimum of
Σ_i w_i [CE_i + λ KL_i] + (l2/2) ‖W‖² the gradient of the objective without row i is
−w_i g_i x_i', g_i = (1 + λ) p_i − y_i − λ u, and its Hessian H − x_i x_i' ⊗ A_i,
A_i = w_i (1 + λ)(diag p_i − p_i p_i'). With J_i = (I ⊗ x_i') H⁻¹ (I ⊗ x_i), (K, K), Newton's step
moves the logits of row i, by the formula of Sherman, Morrison and Woodbury, to

    z_i + (I − J_i A_i)⁻¹ J_i w_i g_i.

All J_i at once cost about 5 K N³ operations, because H is the sum of one block per class and a
coupling of rank N (the structure of Laplace's approximation for multi-class Gaussian processes).
Beyond a budget H is replaced by its value where all samples are equally curved: J_i is then the
leverage of row i times the identity, which is the better, the more rows there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from firthshot.arrays import Array
from firthshot.estimators._small import ridge_rows
from firthshot.estimators._support import Candidates, Support
from firthshot.objective import log_softmax, softmax

# Operations (5 K N³) and numbers (K N²) that one pair of coefficients may take.
MOST_OPERATIONS = 5e10
MOST_NUMBERS = 1e8
# The prior precision that stands for a free intercept, as a share of what the data say of it.
INTERCEPT_SHARE = 1e-4
# The least ridge, as a share of the loss's curvature: without any, H has no inverse.
RIDGE_SHARE = 1e-8


@dataclass(frozen=True)
class LeftOut:
    """Predictions of each row by a head that was fitted without it.

    Attributes
    ----------
    rows : (R,), which rows of the support set (of positive weight) could be left out
    labels, weights : (R,), their class numbers and weights
    logits : (R, K)
    """

    rows: Array
    labels: Array
    weights: Array
    logits: Array

    @property
    def nll(self) -> float:
        """Return the weighted mean of −log p of the labels, NaN without rows."""
        return self._mean(self.losses)

    @property
    def accuracy(self) -> float:
        """Return the weighted share of rows whose label is the most probable class."""
        return self._mean(self.hits)

    @property
    def predicted(self) -> Array:
        """Return the most probable class number of each row, (R,)."""
        return np.asarray(self.logits.argmax(axis=1))

    @property
    def losses(self) -> Array:
        """Return −log p of each row's label, (R,)."""
        return np.asarray(-log_softmax(self.logits)[np.arange(len(self.labels)), self.labels])

    @property
    def hits(self) -> Array:
        """Return 1 for each row whose label is the most probable class, else 0, (R,)."""
        return np.asarray(self.predicted == self.labels, dtype=float)

    def mean_ci(self, values: Array) -> float:
        """Return the half-width of the 95 % interval of a weighted mean over the rows."""
        share = self.weights / self.weights.sum()
        error = float(np.linalg.norm(share * (values - self._mean(values))))
        return 1.96 * error if len(self.rows) > 1 else np.nan

    def _mean(self, values: Array) -> float:
        return float(np.average(values, weights=self.weights)) if len(self.rows) else np.nan


def left_out(support: Support, rows: Array, logits: Array) -> LeftOut:
    """Return the left-out predictions of some rows of a support set from their logits."""
    return LeftOut(rows, support.labels[rows], support.weights[rows], logits)


def leavable_rows(support: Support) -> Array:
    """Return the rows that are not the only one of their class: the others teach all there is."""
    return np.flatnonzero(support.rows_per_class[support.labels] > 1)


def choose(left: Sequence[LeftOut], path: Candidates) -> tuple[int, dict[str, Array]]:
    """Return the position of the least left-out nll, and the scores of the whole path."""
    lam, l2 = np.array(path).T
    nll, accuracy = np.array([(one.nll, one.accuracy) for one in left]).T
    return int(np.argmin(nll)), {"lam": lam, "l2": l2, "nll": nll, "accuracy": accuracy}


def posterior_kernel(
    support: Support, gram: Array, lam: float, l2: float, *, intercept: bool
) -> Array:
    """Return X X' / l2 from X X', plus the prior variance of the intercept."""
    curvature = (1 + lam) * support.weights.sum() / support.n_classes
    least = RIDGE_SHARE * curvature * float(np.diag(gram).mean())
    kernel = gram / (max(l2 * ridge_rows(support.n_classes), least) or 1.0)
    return np.asarray(kernel + 1 / (INTERCEPT_SHARE * curvature) if intercept else kernel)


def left_out_logits(
    support: Support, kernel: Array, logits: Array, lam: float, rows: Array
) -> Array:
    """Return logits (R, K) of some rows by the head without each, after one Newton step.

    Parameters
    ----------
    kernel : (N, N), of `posterior_kernel`
    logits : (N, K), by the head of all rows
    """
    p, heavy = softmax(logits), (1 + lam) * support.weights
    blocks_of = _exact if leaves_out_exactly(*p.shape) else _equal_curvature
    blocks = blocks_of(kernel, heavy, p, rows)
    p, heavy, n_classes = p[rows], heavy[rows, None], support.n_classes
    targets = support.one_hot()[rows] + lam * support.prior
    pull = support.weights[rows, None] * ((1 + lam) * p - targets)
    curvature = -p[:, :, None] * p[:, None, :]
    curvature[:, np.arange(n_classes), np.arange(n_classes)] += p
    curvature *= heavy[:, :, None]
    step = np.linalg.solve(np.eye(n_classes) - blocks @ curvature, blocks @ pull[:, :, None])
    return np.asarray(logits[rows] + step[:, :, 0])


def leaves_out_exactly(rows: int, classes: int) -> bool:
    """Tell whether rows are left out with the exact Hessian; beyond, single ones may be far off."""
    return 5 * classes * rows**3 <= MOST_OPERATIONS and classes * rows**2 <= MOST_NUMBERS


def _exact(kernel: Array, heavy: Array, p: Array, rows: Array) -> Array:
    """Return J_i of some rows, (R, K, K), with weights ``heavy`` = w (1 + λ).

    With D_c = diag(w (1 + λ) p_c) and E_c = D_c^½ (I + D_c^½ k D_c^½)⁻¹ D_c^½, block (c, c') of
    the posterior covariance is δ_cc' (k − k E_c k) + k E_c (Σ_c E_c)⁻¹ E_c' k.
    """
    n, n_classes = p.shape
    half = np.sqrt(np.maximum(heavy[:, None] * p, 1e-300)).T
    taken = kernel[:, rows]
    total, along = np.zeros((n, n)), np.empty((n_classes, n, len(rows)))
    for c in range(n_classes):
        inner = half[c, :, None] * kernel * half[c]
        inner[np.diag_indices(n)] += 1.0
        inverse = cho_solve(cho_factor(inner, lower=True, check_finite=False), np.diag(half[c]))
        inverse *= half[c, :, None]
        total += inverse
        along[c] = inverse @ taken
    own = kernel[rows, rows] - np.einsum("nr,cnr->cr", taken, along)
    factor = np.linalg.cholesky(total)
    flat = along.transpose(1, 0, 2).reshape(n, -1)
    coupling = solve_triangular(factor, flat, lower=True, check_finite=False)
    coupling = coupling.reshape(n, n_classes, len(rows)).transpose(2, 1, 0)
    blocks: Array = coupling @ coupling.transpose(0, 2, 1)
    blocks[:, np.arange(n_classes), np.arange(n_classes)] += own.T
    return blocks


def _equal_curvature(kernel: Array, heavy: Array, p: Array, rows: Array) -> Array:
    """Return J_i as if all samples had the mean curvature, (R, K, K)."""
    n_classes = p.shape[1]
    flat = (1 - (p**2).sum(1)) / (n_classes - 1)
    half = np.sqrt(heavy * float(np.average(flat, weights=heavy)))
    inner = half[:, None] * kernel * half
    inner[np.diag_indices(len(p))] += 1.0
    factor = np.linalg.cholesky(inner)
    along = solve_triangular(factor, half[:, None] * kernel[:, rows], lower=True)
    leverage = kernel[rows, rows] - (along**2).sum(0)
    return np.asarray(leverage[:, None, None] * np.eye(n_classes))
