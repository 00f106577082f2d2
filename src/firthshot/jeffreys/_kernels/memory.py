"""The data of a fit and the scratch memory of its evaluations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Level = tuple[float, float]  # of a profile: how high, and how far below the maximum
CONVERGED, TOO_MANY_STEPS, NO_ASCENT, SINGULAR, ILL_CONDITIONED = 0, 1, 2, 3, 4
# Halving ends below this length, in standard errors and relative to θ: shorter steps change no
# digit that is printed. Half the value costs one more halving.
SHORTEST_STEP = 1e-10
# A constrained step may bend down in the direction it may not take: this much of that is added to
# B, relative to F, lest B seem indefinite. It changes no constrained step.
STIFFNESS = 100.0
MOST_HALVINGS = 100  # any finite step is below SHORTEST_STEP before; this ends steps of NaN
# Doubles of one block: 128 kB, half of a second-level cache; fewer rows than 256 starve BLAS.
_CACHE_DOUBLES, _FEWEST_ROWS = 16_384, 256
# Below this many columns gemm beats syrk and trmm although it does twice the work, and OpenBLAS
# keeps products of fewer multiplications than _ONE_THREAD to one thread, which is quicker.
NARROW, _ONE_THREAD = 40, 250_000


class Data(NamedTuple):
    """What stays constant during a fit: n observations, r columns, J = K - 1 contrasts."""

    Z: FloatArray  # (r, n) the design, transposed
    y: NDArray[np.int64]  # (n,) class numbers, 0 is the reference
    w: FloatArray  # (n,)
    offset: FloatArray  # (J, n)
    tau: float


class Top(NamedTuple):
    """A free maximum, from which restricted fits and profiles start."""

    theta: FloatArray  # (q,)
    inverse: FloatArray  # (q, q), of the information
    curvature: FloatArray  # (q, q), as `Work.A`


class Work(NamedTuple):
    """Scratch memory; after `value` and `gradient` it describes the point last evaluated."""

    P: FloatArray  # (J, n) probabilities of the non-reference classes
    P0: FloatArray  # (n,) probability of the reference
    F: FloatArray  # (q, q) Fisher information, both triangles
    L: FloatArray  # (q, q) its Cholesky factor
    Linv: FloatArray  # (q, q)
    A: FloatArray  # (q, q), what the solver has learnt of the curvature of the penalty
    score: FloatArray  # (2, q): of the penalised log-likelihood, and of the penalty alone
    hat: FloatArray  # (n,) w_i tr(M_i V_i)
    V: FloatArray  # (J, J, n), filled when the penalty is on
    block: FloatArray  # (r, rows)
    G: FloatArray  # (J, q, rows)
    residual: FloatArray  # (2 J, rows)
    rows: FloatArray  # (3, rows)
    info: NDArray[np.int64]  # (1,)


def make_work(n: int, r: int, J: int) -> Work:
    """Allocate scratch memory for ``n`` observations, ``r`` columns and ``J`` contrasts."""
    q = J * r
    rows = max(_FEWEST_ROWS, _CACHE_DOUBLES // max(1, J * q))
    if 0 < r < NARROW:
        rows = min(rows, _ONE_THREAD // r**2)
    rows = min(n, rows)
    return Work(
        P=np.empty((J, n)),
        P0=np.empty(n),
        F=np.zeros((q, q)),
        L=np.zeros((q, q)),
        Linv=np.zeros((q, q)),
        A=np.zeros((q, q)),
        score=np.zeros((2, q)),
        hat=np.zeros(n),
        V=np.zeros((J, J, n)),
        block=np.empty((r, rows)),
        G=np.zeros((J, q, rows)),
        residual=np.empty((2 * J, rows)),
        rows=np.empty((3, rows)),
        info=np.zeros(1, dtype=np.int64),
    )
