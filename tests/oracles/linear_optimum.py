"""The linear head's objective in plain d-dimensional form, and data to minimise it on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from firthshot.objective import PENALTIES, Penalty, class_prior, l2_curvature


def draw(n=30, d=12, k=4, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    return spread * rng.normal(size=(k, d))[labels] + rng.normal(size=(n, d)), labels


def form_of(X, labels, n_classes=None, **penalty):
    n_classes = n_classes or int(labels.max()) + 1
    return Penalty(**penalty).tables(labels, n_classes, X.shape[1] * n_classes + n_classes)


def l2_value(W, b, kind, n):
    """Return ½ c_W ‖W‖² + ½ c_b ‖b‖²."""
    c = l2_curvature(kind, n_parameters=W.size + b.size, n_samples=n)
    return 0.5 * c.weights * (W**2).sum() + 0.5 * c.bias * (b**2).sum()


def plain_objective(X, labels, n_classes, l, penalty):
    """Return value and gradient of (K·d + K) parameters, built from the objective room."""
    family, coefficient = PENALTIES[penalty.family], penalty.coefficients[l]
    u = class_prior(penalty.prior, labels, n_classes) if family.takes_prior else None
    loss, d = family.loss(coefficient, u), X.shape[1]
    strength = penalty.l2 + family.l2 * coefficient
    c = l2_curvature(penalty.l2_kind, n_parameters=(d + 1) * n_classes, n_samples=len(labels))

    def function(parameters):
        W, b = np.split(parameters, [d * n_classes])
        W = W.reshape(d, n_classes)
        value, by_logits = loss.value(X @ W + b, labels), loss.gradient(X @ W + b, labels)
        gradient = [
            X.T @ by_logits / len(X) + strength * c.weights * W,
            by_logits.mean(0) + strength * c.bias * b,
        ]
        total = value.mean() + strength * l2_value(W, b, penalty.l2_kind, len(labels))
        return float(total), np.concatenate([part.ravel() for part in gradient])

    return function


def flatten(solution, l):
    return np.concatenate([solution.coef[l].T.ravel(), solution.intercept[l]])


class LinearOptimum(NamedTuple):
    """The minimum-norm optimum: weights (d, K), bias (K,) or None without an intercept."""

    weights: np.ndarray
    bias: np.ndarray | None


def closed_form_optimum(X, labels, n_classes, lam, *, intercept=True):
    """Solve Eq. klobj without ridge, rank X = N: W = log(1 + K/λ) X⁺ (Y - 1/K).

    Every sample reaches p = (y + λ/K) / (1 + λ). λ is only a temperature: all λ > 0 give the
    predictions of least squares on Y. The norm that is smallest counts the bias.
    """
    rows = np.column_stack([X, np.ones(len(X))]) if intercept else X
    gap = np.log1p(n_classes / lam)
    solution = gap * (np.linalg.pinv(rows) @ (np.eye(n_classes)[labels] - 1 / n_classes))
    return LinearOptimum(*((solution[:-1], solution[-1]) if intercept else (solution, None)))


def descend(X, labels, n_classes, loss, weight_decay=0.0, bias_decay=0.0, *, rate=0.5, steps=20):
    """Take plain gradient steps on all rows from zero; return weights (d, K) and bias (K,)."""
    W, b = np.zeros((X.shape[1], n_classes)), np.zeros(n_classes)
    for _ in range(steps):
        g = loss.gradient(X @ W + b, labels)
        by_W, by_b = X.T @ g / len(X) + weight_decay * W, g.mean(0) + bias_decay * b
        W, b = W - rate * by_W, b - rate * by_b
    return W, b
