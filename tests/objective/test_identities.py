"""The identities that tie the losses and penalties to one another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firthshot.objective import PENALTIES, SampleLoss, class_prior, fisher_blocks, log_softmax

TOWARDS, PEAKED = SampleLoss(0.0, 1.0), SampleLoss(0.0, 0.0, 1.0)  # CE(U‖p) and KL(p‖U) alone
logits = st.integers(2, 7).flatmap(
    lambda k: st.lists(st.lists(st.floats(-50, 50), min_size=k, max_size=k), min_size=1, max_size=5)
)
coefficients = st.floats(0, 50)


def first_labels(z):
    return np.arange(len(z)) % len(z[0])


@settings(deadline=None)
@given(logits)
def test_sum_of_log_probabilities_is_minus_k_times_firth(z):
    expected = -len(z[0]) * TOWARDS.value(z, first_labels(z))
    np.testing.assert_allclose(log_softmax(z).sum(-1), expected, rtol=1e-12, atol=1e-12)


def test_firth_is_the_log_determinant_of_the_fisher_blocks():
    """Log det M_i = Σ_j log p_ij = -K CE(U‖p), the paper's Eq. milogde."""
    z = 2 * np.random.default_rng(0).normal(size=(2, 3, 4))
    expected = -4 * TOWARDS.value(z, [0, 1, 2])
    np.testing.assert_allclose(np.linalg.slogdet(fisher_blocks(z))[1], expected)


@settings(deadline=None)
@given(logits, coefficients)
def test_firth_is_label_smoothing_times_one_plus_lambda(z, lam):
    """CE + λ CE(U‖p) = (1+λ) × smoothed CE, whose ε is λ/(1+λ)."""
    y, close = first_labels(z), {"rtol": 1e-11, "atol": 1e-11}
    firth = PENALTIES["firth"].loss(lam)
    smooth = PENALTIES["label-smoothing"].loss(lam / (1 + lam))
    np.testing.assert_allclose(firth.value(z, y), (1 + lam) * smooth.value(z, y), **close)
    np.testing.assert_allclose(firth.gradient(z, y), (1 + lam) * smooth.gradient(z, y), **close)


@settings(deadline=None)
@given(logits)
def test_the_uniform_prior_given_is_the_uniform_prior_meant(z):
    K, y = len(z[0]), first_labels(z)
    given_prior = SampleLoss(0.0, 1.0, u=np.full(K, 1 / K))
    np.testing.assert_array_equal(given_prior.value(z, y), TOWARDS.value(z, y))
    np.testing.assert_array_equal(given_prior.gradient(z, y), TOWARDS.gradient(z, y))


@pytest.mark.parametrize("K", [2, 5, 150])
def test_penalties_are_stationary_and_smallest_where_they_point(K):
    flat = np.zeros((1, K))
    np.testing.assert_allclose(TOWARDS.value(flat, [0]), np.log(K))  # the entropy of U
    assert abs(PEAKED.value(flat, [0])[0]) < 1e-14
    np.testing.assert_allclose(TOWARDS.gradient(flat, [0]), 0, atol=1e-16)
    np.testing.assert_allclose(PEAKED.gradient(flat, [0]), 0, atol=1e-16)
    prior = np.arange(1.0, K + 1) / np.arange(1.0, K + 1).sum()
    towards, there = SampleLoss(0.0, 1.0, u=prior), np.log(prior)[None]
    np.testing.assert_allclose(towards.value(there, [0]), -(prior * np.log(prior)).sum())
    np.testing.assert_allclose(towards.gradient(there, [0]), 0, atol=1e-15)


def test_confidence_is_log_k_minus_entropy_and_at_most_log_k():
    z = np.array([[0.3, -1.0, 2.0], [1e4, 0, 0]])
    p = np.exp(log_softmax(z))
    entropy = -(p[0] * np.log(p[0])).sum()
    np.testing.assert_allclose(PEAKED.value(z, [0, 0]), [np.log(3) - entropy, np.log(3)])


def test_confidence_is_not_convex():
    v = np.array([[1.0, -1.0]])
    assert (v * PEAKED.hessian_product([[0.0, 0.0]], v)).sum() > 0
    assert (v * PEAKED.hessian_product([[6.0, 0.0]], v)).sum() < 0


def test_a_class_that_the_prior_leaves_out_costs_nothing():
    z = np.array([[0.0, -1e4, 0.0]])
    without = SampleLoss(0.0, 1.0, u=[0.5, 0.0, 0.5])
    np.testing.assert_allclose(without.value(z, [0]), np.log(2), rtol=1e-15)
    assert TOWARDS.value(z, [0])[0] > 3000


def test_class_frequencies_are_shares_of_the_weights():
    labels = np.array([0, 0, 2, 1])
    np.testing.assert_array_equal(class_prior("uniform", labels, 4), [0.25] * 4)
    np.testing.assert_array_equal(class_prior("class-frequency", labels, 4), [0.5, 0.25, 0.25, 0])
    weighted = class_prior("class-frequency", labels, 3, np.array([1.0, 1.0, 6.0, 2.0]))
    np.testing.assert_array_equal(weighted, [0.2, 0.2, 0.6])
    np.testing.assert_array_equal(class_prior((0.1, 0.9), labels, 2), [0.1, 0.9])
