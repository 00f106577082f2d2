"""The Firth head: logistic regression with Firth bias reduction and a ridge, many at once.

Minimises Σ_i w_i [CE(y_i‖p_i) + λ KL(u‖p_i)] + (l2 / 2) ‖W‖² over W and an intercept, for several
sets of weights w over the same rows: by the solver of `FirthClassifier`, or, for two classes in few
columns, by Newton's method.
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
# Columns up to which Newton's method solves two classes; steps are dear with more.
FEW_COLUMNS, NEWTON_STEPS, NEWTON_TOLERANCE = 64, 30, 1e-4


def fit_all(rows: Array, sets: Sets, lam: float, l2: Array) -> Array:
    """Return W and, in the last row, b for rows (S, N, r) and every set, (S, B, r + 1, K)."""
    found = None
    if sets.n_classes == 2 and rows.shape[2] <= FEW_COLUMNS and rows.dtype == np.float64:
        found = solve_two(rows, sets, lam, l2)
    if found is None:
        kinds = zip(rows, l2.tolist(), strict=True)
        found = np.stack([solve(one, sets, lam, ridge) for one, ridge in kinds])
    return found


def solve_two(
    rows: Array, sets: Sets, lam: float, l2: Array, tolerance: float = NEWTON_TOLERANCE
) -> Array | None:
    """Solve two classes in all kinds of columns and all sets at once; None if that fails.

    The classes' weights are opposite halves of one vector v: their ridge is (l2 / 4) ‖v‖².
    """
    n, r = rows.shape[1:]
    X = np.concatenate([rows, np.ones((*rows.shape[:2], 1))], axis=2)[:, None]
    weights = (1 + lam) * sets.alike
    target = (sets.labels + lam / 2) / (1 + lam)
    ridge = np.repeat(np.maximum(l2 / 2, LEAST_L2)[:, None], r + 1, axis=1)
    ridge[:, r] = 0.0
    ridge, on_diagonal = ridge[:, None], ridge[:, None, :, None] * np.eye(r + 1)
    v = np.zeros((len(rows), len(weights), r + 1))
    step, value = v, np.full(v.shape[:2], np.inf)
    for _ in range(NEWTON_STEPS):
        tried = v + step
        z = (X @ tried[..., None])[..., 0]
        near = np.exp(-np.abs(z))
        loss = np.maximum(z, 0.0) + np.log1p(near) - target * z
        penalised = ridge * tried
        new = np.vecdot(weights, loss) + 0.5 * np.vecdot(penalised, tried)
        worse = new > value + 1e-9 * n
        if worse.any():
            step = np.where(worse[..., None], step / 2, step)
            continue
        v, value = tried, new
        p = np.where(z >= 0, 1.0, near) / (1 + near)
        gradient = ((weights * (p - target))[..., None, :] @ X)[..., 0, :] + penalised
        if np.abs(gradient).max() < tolerance * n:
            halves = np.stack([-0.5 * v, 0.5 * v], axis=-1)
            return halves if np.isfinite(halves).all() else None
        curved = (weights * p * (1 - p))[..., None] * X
        try:
            step = -np.linalg.solve(curved.mT @ X + on_diagonal, gradient[..., None])[..., 0]
        except np.linalg.LinAlgError:
            return None
    return None


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
