"""The simplification of Firth's penalty, its coefficient and the optimum in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from firthshot.objective import (
    CrossEntropy,
    Firth,
    Objective,
    amended_log_det,
    amended_log_det_gradient,
    closed_form_optimum,
    simplification,
    softmax,
    theory_coefficient,
)

RNG = np.random.default_rng(11)
WIDE = RNG.normal(size=(6, 9))
DUPLICATES = WIDE[[0, 1, 2, 3, 0, 1]]
TALL = RNG.normal(size=(40, 3))


def test_theory_coefficient_is_k_times_rank_over_twice_n():
    wide, tall = theory_coefficient(WIDE, 5), theory_coefficient(TALL, 5)
    assert (wide.value, wide.exact, wide.rank, wide.n_samples) == (2.5, True, 6, 6)
    assert (tall.value, tall.exact, tall.rank, tall.n_samples) == (5 * 4 / 80, False, 4, 40)
    assert theory_coefficient(TALL, 5, intercept=False).rank == 3


def test_more_features_than_samples_are_not_enough():
    theory = theory_coefficient(DUPLICATES, 4)
    assert DUPLICATES.shape[1] > DUPLICATES.shape[0]
    assert not theory.exact
    assert theory.rank == 4
    assert not simplification(DUPLICATES, RNG.normal(size=(6, 4))).exact


def test_the_intercept_column_can_make_it_exact():
    simplex = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert theory_coefficient(simplex, 3).exact
    assert not theory_coefficient(simplex, 3, intercept=False).exact


@pytest.mark.parametrize("K", [2, 3, 7])
def test_exact_firth_is_half_k_when_samples_are_independent(K):
    z = 4 * RNG.normal(size=(6, K))
    exact = -0.5 * amended_log_det_gradient(WIDE, z)
    np.testing.assert_allclose(exact, K / 2 * Firth().gradient(z), rtol=1e-12, atol=1e-13)
    report = simplification(WIDE, z)
    assert report.exact
    assert report.gap < 1e-13
    assert report.theory_gap < 1e-13
    other = z + RNG.normal(size=z.shape)
    ours = -0.5 * (amended_log_det(WIDE, z) - amended_log_det(WIDE, other))
    simple = K / 2 * (Firth().value(z) - Firth().value(other)).sum()
    np.testing.assert_allclose(ours, simple, rtol=1e-11)


@pytest.mark.parametrize("X", [DUPLICATES, TALL], ids=["duplicates", "tall"])
def test_the_gap_is_the_distance_of_two_numerical_gradients(X):
    X1 = np.column_stack([X, np.ones(len(X))])
    W, K, step = RNG.normal(size=(X1.shape[1], 3)), 3, 1e-5

    def difference(W, lam):
        exact = -0.5 * amended_log_det(X, X1 @ W) / len(X)
        return exact - lam * Firth().value(X1 @ W).mean()

    report = simplification(X, X1 @ W)
    theory = theory_coefficient(X, K).value
    for lam, gap in ((K / 2, report.gap), (theory, report.theory_gap)):
        slopes = np.zeros_like(W)
        for at in np.ndindex(W.shape):
            move = np.zeros_like(W)
            move[at] = step
            slopes[at] = (difference(W + move, lam) - difference(W - move, lam)) / (2 * step)
        np.testing.assert_allclose(gap, np.linalg.norm(slopes), rtol=1e-6)
    assert report.gap > 0.1 * report.size


def test_reports_come_one_per_set_of_logits():
    z = RNG.normal(size=(2, 3, 40, 4))
    report = simplification(TALL, z)
    assert report.gap.shape == report.theory_gap.shape == report.size.shape == (2, 3)
    np.testing.assert_allclose(report.gap[1, 2], simplification(TALL, z[1, 2]).gap, rtol=1e-12)


def test_theory_coefficient_is_exact_for_any_x_while_only_the_bias_moves():
    K, theory = 4, theory_coefficient(TALL, 4).value
    z = np.tile(2 * RNG.normal(size=K), (40, 1))
    other = np.tile(RNG.normal(size=K), (40, 1))
    exact = -0.5 * (amended_log_det(TALL, z) - amended_log_det(TALL, other)) / 40
    simple = theory * (Firth().value(z) - Firth().value(other)).mean()
    np.testing.assert_allclose(exact, simple, rtol=1e-11)


@pytest.mark.parametrize("K", [2, 3, 8])
def test_curvature_at_zero_weights_is_the_one_that_the_docstring_states(K):
    X1 = np.column_stack([TALL, np.ones(40)])
    hat = X1 @ np.linalg.pinv(X1)
    z = X1 @ RNG.normal(size=(4, K))
    z -= z.mean(axis=1, keepdims=True)
    step = 1e-3
    ends = amended_log_det(TALL, np.array([step * z, -step * z, 0 * z]))
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
    gradient = Objective(CrossEntropy(), Firth(), lam).gradient(z, y)
    np.testing.assert_allclose(gradient, 0, atol=1e-11)
    np.testing.assert_allclose(softmax(z), (np.eye(K)[y] + lam / K) / (1 + lam), rtol=1e-10)
    assert (best.bias is None) is not intercept


def test_the_closed_form_has_the_smallest_norm_and_lambda_is_a_temperature():
    y = np.array([0, 1, 2, 0, 1, 2])
    best, other = (closed_form_optimum(WIDE, y, 3, lam) for lam in (1.5, 0.1))
    assert best.logit_gap == pytest.approx(np.log(3))
    np.testing.assert_allclose(best.weights / best.logit_gap, other.weights / other.logit_gap)
    X1 = np.column_stack([WIDE, np.ones(6)])
    W1 = np.vstack([best.weights, best.bias])
    np.testing.assert_allclose(X1.T @ np.linalg.lstsq(X1.T, W1)[0], W1, atol=1e-12)
