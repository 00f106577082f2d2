"""The linear head at its optimum: rows reduced once, then Newton per coefficient.

The objective is that of :mod:`firthshot.engine._problem`. Started at zero, the iterates stay in the
span of the rows: where the optimum is not unique (no L2, few rows) the result is the one of least
norm. That norm counts the intercept, as in the closed form W = log(1 + K/λ) [X 1]⁺ (Y − 1/K) for
independent rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._dual import (
    Inverse,
    Rows,
    Start,
    gather_rows,
    invert,
    minimise_from,
    weights_of,
)
from firthshot.engine._guess import Guesses, walk
from firthshot.engine._kernels.converged import minimise
from firthshot.engine._many_rows import ROUNDING, approach
from firthshot.engine._problem import Problem, Solution, pose
from firthshot.engine._queries import round_up
from firthshot.engine._separable import escapes
from firthshot.engine._span import MANY_ROWS, Bias, Span, span_of_rows
from firthshot.engine._trial import Fitted, Trial, fitted_linear, pad_columns
from firthshot.engine.heads import Linear
from firthshot.engine.options import Converged
from firthshot.engine.results import Status
from firthshot.kernels.vectors import lanes_of
from firthshot.objective import PenaltyTables

Array = npt.NDArray[Any]

# Up to this condition number conjugate gradients on the Gram matrix need no preconditioner;
_WELL_CONDITIONED = 500.0
# from this one on, an inverse to precondition them pays off for so many coefficients;
_WORTH_AN_INVERSE = 30.0, 3
# up to this one they still cost less than rotated features, where they may stop this early. There
# the products of rows need no more than float32.
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
    problem = pose(X, targets, form, sample_weight, fit_intercept, unit)
    found = problem.empty()
    kinds = [problem.bias_of(l) for l in range(len(form.label))]
    for kind in dict.fromkeys(kinds):
        chosen = [l for l, other in enumerate(kinds) if other == kind]
        stop = Converged(tolerance=tolerance, max_iterations=max_iterations)
        _minimise_all(problem, kind, chosen, stop, warm_start, audit, found)
    status = found.status
    late = (status == Status.OK) & ~(found.gradient_norm <= tolerance)
    if warm_start and len(late) > 1 and late.any():  # a guess far off can lead nowhere
        cold = solve(
            X, targets, form.take(np.flatnonzero(late)), tolerance=tolerance,
            max_iterations=max_iterations, sample_weight=sample_weight,
            fit_intercept=fit_intercept, audit=audit, unit=unit,
        )  # fmt: skip
        for part in fields(Solution):
            getattr(found, part.name)[late] = getattr(cold, part.name)
        return found
    status[late] = Status.NOT_CONVERGED
    status[~np.isfinite(found.gradient_norm)] = Status.DIVERGED
    return found


def _decay(form: PenaltyTables, span: Span, l: int) -> Array:
    """Return the L2 factor of every coordinate of the basis."""
    decay = np.full(len(span.squares), float(form.weight_decay[l]))
    if span.bias == "free":
        decay[-1] = form.bias_decay[l]
    return decay


def _steepness(form: PenaltyTables, chosen: list[int]) -> Array:
    """Return the ratios of the loss's curvature at zero to that of L2."""
    curvature = (form.probability + form.confidence)[chosen] / len(form.target)
    decay = form.weight_decay[chosen].astype(float)
    ratio: Array = np.full(len(chosen), np.inf)
    np.divide(curvature, decay, out=ratio, where=decay > 0)
    return ratio


def _minimise_all(
    problem: Problem,
    kind: Bias,
    chosen: list[int],
    stop: Converged,
    warm_start: bool,
    audit: bool,
    found: Solution,
) -> None:
    """Minimise for the coefficients whose intercept is of one kind, and write what was found."""
    steepness = _steepness(problem.form, chosen)
    order = walk(problem.form, chosen, warm_start)
    rows = _gram_rows(problem, kind, chosen, steepness, stop.tolerance)
    if rows is None:
        _minimise_in_span(problem, kind, steepness, order, stop, audit, found)
        return
    shared = None
    if warm_start and len(chosen) >= _WORTH_AN_INVERSE[1]:
        shared = _shared_inverse(problem.form.take(np.array(chosen)), rows)
    _minimise_by_gram(problem, rows, shared, order, stop, audit, found)
    late = _stalled(found, chosen, stop)
    if late:
        order = walk(problem.form, [chosen[at] for at in late], warm_start)
        _minimise_in_span(problem, kind, steepness[late], order, stop, audit, found)


def _stalled(found: Solution, chosen: list[int], stop: Converged) -> list[int]:
    """Return the places in ``chosen`` where the Gram matrix led nowhere with steps to spare."""
    late = ~(found.gradient_norm <= stop.tolerance)
    if not late.any():
        return []
    late &= found.converged & (found.iterations < stop.max_iterations)
    return [at for at, l in enumerate(chosen) if late[l]]


def _gram_rows(
    problem: Problem, kind: Bias, chosen: list[int], steepness: Array, tolerance: float
) -> Rows | None:
    """Return the rows as a Gram matrix, None where the span of the rows is the better place.

    Without L2 the rows may be dependent; far from well-conditioned they need the preconditioner of
    rotated features; beyond twice as many rows as features a product by the Gram matrix is the
    longer way.
    """
    n, d = problem.X.shape
    if n > 2 * d or not np.isfinite(steepness).all() or problem.form.confidence[chosen].any():
        return None
    loose = tolerance >= _LOOSE
    rows = gather_rows(problem.X, problem.weights, kind, problem.unit, loose=loose)
    most = _FAIRLY_CONDITIONED if n <= d and loose else _WELL_CONDITIONED
    return rows if steepness.max() * rows.largest <= most else None


