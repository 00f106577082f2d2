"""The optimum of the linear objective, which every head uses in one way or another.

It is that of :mod:`firthshot.estimators._base`, with logits W x + b. Small problems are solved by
NumPy alone, the others by compiled kernels. The size of the problem alone decides, so that no
result depends on what was compiled before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from firthshot.arrays import Array
from firthshot.engine import Status
from firthshot.estimators._small import Optimum, Variant, ridge_rows, small_fits
from firthshot.estimators._support import Candidates, Support
from firthshot.objective import PenaltyTables

# Beside l2 = 1, rows of less spread leave nothing but the shares of the classes.
NEGLIGIBLE = 1e-24

# Gradient at which left-out heads and plain regression end: all they settle is a temperature, whose
# own error is some ten percent. 2e-3 costs up to 0.0008 of log-loss. Where no row is left out, the
# temperature hangs on plain regression alone, and the first would cost 0.0004 (studies/defaults).
ROUGH, ROUGH_ALONE = 1e-3, 3e-4

# Multiplications of one product of all logits, K N min(N, d), up to which NumPy solves: 1000 rows
# of 384 features and 50 classes. Compiling the kernels takes longer than a fit ten times as large;
# once compiled they would be at most twice as fast at this size.
SMALL = 2e7


@dataclass(frozen=True)
class FittedHead:
    """A fitted head, and how the solver ended."""

    parameters: dict[str, Array]  # by the name of the attribute that will hold them
    n_iter: int
    problem: str = ""  # why it has not converged and what to do, in one sentence
    start: Optimum | None = None  # where the solver may start without some of the rows


class LinearSolver(NamedTuple):
    """When a solver ends, and whether there is an intercept."""

    tol: float
    max_iter: int = 200
    intercept: bool = True


PLAIN = Variant(lam=0.0, l2=1.0)  # scikit-learn's ``LogisticRegression()``


def plain_logits(support: Support, tol: float = ROUGH_ALONE) -> Array:
    """Return the logits (N, K) that plain regression gives the rows it was fitted to."""
    if support.moments.spread < NEGLIGIBLE:
        totals = np.bincount(support.labels, support.weights, minlength=support.n_classes)
        return np.tile(np.log(totals / totals.sum()), (len(support.labels), 1))
    return variant_logits(support, [PLAIN], LinearSolver(tol))[0]


def solve_linear(support: Support, path: Candidates, solver: LinearSolver) -> list[FittedHead]:
    """Return the heads of pairs (λ, l2).

    What NumPy did not bring to its optimum goes to the kernels, which know more ways.
    """
    done = _solved_by_numpy(support, [Variant(*pair) for pair in path], solver)
    if done is None:
        return _solve_by_kernels(support, path, solver)
    fits = small_fits(support, solver.intercept, solver.tol, ridge=path[0][1] > 0)
    coef, intercept = fits.weights(np.stack([optimum.point for optimum in done]))
    take_shared_away(coef, intercept)
    status = [
        Status.NO_OPTIMUM if fits.falls_for_ever(lam, optimum) else Status.OK
        for (lam, _), optimum in zip(path, done, strict=True)
    ]
    return [
        FittedHead(public(W, b, support), optimum.iterations, _problem(how), optimum)
        for W, b, optimum, how in zip(coef, intercept, done, status, strict=True)
    ]


def logits_without(
    support: Support,
    parts: list[Array],
    pair: tuple[float, float],
    solver: LinearSolver,
    start: Optimum | None = None,
    plainly: bool = False,
) -> tuple[Array, Array | None]:
    """Return the logits (R, K) of parts left out, and if wished plain regression's of all rows."""
    variants = [Variant(*pair, support.weights_without(part), start) for part in parts]
    together = plainly and solver.intercept and support.moments.spread >= NEGLIGIBLE
    each = variant_logits(support, variants + [PLAIN] * together, solver)
    plain = each.pop() if together else plain_logits(support) if plainly else None
    found = [z[part] for z, part in zip(each, parts, strict=True)]
    return np.concatenate([np.empty((0, support.n_classes)), *found]), plain


