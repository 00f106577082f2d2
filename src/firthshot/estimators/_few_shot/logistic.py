"""The Firth head: logistic regression with Firth bias reduction and a ridge, many at once.

Minimises Σ_i w_i [CE(y_i‖p_i) + λ KL(u‖p_i)] + (l2 / 2) ‖W‖² over W and an intercept, for several
sets of weights w over the same rows, by the solver of `FirthClassifier`.
"""

from __future__ import annotations

import numpy as np

from firthshot.arrays import Array
from firthshot.estimators._few_shot.sets import Sets
from firthshot.estimators._small import Variant, ridge_rows, small_fits
from firthshot.estimators._support import Support

MOST_STEPS = 100
TOLERANCE = 2e-3  # norm of the gradient: its largest entry is some times less
LEAST_L2 = 1e-9  # rows are about 1 apart: what stands for no ridge at all


def solve(rows: Array, sets: Sets, lam: float, l2: float, tolerance: float = TOLERANCE) -> Array:
    """Return W and, in the last row, b for every set of rows (N, r), (B, r + 1, K).

    Classes count alike in every set. Large problems solve the first set, which is all rows, and
    start the others there.
    """
    K, whole = sets.n_classes, sets.alike[0]
    support = Support(rows, sets.labels, whole, np.full(K, 1 / K))
    fits = small_fits(support, intercept=True, tol=tolerance)
    l2 = max(l2 / ridge_rows(K), LEAST_L2)
    done = fits.solve([Variant(lam, l2)], tolerance, MOST_STEPS) if support.in_single else []
    start = done[0] if done else None
    others = [Variant(lam, l2, start=start, weights=own) for own in sets.alike[len(done) :]]
    done += fits.solve(others, tolerance, MOST_STEPS) if others else []
    coef, intercept = fits.weights(np.stack([optimum.point for optimum in done]))
    return np.concatenate([coef.mT, intercept[:, None]], axis=1).astype(rows.dtype, copy=False)
