"""The simplification of Firth's penalty, its coefficient and the optimum in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from firthshot.objective import PENALTIES, SampleLoss, softmax, theory_coefficient, theory_lambda
from oracles.fisher import amended_log_det
from oracles.linear_optimum import closed_form_optimum

RNG = np.random.default_rng(11)
WIDE = RNG.normal(size=(6, 9))
DUPLICATES = WIDE[[0, 1, 2, 3, 0, 1]]
TALL = RNG.normal(size=(40, 3))
PENALTY = SampleLoss(0.0, 1.0)  # CE(U‖p), which is KL(U‖p) + log K


def slopes(function, at, step=1e-5):
    """Differentiate by central differences."""
    gradient = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        move = np.zeros_like(at)
        move[place] = step
        gradient[place] = (function(at + move) - function(at - move)) / (2 * step)
    return gradient


def test_theory_coefficient_is_k_times_rank_over_twice_n():
    wide, tall = theory_coefficient(WIDE, 5), theory_coefficient(TALL, 5)
    assert (wide.value, wide.exact, wide.rank, wide.n_samples) == (2.5, True, 6, 6)
    assert (tall.value, tall.exact, tall.rank, tall.n_samples) == (5 * 4 / 80, False, 4, 40)
    assert theory_coefficient(TALL, 5, intercept=False).rank == 3
    assert theory_lambda(5, 4, 40) == tall.value


def test_more_features_than_samples_are_not_enough():
    theory = theory_coefficient(DUPLICATES, 4)
    assert DUPLICATES.shape[1] > DUPLICATES.shape[0]
    assert not theory.exact
    assert theory.rank == 4


def test_the_intercept_column_can_make_it_exact():
    simplex = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert theory_coefficient(simplex, 3).exact
    assert not theory_coefficient(simplex, 3, intercept=False).exact


@pytest.mark.parametrize("K", [2, 3, 7])
def test_exact_firth_is_half_k_when_samples_are_independent(K):
    z, y = 2 * RNG.normal(size=(6, K)), np.zeros(6, int)
    exact = slopes(lambda z: -0.5 * amended_log_det(WIDE, z), z)
    np.testing.assert_allclose(exact, K / 2 * PENALTY.gradient(z, y), atol=1e-7)
    other = z + RNG.normal(size=z.shape)
    ours = -0.5 * (amended_log_det(WIDE, z) - amended_log_det(WIDE, other))
    simple = K / 2 * (PENALTY.value(z, y) - PENALTY.value(other, y)).sum()
    np.testing.assert_allclose(ours, simple, rtol=1e-8)


@pytest.mark.parametrize("X", [DUPLICATES, TALL], ids=["duplicates", "tall"])
def test_it_is_no_identity_for_dependent_samples(X):
    """By the weights, Firth's gradient and that of λ KL differ by a tenth and more."""
    X1, y = np.column_stack([X, np.ones(len(X))]), np.zeros(len(X), int)
    W, K = RNG.normal(size=(X1.shape[1], 3)), 3
    true = slopes(lambda W: -0.5 * amended_log_det(X, X1 @ W) / len(X), W)
    simple = X1.T @ PENALTY.gradient(X1 @ W, y) / len(X)
    for lam in (K / 2, theory_coefficient(X, K).value):
        assert np.linalg.norm(true - lam * simple) > 0.1 * np.linalg.norm(true)


def test_theory_coefficient_is_exact_for_any_x_while_only_the_bias_moves():
    K, theory, y = 4, theory_coefficient(TALL, 4).value, np.zeros(40, int)
    z = np.tile(2 * RNG.normal(size=K), (40, 1))
    other = np.tile(RNG.normal(size=K), (40, 1))
    exact = -0.5 * (amended_log_det(TALL, z) - amended_log_det(TALL, other)) / 40
    simple = theory * (PENALTY.value(z, y) - PENALTY.value(other, y)).mean()
    np.testing.assert_allclose(exact, simple, rtol=1e-9)


@pytest.mark.parametrize("K", [2, 3, 8])
def test_curvature_at_zero_weights_is_the_one_that_the_docstring_states(K):
    X1 = np.column_stack([TALL, np.ones(40)])
    hat = X1 @ np.linalg.pinv(X1)
    z = X1 @ RNG.normal(size=(4, K))
    z -= z.mean(axis=1, keepdims=True)
    step = 1e-3
    ends = [amended_log_det(TALL, end) for end in (step * z, -step * z, 0 * z)]
    curvature = -(ends[0] + ends[1] - 2 * ends[2]) / step**2
    stated = (np.diag(hat) * np.square(z).sum(1)).sum() * 2 / K
    stated += (hat**2 * (z @ z.T)).sum() * (1 - 2 / K)
    np.testing.assert_allclose(curvature, stated, rtol=1e-4)
    largest = np.diag(hat).max() * np.square(z).sum()
    assert curvature <= largest * (1 + 1e-4)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("lam", [0.01, 1.0, 2.0, 30.0])
def test_the_closed_form_is_stationary_and_reaches_the_smoothed_labels(lam, intercept):
    K, y = 4, np.array([0, 1, 2, 3, 0, 1])
    best = closed_form_optimum(WIDE, y, K, lam, intercept=intercept)
    z = WIDE @ best.weights + (best.bias if intercept else 0)
    gradient = PENALTIES["firth"].loss(lam).gradient(z, y)
    np.testing.assert_allclose(gradient, 0, atol=1e-11)
    np.testing.assert_allclose(softmax(z), (np.eye(K)[y] + lam / K) / (1 + lam), rtol=1e-10)


def test_the_closed_form_has_the_smallest_norm_and_lambda_is_a_temperature():
    y = np.array([0, 1, 2, 0, 1, 2])
    best, other = (closed_form_optimum(WIDE, y, 3, lam) for lam in (1.5, 0.1))
    np.testing.assert_allclose(best.weights / np.log(3), other.weights / np.log(31))
    X1 = np.column_stack([WIDE, np.ones(6)])
    W1 = np.vstack([best.weights, best.bias])
    np.testing.assert_allclose(X1.T @ np.linalg.lstsq(X1.T, W1)[0], W1, atol=1e-12)
