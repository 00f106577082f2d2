"""Statistics against scipy, against counting by hand, and against worked examples."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from firthshot.experiments.statistics import half_width, holm, paired, wilcoxon
from oracles.wilcoxon import normal_wilcoxon

T3 = 3.182446305284263  # tables of Student's t: 3 degrees of freedom, 97.5 %


def test_half_width_is_that_of_the_convention():
    # sd of 1, 2, 3, 4 with ddof 1 is √(5/3); over √4
    assert half_width(np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(T3 * (5 / 3) ** 0.5 / 2)
    assert np.isnan(half_width(np.array([0.5])))


@pytest.mark.parametrize("n", [2, 5, 300, 10_000])
def test_half_width_is_that_of_scipy(n):
    values = np.random.default_rng(n).normal(size=n)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert half_width(values) == pytest.approx((high - low) / 2, rel=1e-9)


def test_intervals_of_few_trials_hold_the_truth_as_often_as_they_say():
    """With 1.96 instead of t, 5 trials would hold it in 88 of 100 runs."""
    runs = np.random.default_rng(0).normal(size=(4000, 5))
    held = np.mean([abs(values.mean()) <= half_width(values) for values in runs])
    assert held == pytest.approx(0.95, abs=0.012)  # 3.5 standard errors


@given(st.integers(51, 3000), st.integers(1, 60), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_wilcoxon_agrees_with_scipy_where_it_is_normal(n, queries, seed):
    """Accuracies of few queries: many zeros and ties, as in real runs."""
    random = np.random.default_rng(seed)
    differences = random.integers(-queries, queries + 2, n) / (3 * queries)
    kept = np.round(differences, 6)
    if not kept.any():
        return
    theirs = normal_wilcoxon(kept, correction=False)
    assert wilcoxon(differences) == pytest.approx(theirs, rel=1e-9, abs=1e-300)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
@settings(max_examples=80, deadline=None)
def test_wilcoxon_of_few_counts_all_signs(steps):
    """Zeros are ranked and left out, ties share ranks, then all 2^n signs are equally likely."""
    differences = np.array(steps) / 10
    ranks = stats.rankdata(np.abs(steps))[differences != 0]
    observed = ranks[differences[differences != 0] > 0].sum()
    centre = ranks.sum() / 2
    sums = [np.dot(signs, ranks) for signs in product((0, 1), repeat=len(ranks))]
    far = [abs(total - centre) >= abs(observed - centre) - 1e-9 for total in sums]
    assert wilcoxon(differences) == pytest.approx(np.mean(far))


def test_wilcoxon_of_few_agrees_with_scipy_without_ties():
    differences = np.array([0.11, -0.02, 0.31, 0.42, -0.05, 0.26, 0.17, 0.08])
    assert wilcoxon(differences) == pytest.approx(stats.wilcoxon(differences).pvalue)


def test_rounding_of_float32_makes_no_order():
    """0.6 - 0.5 and 0.4 - 0.3 are the same step, stored as float32 or not."""
    ours = np.tile(np.array([0.6, 0.4, 0.2, 0.7], np.float32), 20)
    base = np.tile(np.array([0.5, 0.3, 0.3, 0.8], np.float32), 20)
    assert wilcoxon(ours.astype(float) - base) == pytest.approx(1.0)


def test_no_grid_of_decimals_parts_equal_steps():
    """1/128 lies halfway between two numbers of 6 decimals: float32 falls on either side."""
    random = np.random.default_rng(0)
    base = random.integers(0, 600, 400) / 1280
    steps = random.choice([-10, 10, 10, 20], 400)
    ours = base + steps / 1280
    stored = ours.astype(np.float32).astype(float) - base.astype(np.float32)
    assert len(np.unique(np.round(np.abs(stored), 6))) > 2
    assert wilcoxon(stored) == pytest.approx(normal_wilcoxon(steps, correction=False), rel=1e-9)


def test_differences_that_are_all_zero_test_nothing():
    assert paired(np.zeros(7)) == (7, 0.0, 0.0, 0.0, 0.0, 1.0)
    assert paired(np.zeros(1)) == (1, 0.0, 0.0, 0.0, 0.0, 1.0)


def test_paired_by_hand():
    found = paired(np.array([0.2, 0.0, -0.1, 0.3]))
    assert (found.trials, found.share_won, found.share_lost) == (4, 0.5, 0.25)
    assert found.mean == pytest.approx(0.1)
    assert found.ci == pytest.approx(T3 * (0.1 / 3) ** 0.5 / 2)
    # Ranks 1 (zero), 2 (-), 3 (+), 4 (+): sums 0, 2, 3, 4, 5, 6, 7, 9; 7 is 2.5 from 4.5.
    assert found.p == pytest.approx(4 / 8)


def test_holm_by_hand():
    """0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1 are 0.04, 0.06, 0.06, 0.04; never decreasing."""
    found = holm(np.array([0.04, 0.01, 0.03, 0.02]))
    np.testing.assert_allclose(found, [0.06, 0.04, 0.06, 0.06])
    np.testing.assert_allclose(holm(np.array([0.5, 0.9])), [1.0, 1.0])
    assert holm(np.array([])).shape == (0,)


def test_holm_leaves_out_what_is_no_test():
    found = holm(np.array([0.01, np.nan, 0.02]))
    np.testing.assert_allclose(found, [0.02, np.nan, 0.02])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_holm_rejects_as_the_step_down_rule_does(values):
    """Walk up from the smallest p, rejecting while p ≤ α / (tests left)."""
    p, alpha = np.array(values), 0.05
    rejected = np.zeros(len(p), bool)
    for left, i in zip(range(len(p), 0, -1), np.argsort(p, kind="stable"), strict=True):
        if p[i] * left > alpha:
            break
        rejected[i] = True
    np.testing.assert_array_equal(holm(p) <= alpha, rejected)
