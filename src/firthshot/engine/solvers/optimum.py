"""The linear head at its optimum: rows reduced once, then Newton per coefficient.

The objective is that of :mod:`firthshot.engine.solvers.problem`. Started at zero, the iterates stay
in the span of the rows: where the optimum is not unique (no L2, few rows) the result is the one of
least norm. That norm counts the intercept, as in the closed form
W = log(1 + K/λ) [X 1]⁺ (Y − 1/K) for independent rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firthshot.arrays import Array, pad_columns, round_up
from firthshot.engine.options import Converged
from firthshot.engine.results import Status
from firthshot.engine.solvers.gram import (
    ENOUGH_COEFFICIENTS,
    GramRows,
    minimise_by_gram,
    path_inverse,
)
from firthshot.engine.solvers.lbfgs import approach
from firthshot.engine.solvers.newton_cg import SpanData, newton_cg
from firthshot.engine.solvers.path import walk
from firthshot.engine.solvers.problem import LinearProblem, Solution
from firthshot.engine.solvers.separable import has_recession_direction
from firthshot.engine.solvers.span import MANY_ROWS, Bias, span_of_rows
from firthshot.kernels.mean_loss import loss_state
from firthshot.kernels.vectors import lanes_of
from firthshot.objective import PenaltyTables

# Up to this condition number conjugate gradients on the Gram matrix need no preconditioner: they
# take at most about its root of products for a Newton step.
_WELL_CONDITIONED = 500.0
# Up to this one they still cost less than rotated features, where they may stop at this tolerance;
# there the products of rows need no more than float32. Twice either changes times, and results
# within the tolerance.
_FAIRLY_CONDITIONED, _LOOSE = 1e6, 1e-5


def solve(
    X: Array,
    targets: Array,
    form: PenaltyTables,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    sample_weight: Array | None = None,
    fit_intercept: bool = True,
    warm_start: bool = False,
    audit: bool = True,
    unit: float = 1.0,
) -> Solution:
    """Minimise the linear head's objective for every coefficient of a form.

    Parameters
    ----------
    X : (N, d) finite features; computed in float64 whatever their type
    targets : (N,) labels from 0 to K − 1, or (N, K) rows of probabilities
    form : PenaltyTables
        K and the coefficients. They share one rotation and are otherwise solved on their own.
    tolerance : float
        Largest absolute entry of the gradient by W and b that counts as converged.
    sample_weight : (N,), optional
        Not negative; only their proportions count, because losses are averaged.
    warm_start : bool
        Start each coefficient from the optima of others, which is faster on a path; results then
        depend on the other coefficients, within the tolerance. A confidence penalty, which
        may have several optima, always starts at zero.
    audit : bool
        Compute the gradient once more from the weights that are returned. Otherwise
        ``gradient_norm`` may be the solver's own bound on it, which saves a pass over X.
    unit : float
        The length that counts as one: gradients are those by weights on X / unit, so that with the
        spread of the rows the tolerance means the same for features of any scale. Where nothing
        else settles the weights (no L2), the norm that is least is that of these weights too.

    Returns
    -------
    Solution
    """
    limits = Converged(tolerance=tolerance, max_iterations=max_iterations)
    problem = LinearProblem.pose(
        X, targets, form, sample_weight, unit,
        limits=limits, fit_intercept=fit_intercept, warm_start=warm_start, audit=audit,
    )  # fmt: skip
    return _solve(problem)


def _solve(problem: LinearProblem) -> Solution:
    form = problem.form
    found = Solution.empty(len(form.label), len(form.target), problem.X.shape[1])
    kinds = [problem.bias_of(l) for l in range(len(form.label))]
    for kind in dict.fromkeys(kinds):
        chosen = [l for l, other in enumerate(kinds) if other == kind]
        _minimise_all(problem, kind, chosen, found)
    late = ~(found.gradient_norm <= problem.limits.tolerance)
    if not late.any():
        return found
    late &= found.converged
    if problem.warm_start and len(late) > 1 and late.any():  # a guess far off can lead nowhere
        cold = replace(problem, form=form.take(np.flatnonzero(late)), warm_start=False)
        found.put(late, _solve(cold))
        return found
    found.status[late] = Status.NOT_CONVERGED
    found.status[~np.isfinite(found.gradient_norm)] = Status.DIVERGED
    return found


def _minimise_all(problem: LinearProblem, kind: Bias, chosen: list[int], found: Solution) -> None:
    """Minimise for the coefficients whose intercept is of one kind, and write what was found."""
    steepness, left, limits = problem.steepness(chosen), chosen, problem.limits
    rows = _gram_rows(problem, kind, chosen, float(steepness.max()))
    if rows is not None:
        shared = None
        if problem.warm_start and len(chosen) >= ENOUGH_COEFFICIENTS:
            shared = path_inverse(problem.form.take(np.array(chosen)), rows)
        minimise_by_gram(problem, rows, shared, chosen, found)
        late = ~(found.gradient_norm <= limits.tolerance)
        late &= found.iterations < limits.max_iterations
        # The Gram matrix led nowhere, with steps to spare.
        again = [k for k, l in enumerate(chosen) if late[l] and found.status[l] == Status.OK]
        left, steepness = [chosen[k] for k in again], steepness[again]
    if left:
        _minimise_in_span(problem, kind, steepness, left, found)


def _gram_rows(
    problem: LinearProblem, kind: Bias, chosen: list[int], steepest: float
) -> GramRows | None:
    """Return the rows as a Gram matrix, None where the span of the rows is the better place.

    Without L2 the rows may be dependent; far from well-conditioned they need the preconditioner of
    rotated features; beyond twice as many rows as features a product by the Gram matrix is the
    longer way.
    """
    n, d = problem.X.shape
    if n > 2 * d or not np.isfinite(steepest) or problem.form.confidence[chosen].any():
        return None
    loose = problem.limits.tolerance >= _LOOSE
    rows = GramRows.of(problem.X, problem.weights, kind, problem.unit, loose=loose)
    most = _FAIRLY_CONDITIONED if n <= d and loose else _WELL_CONDITIONED
    return rows if steepest * rows.largest <= most else None


def _minimise_in_span(
    problem: LinearProblem, kind: Bias, steepness: Array, chosen: list[int], found: Solution
) -> None:
    """Write the optimum of every chosen coefficient, on features rotated to their span."""
    form, n, n_classes = problem.form, len(problem.X), len(problem.Y)
    tolerance, max_iterations = problem.limits.tolerance, problem.limits.max_iterations
    X = problem.X if problem.unit == 1.0 else problem.X / problem.unit
    span = span_of_rows(X, problem.weights, kind, steepness, n_classes)
    padded = round_up(n, lanes_of(np.float32))
    features, weights = pad_columns(span.features.T, padded), pad_columns(problem.weights, padded)
    transposed, rank = np.ascontiguousarray(features.T), len(features)
    data = SpanData(
        features, transposed, features.astype(np.float32), transposed.astype(np.float32),
        span.squares, weights.astype(np.float32), np.zeros(rank), kind == "free",
        float(np.linalg.norm(span.mean)),
    )  # fmt: skip
    theta, slopes = np.zeros((n_classes, rank)), rank - (kind == "free")
    state = loss_state((n_classes, padded), np.float64, confidence=bool(form.confidence.any()))
    for l, guesses in walk(form, chosen, problem.warm_start):
        loss, decay = problem.loss(l, weights), np.full(rank, float(form.weight_decay[l]))
        decay[slopes:] = form.bias_decay[l]
        data = data._replace(decay=decay)
        theta[:] = 0.0
        if guesses is not None:
            guesses.fill(theta[:, slopes:], theta[:, :slopes])
        steps = 0
        if n >= MANY_ROWS and not loss.confidence and decay[:-1].all():
            steps = approach(data, loss, tolerance, max_iterations, theta)
        most = max(1, max_iterations - steps)
        iterations, bound, found.objective[l] = newton_cg(
            tuple(data), tuple(loss), tolerance, most, theta, tuple(state)
        )
        found.iterations[l] = steps + iterations
        found.coef[l], found.intercept[l] = span.weights(theta)
        found.coef[l] /= problem.unit
        found.gradient_norm[l] = bound
        if problem.audit or not bound <= tolerance:
            found.gradient_norm[l] = problem.largest_entry(l, state.gradient, found)
        supported, logits = loss.targets[:, :n] > 0, theta @ span.features.T
        if has_recession_direction(span, supported, decay, loss.confidence, logits):
            found.status[l] = Status.NO_OPTIMUM
        elif guesses is not None and found.gradient_norm[l] <= tolerance:
            optimum = theta.copy()
            guesses.add(state.gradient, optimum[:, slopes:], optimum[:, :slopes])
