"""The optimum of the linear objective, which every head uses in one way or another.

It is that of :mod:`firthshot.estimators._base`, with logits W x + b.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from firthshot.arrays import Array
from firthshot.engine import Status
from firthshot.estimators._small import Optimum, Variant, is_small, ridge_rows, small_fits
from firthshot.estimators._support import Candidates, Support, centre_if_far
from firthshot.objective import PenaltyTables

# Beside l2 = 1, rows of less spread leave nothing but the shares of the classes.
NEGLIGIBLE = 1e-24


# Gradient at which left-out heads and plain regression end: all they settle is a temperature, whose
# own error is some ten percent. 2e-3 costs up to 0.0008 of log-loss. Where no row is left out, the
# temperature hangs on plain regression alone, and the first would cost 0.0004 (studies/defaults).
ROUGH, ROUGH_ALONE = 1e-3, 3e-4


PLAIN = Variant(lam=0.0, l2=1.0)  # scikit-learn's ``LogisticRegression()``


def plain_logits(support: Support, tol: float = ROUGH_ALONE) -> Array:
    """Return the logits (N, K) that plain regression gives the rows it was fitted to."""
    if support.moments.spread < NEGLIGIBLE:
        totals = np.bincount(support.labels, support.weights, minlength=support.n_classes)
        return np.tile(np.log(totals / totals.sum()), (len(support.labels), 1))
    return variant_logits(support, [PLAIN], tol, 200, fit_intercept=True)[0]


@dataclass(frozen=True)
class LinearFits:
    """Optima for pairs (λ, l2) of a support set."""

    coef: Array  # (L, K, d), of the columns of `Support.dense`
    intercept: Array  # (L, K)
    iterations: Array  # (L,)
    status: Array  # (L,), codes of `Status`
    starts: list[Optimum] | None = None  # of small fits, to start others from


def solve_linear(
    support: Support, path: Candidates, tol: float, max_iter: int, *, fit_intercept: bool
) -> LinearFits:
    """Return the optima for pairs (λ, l2), by NumPy where the problem is small.

    What NumPy did not bring to its optimum goes to the kernels, which know more ways.
    """
    variants = [Variant(lam, l2) for lam, l2 in path]
    if is_small(support, variants):
        fits = _solve_by_numpy(support, variants, tol, max_iter, fit_intercept)
        if (fits.status == Status.OK).all():
            return fits
    return _solve_by_kernels(support, path, tol, max_iter, fit_intercept)


def variant_logits(
    support: Support, variants: list[Variant], tol: float, max_iter: int, fit_intercept: bool
) -> list[Array]:
    """Return the logits of all rows by the head of every variant, (N, K) each."""
    if variants and is_small(support, variants):
        done = small_fits(support, fit_intercept, tol).solve(variants, tol, max_iter)
        if all(optimum.converged for optimum in done):
            return [optimum.logits for optimum in done]
    return [_variant_logits(support, variant, tol, max_iter, fit_intercept) for variant in variants]


def _variant_logits(
    support: Support, variant: Variant, tol: float, max_iter: int, fit_intercept: bool
) -> Array:
    whole = replace(support, X=support.dense[0])
    kept = whole if variant.left_out is None else whole.without(variant.left_out)
    fits = _solve_by_kernels(kept, [(variant.lam, variant.l2)], tol, max_iter, fit_intercept)
    return np.asarray(whole.X @ fits.coef[0].T + fits.intercept[0])


def _solve_by_numpy(
    support: Support, variants: list[Variant], tol: float, max_iter: int, fit_intercept: bool
) -> LinearFits:
    fits = small_fits(support, fit_intercept, tol)
    done = fits.solve(variants, tol, max_iter)
    coef, intercept = fits.weights(np.stack([optimum.point for optimum in done]))
    take_shared_away(coef, intercept)
    status = [Status.OK if optimum.converged else Status.NOT_CONVERGED for optimum in done]
    iterations = np.array([optimum.iterations for optimum in done])
    return LinearFits(coef, intercept, iterations, np.array(status), done)


def _solve_by_kernels(
    support: Support, path: Candidates, tol: float, max_iter: int, fit_intercept: bool
) -> LinearFits:
    """Return the optima by the compiled solvers.

    The unit of length is that of the rows: their spread, or their length without an intercept.
    Rows far from the origin are centred for it, where an intercept makes up for that.
    """
    from firthshot.engine import solve

    X, moments = support.dense[0], support.moments
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
    return LinearFits(found.coef, found.intercept, found.iterations, found.status)


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
