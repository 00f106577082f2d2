"""The linear head at its optimum: one rotation of the features, then Newton per coefficient.

The objective of coefficient l is, with the weighted mean over samples (weights that sum to one),

    mean_i [ −Σ_c T_ic log p_ic + confidence KL(p_i‖U) ] + ½ weight_decay ‖W‖² + ½ bias_decay ‖b‖²

with T_ic = label y_ic + target_c: cross-entropy plus λ CE(u‖p) for Firth with prior u, smoothed
labels for label smoothing. Started at zero, the iterates stay in the span of the rows: where the
optimum is not unique (no L2, few rows) the result is the one of least norm. That norm counts the
intercept, as in the closed form W = log(1 + K/λ) [X 1]⁺ (Y − 1/K) for independent rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firthshot.engine._form import GradientForm
from firthshot.engine._kernels.converged import minimise
from firthshot.engine._kernels.simd import lanes_of
from firthshot.engine._separable import escapes
from firthshot.engine._span import Bias, Span, span_of_rows
from firthshot.engine._trial import Fitted, Trial, pad_columns, round_up
from firthshot.engine.options import Converged, Linear
from firthshot.engine.results import Status
from firthshot.errors import FirthshotError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Solution:
    """Optima of one problem for every coefficient.

    Attributes
    ----------
    coef : (L, K, d), intercept : (L, K)
    iterations : (L,) Newton steps taken
    gradient_norm : (L,) largest absolute entry of the gradient by coef and intercept, as returned
    objective : (L,) value, see the module
    status : (L,) codes of :class:`Status`: OK, NOT_CONVERGED, NO_OPTIMUM or DIVERGED
    """

    coef: Array
    intercept: Array
    iterations: Array
    gradient_norm: Array
    objective: Array
    status: Array

    @property
    def converged(self) -> Array:
        """Return for every coefficient whether the gradient is within the tolerance, (L,)."""
        return self.status == Status.OK


@dataclass(frozen=True)
class _Problem:
    """Rows of positive weight with their target distributions; the weights sum to one."""

    X: Array  # (N, d)
    Y: Array  # (K, N)
    weights: Array  # (N,)
    form: GradientForm
    fit_intercept: bool

    def targets(self, l: int) -> Array:
        """Return T of coefficient l, (K, N)."""
        targets: Array = self.form.label[l] * self.Y + self.form.target[:, l, None]
        return targets

    def bias_of(self, l: int) -> Bias:
        """Return how the intercept of coefficient l enters the rotation."""
        weight_decay, bias_decay = self.form.weight_decay[l], self.form.bias_decay[l]
        if not self.fit_intercept:
            return "none"
        if weight_decay == bias_decay:
            return "joint"
        if bias_decay == 0:
            return "free"
        raise FirthshotError(
            f"bias_decay = {bias_decay} must be 0 or equal weight_decay = {weight_decay}."
        )


def solve(
    X: Array,
    targets: Array,
    form: GradientForm,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    sample_weight: Array | None = None,
    fit_intercept: bool = True,
) -> Solution:
    """Minimise the linear head's objective for every coefficient of a form.

    Parameters
    ----------
    X : (N, d) finite features; computed in float64 whatever their type
    targets : (N,) labels from 0 to K − 1, or (N, K) rows of probabilities
    form : GradientForm
        K and the coefficients. They share one rotation and are otherwise solved on their own, each
        from zero: no result depends on which others are asked for.
    tolerance : float
        Largest absolute entry of the gradient by W and b that counts as converged.
    sample_weight : (N,), optional
        Not negative; only their proportions count, because losses are averaged.

    Returns
    -------
    Solution
    """
    problem = _prepare(X, targets, form, sample_weight, fit_intercept)
    n_coefficients, (n, d) = len(form.label), problem.X.shape
    coef = np.zeros((n_coefficients, len(form.target), d))
    intercept = np.zeros(coef.shape[:2])
    iterations = np.zeros(n_coefficients, np.int64)
    status = np.full(n_coefficients, Status.OK, np.int8)
    kinds = [problem.bias_of(l) for l in range(n_coefficients)]
    for kind in dict.fromkeys(kinds):
        span = span_of_rows(problem.X, problem.weights, kind)
        for l, theta, steps in _minimise_all(problem, span, kinds, tolerance, max_iterations):
            coef[l], intercept[l] = span.weights(theta)
            iterations[l] = steps
            if escapes(span, problem.targets(l), _decay(form, span, l), form.confidence[l], theta):
                status[l] = Status.NO_OPTIMUM
    gradient_norm, value = _verify(problem, coef, intercept)
    status[(status == Status.OK) & ~(gradient_norm <= tolerance)] = Status.NOT_CONVERGED
    status[~np.isfinite(gradient_norm)] = Status.DIVERGED
    return Solution(coef, intercept, iterations, gradient_norm, value, status)


def _prepare(
    X: Array, targets: Array, form: GradientForm, sample_weight: Array | None, fit_intercept: bool
) -> _Problem:
    """Spread labels out, drop rows without weight and scale the weights to sum one."""
    X, Y = np.asarray(X, np.float64), np.asarray(targets)
    if Y.ndim == 1:
        Y = np.eye(len(form.target))[Y]
    weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if not (weights.shape == (len(X),) and (weights >= 0).all() and 0 < weights.sum() < np.inf):
        raise FirthshotError(
            f"sample_weight must be {len(X)} numbers that are not negative, and not all zero."
        )
    used = weights > 0
    if not used.all():
        X, Y, weights = X[used], Y[used], weights[used]
    Y = np.ascontiguousarray(Y.T, np.float64)
    return _Problem(X, Y, weights / weights.sum(), form, fit_intercept)


def _decay(form: GradientForm, span: Span, l: int) -> Array:
    """Return the L2 factor of every coordinate of the basis."""
    decay = np.full(len(span.squares), float(form.weight_decay[l]))
    if span.bias == "free":
        decay[-1] = form.bias_decay[l]
    return decay


def _minimise_all(
    problem: _Problem, span: Span, kinds: list[Bias], tolerance: float, max_iterations: int
) -> list[tuple[int, Array, int]]:
    """Run the kernel for the coefficients of one kind; return (l, θ, iterations) of each."""
    form, padded = problem.form, round_up(len(problem.X), lanes_of(np.float64))
    features = pad_columns(np.ascontiguousarray(span.features.T), padded)
    single, weights = features.astype(np.float32), pad_columns(problem.weights, padded)
    found = []
    for l in (l for l, kind in enumerate(kinds) if kind == span.bias):
        theta = np.zeros((len(problem.Y), len(features)))
        steps, _, _ = minimise(
            features, single, span.squares, _decay(form, span, l), span.bias == "free",
            float(np.linalg.norm(span.mean)), pad_columns(problem.targets(l), padded), weights,
            float(form.probability[l]), float(form.confidence[l]), tolerance, max_iterations, theta,
        )  # fmt: skip
        found.append((l, theta, steps))
    return found


def _verify(problem: _Problem, coef: Array, intercept: Array) -> tuple[Array, Array]:
    """Return the largest gradient entry and the value (L,), from the original features alone."""
    form, largest, value = problem.form, np.empty(len(coef)), np.empty(len(coef))
    for l, (W, b) in enumerate(zip(coef, intercept, strict=True)):
        z = W @ problem.X.T + b[:, None]
        z -= z.max(0)
        log_p = z - np.log(np.exp(z).sum(0))
        p, targets = np.exp(log_p), problem.targets(l)
        loss = -(targets * log_p).sum(0)
        g = form.probability[l] * p - targets
        if form.confidence[l]:
            mean = (p * log_p).sum(0)
            loss += form.confidence[l] * (mean + np.log(len(p)))
            g += form.confidence[l] * p * (log_p - mean)
        g *= problem.weights
        by_bias = g.sum(1) + form.bias_decay[l] * b if problem.fit_intercept else np.zeros(1)
        largest[l] = max(
            np.abs(g @ problem.X + form.weight_decay[l] * W).max(), np.abs(by_bias).max()
        )
        l2 = form.weight_decay[l] * (W**2).sum() + form.bias_decay[l] * (b**2).sum()
        value[l] = problem.weights @ loss + 0.5 * l2
    return largest, value


def fit_converged(
    trial: Trial, head: Linear, solver: Converged, form: GradientForm, keep_weights: bool
) -> dict[int, Fitted]:
    """Bring the linear head of one trial to its optimum with every coefficient.

    The start of ``head`` plays no part: the optimum is sought from zero.
    """
    found = solve(
        trial.support,
        trial.labels,
        form,
        tolerance=solver.tolerance,
        max_iterations=solver.max_iterations,
    )
    logits = query_logits(trial, found.coef, found.intercept)
    norms = (found.coef**2).sum((1, 2)) + (found.intercept**2).sum(1)
    weights = {}
    if keep_weights:
        weights = {
            "coef": found.coef.astype(trial.dtype),
            "intercept": found.intercept.astype(trial.dtype),
        }
    return {0: Fitted(logits, norms, weights, found.status)}


def query_logits(trial: Trial, coef: Array, intercept: Array) -> Array:
    """Return logits (C, L, Q + padding) of the query rows, in the trial's precision."""
    n_coefficients, n_classes, d = coef.shape
    W = coef.transpose(1, 0, 2).reshape(-1, d).astype(trial.dtype)
    logits = np.zeros((len(W), trial.padded_queries), trial.dtype)
    np.matmul(W, trial.query.T, out=logits[:, : len(trial.query)])
    logits += intercept.T.reshape(-1, 1).astype(trial.dtype)
    return logits.reshape(n_classes, n_coefficients, -1)
