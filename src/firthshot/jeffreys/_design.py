"""A well-conditioned basis for the columns of a design matrix, whatever their scale or rank.

The penalty is equivariant: with X = Z R the fit may be computed in θ = R β and the
log-determinants differ by a constant. So columns are scaled always, orthonormalised when
they are nearly dependent, and dropped from the basis when they are dependent. Then
``det(F | r)``, the product of the non-zero eigenvalues of F (the paper's amended determinant),
is ``det F_θ · det(R R')`` per class, and β is the solution of least norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from firthshot.jeffreys._kernels import FloatArray

DEPENDENT = 1e-10  # what is left of a unit column after projection on the others
_WELL_CONDITIONED = 1e-7  # reciprocal condition number of the scaled Gram matrix
_ESTIMABLE = 1e-8


@dataclass(frozen=True)
class Design:
    """A basis Z of the columns of X, with ``X = (R' Z)'`` and ``β = T θ``.

    Attributes
    ----------
    Z : ndarray of shape (r, n)
        The basis, one row per basis vector.
    R : ndarray of shape (r, p)
    T : ndarray of shape (p, r)
        The pseudo-inverse of R.
    log_scale : float
        log det(R R'): what the log-determinant of one class's block gains in β.
    kept : tuple of int
        Columns of X that are independent of the ones before them.
    dependent : tuple of (int, tuple of int)
        Each other column with the earlier columns of which it is a combination; left empty
        when there are more columns than rows.
    """

    Z: FloatArray
    R: FloatArray
    T: FloatArray
    log_scale: float
    kept: tuple[int, ...]
    dependent: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def rank(self) -> int:
        """Rank of the design matrix."""
        return int(self.Z.shape[0])

    @property
    def estimable(self) -> NDArray[np.bool_]:
        """Tell for each column whether its coefficient is determined by the data, shape (p,)."""
        return np.asarray(np.abs(1.0 - np.einsum("jr,rj->j", self.T, self.R)) < _ESTIMABLE)


def make_design(X: FloatArray) -> Design:
    """Choose a basis for the columns of ``X``, shape (n, p)."""
    n, p = X.shape
    columns = np.ascontiguousarray(X.T, dtype=np.float64)
    # Scaling by the largest entry first keeps the squares of 1e200 finite.
    largest = np.abs(columns).max(axis=1)
    largest[largest == 0.0] = 1.0
    unit = columns / largest[:, None]
    length = np.sqrt(np.einsum("pn,pn->p", unit, unit) / n)
    length[length == 0.0] = 1.0
    unit /= length[:, None]
    scale = largest * length
    if n >= p and _is_well_conditioned(unit):
        log_scale = 2.0 * float(np.log(scale).sum())
        return Design(unit, np.diag(scale), np.diag(1.0 / scale), log_scale, tuple(range(p)))
    return _orthonormal_design(unit, scale)


def _is_well_conditioned(unit: FloatArray) -> bool:
    from scipy.linalg.lapack import dpocon, dpotrf

    gram = unit @ unit.T / unit.shape[1]
    factor, failed = dpotrf(gram)
    if failed:
        return False
    reciprocal, _ = dpocon(factor, np.abs(gram).sum(axis=0).max())
    return bool(reciprocal > _WELL_CONDITIONED)


def _orthonormal_design(unit: FloatArray, scale: FloatArray) -> Design:
    """Orthonormalise by Gram and Schmidt, in the given order, each column projected twice."""
    p, n = unit.shape
    Q = np.zeros((min(n, p), n))
    kept: list[int] = []
    dependent: list[int] = []
    for j in range(p):
        basis = Q[: len(kept)]
        rest = unit[j] / np.sqrt(n)
        rest = rest - (basis @ rest) @ basis
        rest = rest - (basis @ rest) @ basis
        length = np.sqrt(rest @ rest)
        if length > DEPENDENT and len(kept) < min(n, p):
            Q[len(kept)] = rest / length
            kept.append(j)
        else:
            dependent.append(j)
    Z = Q[: len(kept)] * np.sqrt(n)
    R = (Z @ unit.T / n) * scale
    relations = tuple((j, _combination(unit, kept, j)) for j in dependent) if p <= n else ()
    T, log_scale = _pseudo_inverse(R)
    return Design(Z, R, T, log_scale, tuple(kept), relations)


def _pseudo_inverse(R: FloatArray) -> tuple[FloatArray, float]:
    """Return R⁺ and log det(R R') of a matrix of full row rank, by QR of its transpose."""
    from scipy.linalg import qr, solve_triangular

    Q, triangle = qr(R.T, mode="economic")
    log_scale = 2.0 * float(np.log(np.abs(np.diag(triangle))).sum())
    return np.ascontiguousarray(solve_triangular(triangle, Q.T, trans=0).T), log_scale


def _combination(unit: FloatArray, kept: Sequence[int], j: int) -> tuple[int, ...]:
    earlier = [k for k in kept if k < j]
    weights = np.linalg.lstsq(unit[earlier].T, unit[j], rcond=None)[0] if earlier else np.zeros(0)
    return tuple(k for k, weight in zip(earlier, weights, strict=True) if abs(weight) > 1e-8)