def variant_logits(support: Support, variants: list[Variant], solver: LinearSolver) -> list[Array]:
    """Return the logits of all rows by the head of every variant, (N, K) each."""
    done = _solved_by_numpy(support, variants, solver)
    if done is not None:
        return [optimum.logits for optimum in done]
    return [_variant_logits(support, variant, solver) for variant in variants]


def _variant_logits(support: Support, variant: Variant, solver: LinearSolver) -> Array:
    whole = kept = replace(support, X=support.dense[0])
    if variant.weights is not None:
        kept = replace(whole, weights=variant.weights).without(variant.weights == 0)
    (head,) = solve_linear(kept, [(variant.lam, variant.l2)], solver)
    return logits(whole.X, head.parameters)


def _solved_by_numpy(
    support: Support, variants: list[Variant], solver: LinearSolver
) -> list[Optimum] | None:
    """Return the optima of variants, or None if they are too large or one failed.

    Also None where some but not all have an L2 term, and where rows are left out without one: they
    would take part in the norm that is least.
    """
    if not variants:
        return []
    ridge, *other = {variant.l2 > 0 for variant in variants}
    without = not ridge and any(variant.weights is not None for variant in variants)
    if support.work > SMALL or other or without:
        return None
    fits = small_fits(support, solver.intercept, solver.tol, ridge)
    done = fits.solve(variants, solver.tol, solver.max_iter)
    return done if all(optimum.converged for optimum in done) else None


def _solve_by_kernels(support: Support, path: Candidates, solver: LinearSolver) -> list[FittedHead]:
    """Return the heads by the compiled solvers.

    The unit of length is that of the rows: their spread, or their length without an intercept.
    Rows far from the origin are centred for it, where an intercept makes up for that.
    """
    from firthshot.engine import solve

    moments = support.moments
    near, centre = support.near if solver.intercept else (support.dense[0], None)
    found = solve(
        near,
        support.labels,
        linear_form(support, path),
        tolerance=solver.tol,
        max_iterations=solver.max_iter,
        sample_weight=support.weights,
        fit_intercept=solver.intercept,
        warm_start=True,
        audit=False,
        unit=float(np.sqrt(moments.spread if solver.intercept else moments.square)),
    )
    if centre is not None:
        np.subtract(found.intercept, found.coef @ centre, out=found.intercept)
    take_shared_away(found.coef, found.intercept)
    heads = zip(found.coef, found.intercept, found.iterations, found.status, strict=True)
    return [
        FittedHead(public(W, b, support), int(n_iter), _problem(status))
        for W, b, n_iter, status in heads
    ]


def _problem(status: int) -> str:
    if status == Status.NO_OPTIMUM:
        return (
            "The classes are separated and nothing holds the weights back, so that there is no "
            "optimum: set lam or l2 above zero."
        )
    unfinished = "The solver stopped before reaching tol: raise max_iter, or scale the features."
    return "" if status == Status.OK else unfinished


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


def take_shared_away(coef: Array, intercept: Array) -> None:
    """Take the mean over classes off coef (…, K, d) and intercept (…, K), in place.

    What all classes share changes no probability; it is zero at the optimum of least norm.
    """
    share = 1.0 / coef.shape[-2]
    coef -= share * np.add.reduce(coef, axis=-2, keepdims=True)
    intercept -= share * np.add.reduce(intercept, axis=-1, keepdims=True)


def public(coef: Array, intercept: Array, support: Support) -> dict[str, Array]:
    """Return coefficients in scikit-learn's shapes and the type of the features."""
    if len(coef) == 2:
        coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    dtype, columns = support.X.dtype, support.dense[1]
    if columns is not None:
        whole = np.zeros((len(coef), support.X.shape[1]))
        whole[:, columns] = coef
        coef = whole
    return {"coef_": coef.astype(dtype), "intercept_": intercept.astype(dtype)}


def logits(X: Any, parameters: dict[str, Array]) -> Array:
    """Return the logits (n, K) of rows from coefficients in scikit-learn's shapes."""
    z = np.asarray(X @ parameters["coef_"].T + parameters["intercept_"])
    return np.hstack([-z / 2, z / 2]) if z.shape[1] == 1 else z
