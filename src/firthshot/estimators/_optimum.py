"""The optimum of the linear objective, which every head uses in one way or another.

It is that of :mod:`firthshot.estimators._base`, with logits W x + b.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.arrays import Array
from firthshot.engine import solve
from firthshot.estimators._support import Candidates, Support, centre_if_far
from firthshot.objective import PenaltyTables

if TYPE_CHECKING:
    from firthshot.engine import Solution


# Beside l2 = 1, rows of less spread leave nothing but the shares of the classes.
NEGLIGIBLE = 1e-24


def plain_logits(support: Support) -> Array:
    """Return the logits (N, K) that ``LogisticRegression()`` gives the rows it was fitted to."""
    if support.moments.spread < NEGLIGIBLE:
        totals = np.bincount(support.labels, support.weights, minlength=support.n_classes)
        return np.tile(np.log(totals / totals.sum()), (len(support.labels), 1))
    # So tight that rows given twice and weights of two lead to the same temperature.
    found, X, _ = solve_linear(support, [(0.0, 1.0)], 1e-11, 200)
    return np.asarray(X @ found.coef[0].T + found.intercept[0])


def solve_linear(
    support: Support,
    path: Candidates,
    tol: float,
    max_iter: int,
    *,
    fit_intercept: bool = True,
) -> tuple[Solution, Array, Array | None]:
    """Return the optima for pairs (λ, l2), and the rows that were used with their columns.

    The unit of length is that of the rows: their spread, or their length without an intercept.
    Rows far from the origin are centred for it, where an intercept makes up for that.
    """
    X, columns = dense_columns(support.X)
    moments = support.moments
    near, centre = centre_if_far(X, support.weights, moments) if fit_intercept else (X, None)
    found = solve(
        near,
        support.labels,
        linear_form(support, path),
        tolerance=tol,
        max_iterations=max_iter,
        sample_weight=support.weights,
        fit_intercept=fit_intercept,
        warm_start=True,
        audit=False,
        unit=float(np.sqrt(moments.spread if fit_intercept else moments.square)),
    )
    if centre is not None:
        np.subtract(found.intercept, found.coef @ centre, out=found.intercept)
    take_shared_away(found.coef, found.intercept)
    return found, X, columns


def take_shared_away(coef: Array, intercept: Array) -> None:
    """Take the mean over classes off coef (…, K, d) and intercept (…, K), in place.

    What all classes share changes no probability; it is zero at the optimum of least norm.
    """
    share = 1.0 / coef.shape[-2]
    coef -= share * np.add.reduce(coef, axis=-2, keepdims=True)
    intercept -= share * np.add.reduce(intercept, axis=-1, keepdims=True)


def linear_form(support: Support, path: Candidates) -> PenaltyTables:
    """Return that objective, divided by (1 + λ) Σ w, for pairs (λ, l2)."""
    lam, l2 = np.array(path, float).T
    decay = l2 * ridge_rows(support.n_classes) / support.weights.sum()
    zero, one = np.zeros_like(lam), np.ones_like(lam)
    return PenaltyTables(
        probability=one,
        target=np.outer(support.prior, lam / (1.0 + lam)),
        label=1.0 / (1.0 + lam),
        confidence=zero,
        weight_decay=decay / (1.0 + lam),
        bias_decay=zero,
        decay_with_batch=True,
        decays=bool(l2.any()),
    )


def ridge_rows(n_classes: int) -> float:
    """Return the factor that l2 takes on K rows of weights.

    The one row w of two classes is the difference of two opposite halves: ½ ‖w‖² = ‖W‖².
    """
    return 2.0 if n_classes == 2 else 1.0


def dense_columns(X: Any) -> tuple[Array, Array | None]:
    """Return X as an ordinary array, and of a sparse one which columns that array holds.

    A column without entries has no weight at the optimum (of least norm), so that the columns that
    occur in a few sparse rows are all that matters.
    """
    if isinstance(X, np.ndarray):
        return X, None
    columns = np.unique(X.indices)
    if not len(columns):
        columns = np.zeros(1, np.int64)
    return X[:, columns].toarray(), columns


def public(coef: Array, intercept: Array, columns: Array | None, X: Any) -> dict[str, Array]:
    """Return coefficients in scikit-learn's shapes and the type of the features."""
    if len(coef) == 2:
        coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    if columns is not None:
        spread = np.zeros((len(coef), X.shape[1]))
        spread[:, columns] = coef
        coef = spread
    return {"coef_": coef.astype(X.dtype), "intercept_": intercept.astype(X.dtype)}


def logits(X: Any, parameters: dict[str, Array]) -> Array:
    """Return the logits (n, K) of rows from coefficients in scikit-learn's shapes."""
    z = np.asarray(X @ parameters["coef_"].T + parameters["intercept_"])
    return np.hstack([-z / 2, z / 2]) if z.shape[1] == 1 else z
