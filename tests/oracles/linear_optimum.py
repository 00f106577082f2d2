"""The linear head's objective in plain d-dimensional form, and data to minimise it on."""

from __future__ import annotations

import numpy as np

from firthshot.engine._form import gradient_form
from firthshot.engine.options import Penalty
from firthshot.objective import L2, make_objective


def draw(n=30, d=12, k=4, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    return spread * rng.normal(size=(k, d))[labels] + rng.normal(size=(n, d)), labels


def form_of(X, labels, n_classes=None, **penalty):
    n_classes = n_classes or int(labels.max()) + 1
    return gradient_form(Penalty(**penalty), labels, n_classes, X.shape[1] * n_classes + n_classes)


def plain_objective(X, labels, n_classes, l, penalty):
    """Return value and gradient of (K·d + K) parameters, built from the objective room."""
    prior = None
    if penalty.prior == "class-frequency":
        prior = np.bincount(labels, minlength=n_classes) / len(labels)
    name = "none" if penalty.family == "l2" else penalty.family
    coefficient = penalty.coefficients[l]
    loss = make_objective(name, 0.0 if penalty.family == "l2" else coefficient, prior)
    strength = penalty.l2 + (coefficient if penalty.family == "l2" else 0.0)
    l2, d = L2(penalty.l2_kind, len(labels)), X.shape[1]

    def function(parameters):
        W, b = np.split(parameters, [d * n_classes])
        W = W.reshape(d, n_classes)
        value, by_logits = loss.value_and_gradient(X @ W + b, labels)
        by_W, by_b = l2.gradient(W, b)
        gradient = [
            X.T @ by_logits / len(X) + strength * by_W,
            by_logits.mean(0) + strength * by_b,
        ]
        total = value.mean() + strength * l2.value(W, b)
        return float(total), np.concatenate([part.ravel() for part in gradient])

    return function


def flatten(solution, l):
    return np.concatenate([solution.coef[l].T.ravel(), solution.intercept[l]])
