"""A well-conditioned basis for the columns of a design matrix, whatever their scale or rank.

The penalty is equivariant: with X = Z R the fit may be computed in θ = R β and the
log-determinants differ by a constant. So columns are scaled always, orthonormalised when
they are nearly dependent (which the first Cholesky factor of the fit shows), and dropped from
the basis when they are dependent. Then ``det(F | r)``, the product of the non-zero eigenvalues
of F (the paper's amended determinant), is ``det F_θ · det(R R')`` per class, and β is the
solution of least norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from firthshot.jeffreys._kernels.memory import FloatArray

# What two projections leave of a unit column that depends on others is some 1e-16 times their
# condition number; independent columns of real tables keep above 1e-6, so a factor of two is free.
DEPENDENT = 1e-10
_LEAST_SQUARE = 1e-200  # mean of squares below which (or above the inverse) digits may be lost
_ESTIMABLE = 1e-8  # of a projection that is 1 or well below: rounding, with room on both sides


@dataclass(frozen=True)
class Design:
    """A basis Z of the columns of X, with ``X = (R' Z)'`` and ``β = T θ``."""

    Z: FloatArray  # (r, n), one row per basis vector
    R: FloatArray  # (r, p)
    T: FloatArray  # (p, r), the pseudo-inverse of R
    log_scale: float  # log det(R R'): what log det of one class's block gains in β
    kept: tuple[int, ...]  # columns of X that are independent of the ones before them
    estimable: NDArray[np.bool_]  # (p,), whether the data determine a column's coefficient
    # Each other column with the earlier columns of which it is a combination; empty when there are
    # more columns than rows.
    dependent: tuple[tuple[int, tuple[int, ...]], ...] = ()
    orthonormal: bool = False

    @property
    def rank(self) -> int:
        """Rank of the design matrix."""
        return int(self.Z.shape[0])


def make_design(X: FloatArray, intercept: bool = False) -> Design:
    """Scale the columns of ``X``, shape (n, p), after a column of ones if wanted.

    With at least as many columns as rows the basis is orthonormal at once; otherwise the fit
    asks for `orthonormal_design` when it meets an ill-conditioned information matrix.
    """
    n, p = X.shape
    first = int(intercept)
    Z = np.empty((p + first, n))
    Z[:first] = 1.0
    Z[first:] = X.T
    scale = _root_mean_squares(Z)
    Z /= scale[:, None]
    log_scale = 2.0 * float(np.log(scale).sum())
    kept = tuple(range(p + first))
    estimable = np.ones(p + first, dtype=bool)
    design = Design(Z, np.diag(scale), np.diag(1.0 / scale), log_scale, kept, estimable)
    return orthonormal_design(design) if p + first >= n else design


def _root_mean_squares(Z: FloatArray) -> FloatArray:
    """Return the root mean square of each row, 1 for a row of zeros."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("kn,kn->k", Z, Z) / Z.shape[1]
    scale = np.sqrt(squares)
    for k in np.flatnonzero(~((squares > _LEAST_SQUARE) & (squares < 1.0 / _LEAST_SQUARE))):
        # Dividing by the largest entry first keeps the squares of 1e200 finite.
        largest = np.abs(Z[k]).max() or 1.0
        scale[k] = largest * np.sqrt(np.mean((Z[k] / largest) ** 2)) or 1.0
    return np.asarray(scale)


def orthonormal_design(design: Design) -> Design:
    """Return an orthonormal basis for the same columns, without the dependent ones.

    By Gram and Schmidt, in the given order, each column projected twice.
    """
    if design.orthonormal:
        return design
    unit, scale = design.Z, np.diag(design.R)
    p, n = unit.shape
    Q = np.zeros((min(n, p), n))
    kept: list[int] = []
    dependent: list[int] = []
    for j in range(p):
        basis = Q[: len(kept)]
        residual = unit[j] / np.sqrt(n)
        for _ in range(2):
            residual = residual - (basis @ residual) @ basis
        length = np.sqrt(residual @ residual)
        if length > DEPENDENT and len(kept) < min(n, p):
            Q[len(kept)] = residual / length
            kept.append(j)
        else:
            dependent.append(j)
    Z = Q[: len(kept)] * np.sqrt(n)
    R = Z @ unit.T / n
    relations = tuple((j, _combination(unit, kept, j)) for j in dependent) if p <= n else ()
    invert = _inverse if len(kept) == p else _pseudo_inverse
    T, log_scale, estimable = invert(R, scale)
    for j, others in relations:
        estimable[[j, *others]] = False
    return Design(Z, R * scale, T, log_scale, tuple(kept), estimable, relations, orthonormal=True)


def _inverse(R: FloatArray, scale: FloatArray) -> tuple[FloatArray, float, NDArray[np.bool_]]:
    """Return (R S)⁻¹ and log det(R S)² of a triangle R and a diagonal S.

    The columns of R are of one size: units of very different size cost no digits.
    """
    from scipy.linalg import solve_triangular

    log_scale = 2.0 * float((np.log(np.abs(np.diag(R))) + np.log(scale)).sum())
    T = solve_triangular(np.triu(R), np.eye(len(R))) / scale[:, None]
    return np.ascontiguousarray(T), log_scale, np.ones(len(R), dtype=bool)


def _pseudo_inverse(
    R: FloatArray, scale: FloatArray
) -> tuple[FloatArray, float, NDArray[np.bool_]]:
    """Return (R S)⁺, log det(R S² R') for full row rank, and which coefficients are determined.

    By QR of the transpose; (R S)⁺ R S is the projection on its columns.
    """
    from scipy.linalg import qr, solve_triangular

    Q, triangle = qr((R * scale).T, mode="economic")
    log_scale = 2.0 * float(np.log(np.abs(np.diag(triangle))).sum())
    T = np.ascontiguousarray(solve_triangular(triangle, Q.T, trans=0).T)
    return T, log_scale, np.abs(1.0 - np.einsum("jr,jr->j", Q, Q)) < _ESTIMABLE


def _combination(unit: FloatArray, kept: Sequence[int], j: int) -> tuple[int, ...]:
    earlier = [k for k in kept if k < j]
    weights = np.linalg.lstsq(unit[earlier].T, unit[j], rcond=None)[0] if earlier else np.zeros(0)
    return tuple(k for k, weight in zip(earlier, weights, strict=True) if abs(weight) > 1e-8)
