"""The identities that tie the losses and penalties to one another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firthshot.objective import (
    Confidence,
    CrossEntropy,
    Firth,
    LabelSmoothing,
    Objective,
    class_frequencies,
    log_det_blocks,
    log_softmax,
    make_objective,
    make_penalty,
)

logits = st.integers(2, 7).flatmap(
    lambda k: st.lists(st.lists(st.floats(-50, 50), min_size=k, max_size=k), min_size=1, max_size=5)
)
coefficients = st.floats(0, 50)


@settings(deadline=None)
@given(logits)
def test_sum_of_log_probabilities_is_minus_k_times_firth(z):
    K = len(z[0])
    expected = -K * Firth().value(z) - K * np.log(K)
    np.testing.assert_allclose(log_softmax(z).sum(-1), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(log_det_blocks(z), expected, rtol=1e-12, atol=1e-12)


@settings(deadline=None)
@given(logits, coefficients)
def test_firth_is_label_smoothing_times_one_plus_lambda(z, lam):
    """CE + λ CE(U‖p) = (1+λ) × smoothed CE, and KL(U‖p) = CE(U‖p) - log K."""
    K = len(z[0])
    y = np.arange(len(z)) % K
    firth = Objective(CrossEntropy(), Firth(), lam)
    smooth = LabelSmoothing(lam / (1 + lam))
    np.testing.assert_allclose(
        firth.value(z, y) + lam * np.log(K), (1 + lam) * smooth.value(z, y), rtol=1e-11, atol=1e-11
    )
    np.testing.assert_allclose(
        firth.gradient(z, y), (1 + lam) * smooth.gradient(z, y), rtol=1e-11, atol=1e-11
    )


@settings(deadline=None)
@given(logits)
def test_the_uniform_prior_given_is_the_uniform_prior_meant(z):
    K = len(z[0])
    given_prior = Firth(np.full(K, 1 / K))
    np.testing.assert_allclose(given_prior.value(z), Firth().value(z), rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(given_prior.gradient(z), Firth().gradient(z))


@pytest.mark.parametrize("K", [2, 5, 150])
def test_penalties_vanish_where_they_point(K):
    flat = np.zeros((1, K))
    assert abs(Firth().value(flat)[0]) < 1e-14
    assert abs(Confidence().value(flat)[0]) < 1e-14
    np.testing.assert_allclose(Firth().gradient(flat), 0, atol=1e-16)
    np.testing.assert_allclose(Confidence().gradient(flat), 0, atol=1e-16)
    prior = np.arange(1.0, K + 1) / np.arange(1.0, K + 1).sum()
    np.testing.assert_allclose(Firth(prior).value(np.log(prior)[None]), 0, atol=1e-14)


def test_confidence_is_log_k_minus_entropy_and_at_most_log_k():
    z = np.array([[0.3, -1.0, 2.0], [1e4, 0, 0]])
    p = np.exp(log_softmax(z))
    entropy = -(p[0] * np.log(p[0])).sum()
    np.testing.assert_allclose(Confidence().value(z), [np.log(3) - entropy, np.log(3)])


def test_confidence_is_not_convex():
    v = np.array([[1.0, -1.0]])
    assert (v * Confidence().hvp([[0.0, 0.0]], v)).sum() > 0
    assert (v * Confidence().hvp([[6.0, 0.0]], v)).sum() < 0


def test_a_class_that_the_prior_leaves_out_costs_nothing():
    z = np.array([[0.0, -1e4, 0.0]])
    np.testing.assert_allclose(Firth([0.5, 0.0, 0.5]).value(z), 0, atol=1e-15)
    assert Firth().value(z)[0] > 3000


def test_class_frequencies_count_per_trial():
    labels = np.array([[0, 0, 2, 1], [2, 2, 2, 2]])
    expected = [[0.5, 0.25, 0.25], [0, 0, 1]]
    np.testing.assert_array_equal(class_frequencies(labels, 3), expected)


@pytest.mark.parametrize("name", ["none", "firth", "confidence"])
def test_objectives_by_name_are_cross_entropy_plus_the_penalty(name):
    z, y = np.random.default_rng(0).normal(size=(6, 3)), np.arange(6) % 3
    expected = CrossEntropy().value(z, y) + 0.4 * make_penalty(name).value(z)
    np.testing.assert_allclose(make_objective(name, 0.4).value(z, y), expected, rtol=1e-14)


def test_names_reach_the_prior_and_the_smoothing():
    z, y, prior = np.random.default_rng(0).normal(size=(6, 3)), np.arange(6) % 3, [0.2, 0.8, 0]
    np.testing.assert_array_equal(
        make_objective("label-smoothing", 0.2, prior).value(z, y),
        LabelSmoothing(0.2, prior).value(z, y),
    )
    np.testing.assert_array_equal(
        make_objective("firth", 1.0, prior).value(z, y),
        Objective(CrossEntropy(), Firth(prior), 1.0).value(z, y),
    )
