"""The preconditioner ("metric") of a calibrated task: nearly its Hessian, known beforehand.

With D_y the sum of diag p − pp' over the rows of class y, divided by the number of all rows, and
D = Σ_y D_y, rows that scatter about their class mean m_y as all rows do would have the Hessian

    D ⊗ T + Σ_y D_y ⊗ m_y m_y' + decay,       T the second moments within classes,

with T and m_y known before any row is drawn. How uncertain predictions are differs much between
classes, and so the second term is worth its price. With S = T + Σ_y π_y m_y m_y', the moments of
all rows, and δ the mean eigenvalue of D, this is (nearly)

    D ⊗ (S + decay/δ) + Σ_y B_y ⊗ m_y m_y',     B_y = D_y − π_y D:

a product whose inverse is that of its factors, plus a term of C² directions, inverted by
Woodbury's identity.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import spotrf, spotrs

from firthshot.arrays import Array
from firthshot.calibration._task import F32, CalibrationRows

# A factor serves shifts within this ratio of its own: the metric is then off by as much in the
# directions that L2 rules, where L-BFGS corrects it. Half the ratio factorises twice as often.
_NEAR = 4.0
# The least shift, as a share of the mean variance and at all: features without variance and without
# L2 would leave nothing to factorise. float32 knows a moment to about the former.
_LEAST_SHARE, _LEAST = 1e-6, 1e-12
# Eigenvalues of D below this share of the largest are the constant direction over classes, which
# has no curvature and no gradient either.
_CONSTANT = 1e-4


class MomentFactor:
    """S + shift, factorised, and (S + shift)⁻¹ times the class means."""

    def __init__(self, rows: CalibrationRows, shift: float) -> None:
        self.shift = shift
        self.triangle = _factorise(rows, shift)
        self.means = rows.class_means
        self.solved_means = self.solve(self.means)
        self.products = self.means.astype(np.float64) @ self.solved_means.T

    def solve(self, vectors: Array) -> Array:
        """Return (S + shift)⁻¹ times vectors (…, width)."""
        flat = vectors.reshape(-1, vectors.shape[-1])
        return np.asarray(spotrs(self.triangle, flat.T, lower=1)[0].T).reshape(vectors.shape)


def _factorise(rows: CalibrationRows, shift: float) -> Array:
    """Return LAPACK's factor of S + shift, or of more where float32 needs more to factorise."""
    shifted = rows.moments.copy()
    np.einsum("ii->i", shifted)[: rows.d] += shift
    # A symmetric matrix is its own transpose, so that LAPACK need not turn it round.
    triangle, failed = spotrf(shifted.T, lower=1, clean=0, overwrite_a=1)
    return _factorise(rows, 10 * shift) if failed else np.asarray(triangle)


class Metrics:
    """The metrics of all coefficients of a task; a factor serves all that need about its shift."""

    def __init__(self, rows: CalibrationRows) -> None:
        self.rows = rows
        self.shares = np.bincount(rows.labels, minlength=len(rows.class_means)) / rows.count
        variances = np.einsum("ii->i", rows.moments)[: rows.d]
        self.least = max(_LEAST_SHARE * float(variances.mean()), _LEAST)
        self.factors: list[MomentFactor] = []

    def inverse(self, curvatures: Array, decay: float, gradients: Array) -> Array:
        """Return the inverse metric, of D_y by class y, times gradients (…, C, width)."""
        total = curvatures.sum(axis=0)
        factor = self._factor(max(decay / _level(total), self.least))
        by_class = _pseudo_inverse(total)
        plain = factor.solve(by_class.astype(F32) @ gradients)
        # The C² directions of the second term, by class y of the rows and class c of the weights.
        excess = curvatures - self.shares[:, None, None] * total
        met = np.einsum("yck,...ky->...yc", excess, plain @ factor.means.T)
        coupling = np.einsum("yz,yck->yczk", factor.products, excess @ by_class)
        size = met.shape[-1] ** 2
        system = coupling.reshape(size, size) + np.eye(size)
        inner = np.linalg.solve(system, met.reshape(-1, size).T).T.reshape(met.shape)
        back = np.einsum("ck,...yk->...cy", by_class, inner).astype(F32)
        return np.asarray(plain - back @ factor.solved_means)

    def _factor(self, shift: float) -> MomentFactor:
        for factor in self.factors:
            if 1 / _NEAR < shift / factor.shift < _NEAR:
                return factor
        self.factors.append(MomentFactor(self.rows, shift))
        return self.factors[-1]


def _pseudo_inverse(curvature: Array) -> Array:
    """Return the inverse of D where it has one."""
    values, vectors = np.linalg.eigh(curvature)
    inverted = np.zeros_like(values)
    np.divide(1.0, values, out=inverted, where=values > _CONSTANT * values[-1])
    return np.asarray((vectors * inverted) @ vectors.T)


def _level(curvature: Array) -> float:
    """Return the mean eigenvalue of D in the directions that differ between classes."""
    return max(float(np.trace(curvature)) / (len(curvature) - 1), _LEAST)
