"""The core: the penalised log-likelihood, its gradient, its maximum and its profiles.

The model is the baseline-category logit with K = J + 1 classes, class 0 the reference::

    l*(θ) = Σ_i w_i log p(y_i | z_i) + τ log det F(θ),     F = Σ_i w_i M_i ⊗ z_i z_i'

with ``M_i = diag(p_i) - p_i p_i'`` over the J other classes; two classes are the case J = 1.
The gradient of the penalty needs, for each row, only the J x J matrix ``V_i`` with entries
``z_i' (F⁻¹)_{jk} z_i``::

    ∂ log det F / ∂η_il = w_i p_il (V_ll - 2 (V p)_l - Σ_j p_j V_jj + 2 p'V p)

Arrays hold observations along their last axis, so that loops over observations run through
memory; BLAS reads a row-major array as its transpose, hence the design is stored as Z' and its
n x r columns are what BLAS sees. Observations are taken in blocks that stay in the cache.
All q x q matrices (q = J r) are symmetric or triangular, the triangle being BLAS's lower one.

Small problems run in NumPy: `points` computes l* with its exact first and second derivatives, for
one point or for many at once, and `plain` climbs by Newton's method, from several starts and for
several hypotheses side by side. All others run in compiled code: `evaluate` computes l* and its
gradient block by block, and `compiled` maximises it and finds where its profiles fall to a level.
`plain` and `compiled` have functions of the same names. `memory` holds the data, the scratch memory
and what both agree on.

Every step uses B = F + A, where F is computed and A is the curvature of the penalty, minus its
Hessian: exact in NumPy; in compiled code a symmetric rank-one (SR1) estimate, so that its steps are
Fisher scoring at first and superlinear at the end. Constraints ``C θ = b`` hold at the start and
are kept by every step, so a restricted fit keeps the information of the full model in its penalty.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Rows times coefficients cubed, the work of all tests and intervals, up to which NumPy takes a few
# hundredths of a second; compiled code is quicker but takes half a minute before its first answer.
SMALL = 10_000


def solver_of(rows: int, coefficients: int) -> Any:
    """Return the module that solves a problem of some size: the choice knows nothing else."""
    name = "plain" if rows * coefficients**3 <= SMALL else "compiled"
    return import_module(f"firthshot.jeffreys._kernels.{name}")
