"""Exact Firth regression written as plainly as possible: the oracle of the fast kernels."""

from __future__ import annotations

import numpy as np


def probabilities(beta, X, offset):
    """Return class probabilities, reference first, shape (n, K)."""
    eta = np.column_stack([np.zeros(len(X)), X @ beta.T + offset])
    eta -= eta.max(axis=1, keepdims=True)
    odds = np.exp(eta)
    return odds / odds.sum(axis=1, keepdims=True)


def information(beta, X, weights, offset):
    """Return F = Σ w_i M_i ⊗ x_i x_i' by adding one row at a time."""
    J, p = beta.shape
    F = np.zeros((J * p, J * p))
    for x, w, prob in zip(X, weights, probabilities(beta, X, offset)[:, 1:], strict=True):
        F += w * np.kron(np.diag(prob) - np.outer(prob, prob), np.outer(x, x))
    return F


def penalised_loglik(beta, X, y, weights, offset, tau):
    own = probabilities(beta, X, offset)[np.arange(len(y)), y]
    sign, logdet = np.linalg.slogdet(information(beta, X, weights, offset))
    assert sign > 0
    return weights @ np.log(own) + tau * logdet


def amended_loglik(beta, X, y, weights, offset, tau):
    """Return the same with the product of the non-zero eigenvalues of F."""
    own = probabilities(beta, X, offset)[np.arange(len(y)), y]
    eigenvalues = np.linalg.eigvalsh(information(beta, X, weights, offset))
    rank = np.linalg.matrix_rank(X) * len(beta)
    return weights @ np.log(own) + tau * np.log(eigenvalues[-rank:]).sum()


def numerical_gradient(function, beta, step=1e-5):
    gradient = np.zeros(beta.size)
    for k in range(beta.size):
        shift = np.zeros(beta.size)
        shift[k] = step
        up = function(beta + shift.reshape(beta.shape))
        down = function(beta - shift.reshape(beta.shape))
        gradient[k] = (up - down) / (2 * step)
    return gradient


def random_problem(rng, n=14, p=3, classes=3, weighted=True):
    X = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
    y = np.concatenate([np.arange(classes), rng.integers(classes, size=n - classes)])
    weights = rng.uniform(0.3, 3.0, size=n) if weighted else np.ones(n)
    offset = rng.normal(size=(n, classes - 1)) if weighted else np.zeros((n, classes - 1))
    return X, y, weights, offset