def _shared_inverse(form: PenaltyTables, rows: Rows) -> Inverse | None:
    """Return a preconditioner for the penalised coefficients of a path, None where none is needed.

    Near targets y + λu the loss is curved by about λ/K in most directions; one inverse with the
    geometric mean of decay K/λ serves them all.
    """
    surplus = (form.probability - form.label).astype(float)
    penalised = (surplus > 0) & (form.weight_decay > 0)
    if penalised.sum() < _WORTH_AN_INVERSE[1]:
        return None
    ridges = form.weight_decay[penalised] * len(form.target) / surplus[penalised]
    ridge = float(np.exp(np.log(ridges).mean()))
    return invert(rows, ridge) if rows.largest >= _WORTH_AN_INVERSE[0] * ridge else None


def _minimise_by_gram(
    problem: Problem,
    rows: Rows,
    shared: Inverse | None,
    order: Iterator[tuple[int, Guesses]],
    stop: Converged,
    audit: bool,
    found: Solution,
) -> None:
    form, n, n_classes = problem.form, len(problem.X), len(problem.Y)
    padded, at_end = len(rows.root), {}
    every = Start.zero(len(form.label), n_classes, padded)
    padded_targets = np.zeros((n_classes, padded))
    targets = padded_targets[:, :n]
    for l, guesses in order:
        at = every.of(l)
        np.multiply(problem.Y, form.label[l], out=targets)
        targets += form.target[:, l, None]
        guesses.fill(at.b, at.nu, at.scaled)
        found.iterations[l], found.gradient_norm[l], found.objective[l], g = minimise_from(
            rows, padded_targets, float(form.probability[l]),
            float(form.weight_decay[l]), stop.tolerance, stop.max_iterations, at,
            shared if form.label[l] < form.probability[l] else None,
        )  # fmt: skip
        at_end[l] = g
        if rows.bias == "free" and not (targets > 0).any(1).all():
            found.status[l] = Status.NO_OPTIMUM  # a class without targets: b falls for ever
        elif found.gradient_norm[l] <= stop.tolerance:
            guesses.add(g, at.b, at.nu, at.scaled)
    solved = sorted(at_end)
    if len(solved) == len(found.coef):
        found.intercept[:] = weights_of(rows, every.nu, every.b, out=found.coef)[1]
    else:
        weights = weights_of(rows, every.nu[solved], every.b[solved])
        found.coef[solved], found.intercept[solved] = weights
    if audit:
        for l, g in at_end.items():
            found.gradient_norm[l] = problem.largest_entry(l, g[:, :n], found)


def _minimise_in_span(
    problem: Problem,
    kind: Bias,
    steepness: Array,
    order: Iterator[tuple[int, Guesses]],
    stop: Converged,
    audit: bool,
    found: Solution,
) -> None:
    form, n, n_classes = problem.form, len(problem.X), len(problem.Y)
    X = problem.X if problem.unit == 1.0 else problem.X / problem.unit
    span = span_of_rows(X, problem.weights, kind, steepness, n_classes)
    padded = round_up(n, lanes_of(np.float32))
    wide, weights = pad_columns(span.features.T, padded), pad_columns(problem.weights, padded)
    tall = np.ascontiguousarray(wide.T)
    features = (wide, tall, wide.astype(np.float32), tall.astype(np.float32))
    shift = float(np.linalg.norm(span.mean))
    g, theta = np.empty((n_classes, padded)), np.zeros((n_classes, len(wide)))
    slopes, size = slice(-1) if kind == "free" else slice(None), float(span.squares.sum())
    for l, guesses in order:
        targets, decay = problem.targets(l), _decay(form, span, l)
        guesses.fill(theta[:, len(wide) - (kind == "free") :], theta[:, slopes])
        padded_targets, scale = pad_columns(targets, padded), float(form.probability[l])
        steps = 0
        if n >= MANY_ROWS and not form.confidence[l] and decay[:-1].all():
            curvature = scale / n_classes * span.squares + decay
            steps = approach(
                features[2], features[3], 1 / np.sqrt(curvature), decay, padded_targets, weights,
                scale, kind == "free", shift, max(stop.tolerance, ROUNDING * scale * np.sqrt(size)),
                stop.max_iterations, theta,
            )  # fmt: skip
        found.iterations[l], bound, found.objective[l] = minimise(
            *features, span.squares, decay, kind == "free", shift, padded_targets, weights, scale,
            float(form.confidence[l]), stop.tolerance, max(1, stop.max_iterations - steps), theta,
            g,
        )  # fmt: skip
        found.iterations[l] += steps
        found.coef[l], found.intercept[l] = span.weights(theta)
        found.coef[l] /= problem.unit
        found.gradient_norm[l] = bound
        if audit or not bound <= stop.tolerance:
            found.gradient_norm[l] = problem.largest_entry(l, g[:, :n], found)
        if escapes(span, targets, decay, form.confidence[l], theta):
            found.status[l] = Status.NO_OPTIMUM
        elif found.gradient_norm[l] <= stop.tolerance:
            optimum = theta.copy()
            guesses.add(g, optimum[:, len(wide) - (kind == "free") :], optimum[:, slopes])


def fit_converged(
    trial: Trial, _head: Linear, solver: Converged, form: PenaltyTables, keep_weights: bool
) -> dict[int, Fitted]:
    """Bring the linear head of one trial to its optimum with every coefficient.

    The head's start plays no part: the optimum is sought from zero.
    """
    found = solve(
        trial.support,
        trial.labels,
        form,
        tolerance=solver.tolerance,
        max_iterations=solver.max_iterations,
    )
    return {0: fitted_linear(trial, found.coef, found.intercept, keep_weights, found.status)}
