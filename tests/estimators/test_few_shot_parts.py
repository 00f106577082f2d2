"""The heads of the blend against plain implementations, and the blend itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import multivariate_normal

from firthshot.estimators import FirthClassifier
from firthshot.estimators._few_shot import blend, heads, logistic
from firthshot.estimators._few_shot.gaussian import (
    USUAL_DIRECTIONS,
    class_directions,
    fit_gaussian,
    fit_means,
    spread_of,
)
from firthshot.estimators._few_shot.heads import FirthPenalty, fit_heads, ridge
from firthshot.estimators._few_shot.neighbours import Neighbours
from firthshot.estimators._few_shot.rows import place
from firthshot.estimators._few_shot.sets import Sets, sets_of
from oracles.linear_optimum import draw


def all_of(labels, weights=None):
    """Return the one set of all rows."""
    labels = np.asarray(labels)
    weights = np.ones(len(labels)) if weights is None else weights
    nothing = np.empty((0, 0), int)
    return Sets(labels, weights[None], nothing, int(labels.max()) + 1)


def examples(n, d, K, seed=0):
    """Return rows whose mean over classes is zero, and their set."""
    X, y = draw(n, d, K, seed=seed)
    sets = all_of(y)
    return X - sets.alike[0] @ X / n, sets


def scatter_of(X, weights):
    return ((X.T * weights) @ X)[None, None]


# Coordinates


@pytest.mark.parametrize("kind", ["power", "unit", "scaled", "plain"])
@pytest.mark.parametrize(("n", "d"), [(8, 70), (30, 8)])
def test_coordinates_keep_distances(kind, n, d):
    X, y = draw(n, d, 3)
    new = np.random.default_rng(1).normal(size=(5, d))
    where = place(X, all_of(y), kind)
    rows, others = where.apply(X), where.apply(new)

    def unit(A):
        return A / np.linalg.norm(A, axis=1, keepdims=True)

    prepared = {
        "power": lambda A: unit(np.sign(A) * np.abs(A) ** 0.75),
        "unit": unit,
        "scaled": lambda A: A / where.spread,
        "plain": lambda A: A,
    }[kind]
    expected = np.linalg.norm(prepared(new)[:, None] - prepared(X), axis=2) / where.size
    found = np.linalg.norm(others[:, None] - rows, axis=2)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


# Heads


def test_the_firth_head_is_that_of_firth_classifier():
    X, sets = examples(40, 6, 4)
    l2, lam = ridge(X, sets), 0.3
    W = logistic.solve(X, sets, lam, l2, tolerance=1e-10)[0]
    oracle = FirthClassifier(lam=lam, class_weight="balanced", calibrate=False, tol=1e-10)
    oracle.fit(X, sets.labels)
    assert oracle.l2_ == pytest.approx(l2)
    logits = X @ W[:-1] + W[-1]
    expected = oracle.decision_function(X)
    np.testing.assert_allclose(
        logits - logits.mean(1, keepdims=True),
        expected - expected.mean(1, keepdims=True),
        atol=1e-7,
    )


@pytest.mark.parametrize("shots", [(6, 6), (12, 3), (9, 1)])
@pytest.mark.parametrize(("lam", "l2"), [(0.1, 0.3), (0.0, 0.01), (0.2, 0.0)])
def test_two_classes_in_few_columns_are_solved_alike_by_newton(shots, lam, l2):
    labels = np.repeat([0, 1], shots)
    rows = np.random.default_rng(0).normal(size=(2, len(labels), 3)) + 0.5 * labels[:, None]
    rows -= rows.mean(axis=1, keepdims=True)
    sets = sets_of(rows[0, :, 0], labels, np.random.default_rng(1).uniform(1, 2, len(labels)), 2)
    ridges = np.array([l2, 2 * l2])
    found = logistic.solve_two(rows, sets, lam, ridges, tolerance=1e-9)
    expected = [
        logistic.solve(X, sets, lam, own, 1e-9) for X, own in zip(rows, ridges, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_two_classes_that_newton_cannot_solve_go_to_the_other_solver(monkeypatch):
    X, sets = examples(12, 3, 2)
    expected = logistic.fit_all(X[None], sets, 0.1, np.array([0.3]))
    monkeypatch.setattr(logistic, "NEWTON_STEPS", 1)
    assert logistic.solve_two(X[None], sets, 0.1, np.array([0.3])) is None
    found = logistic.fit_all(X[None], sets, 0.1, np.array([0.3]))
    np.testing.assert_allclose(found, expected, atol=2e-2)


@pytest.mark.parametrize("l2", [0.0, 2.0])
@pytest.mark.parametrize("large", [1, 10**9])
def test_several_sets_of_weights_are_several_fits(monkeypatch, large, l2):
    monkeypatch.setattr("firthshot.estimators._support.WORTH_SINGLE", large)
    X, sets = examples(30, 5, 3)
    random = np.random.default_rng(0)
    weights = random.integers(0, 3, (4, 30)) + 0.5
    sets = Sets(sets.labels, weights, np.empty((0, 0), int), 3)
    together = logistic.solve(X, sets, 0.1, l2, tolerance=1e-9)
    for b, W in enumerate(together):
        alone = Sets(sets.labels, weights[b : b + 1], sets.left, 3)
        expected = logistic.solve(X, alone, 0.1, l2, tolerance=1e-9)[0]
        np.testing.assert_allclose(W, expected, atol=1e-6)


def test_the_gaussian_head_is_the_density_it_says():
    X, sets = examples(60, 4, 3)
    head = fit_gaussian(spread_of(X[None], sets), scatter_of(X, sets.weights[0]), 4)
    whitening, directions = head.whitening[0, 0], float(head.directions[0, 0, 0, 0])
    covariance = np.linalg.inv(whitening @ whitening.T)
    widening = head.widening[0, 0, 0]
    new = np.random.default_rng(1).normal(size=(7, 4))
    expected = np.stack(
        [
            multivariate_normal(head.centre[0, 0, 0] + away, wide * covariance).logpdf(new)
            for away, wide in zip(head.away[0, 0], widening, strict=True)
        ],
        axis=1,
    )
    found = head.logits(new)[0, 0] - 0.5 * (4 - directions) * np.log(widening)
    np.testing.assert_allclose(
        found - found[:, :1], expected - expected[:, :1], rtol=1e-6, atol=1e-6 * abs(expected).max()
    )


def test_unequal_shots_widen_classes_of_few_rows_and_draw_their_means():
    X, y = draw(40, 5, 2)
    kept = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:2]]
    X, sets = X[kept], all_of(y[kept])
    spread = spread_of(X[None], sets)
    head = fit_gaussian(spread, scatter_of(X, sets.weights[0]), 5)
    widening = head.widening[0, 0, 0]
    assert widening[1] > widening[0] > 1
    length = np.linalg.norm(spread.means[0, 0] - head.centre[0, 0], axis=1)
    drawn = np.linalg.norm(head.away[0, 0], axis=1) / length
    assert drawn[1] < drawn[0] < 1


def test_means_of_equal_shots_choose_the_nearest():
    X, sets = examples(30, 4, 3)
    sets = all_of(np.arange(30) % 3)
    spread = spread_of(X[None], sets)
    new = np.random.default_rng(1).normal(size=(50, 4))
    head = fit_means(spread, 4)
    found = head.logits(new)[0, 0].argmax(1)
    distance = np.linalg.norm(new[:, None] - head.centre[0, 0] - head.away[0, 0], axis=2)
    np.testing.assert_array_equal(found, distance.argmin(1))


def test_neighbours_range_from_the_nearest_row_to_the_nearest_mean():
    X, sets = examples(30, 4, 3)
    new = np.random.default_rng(1).normal(size=(50, 4))
    distance = np.linalg.norm(new[:, None] - X, axis=2)

    def chosen(width):
        head = Neighbours(X, sets.averaging[0].T, np.zeros((1, 30)), np.full((1, 1), width))
        return head.logits(new).argmax(1)

    np.testing.assert_array_equal(chosen(1e-3), sets.labels[distance.argmin(1)])
    spread = np.stack([np.square(distance[:, sets.labels == k]).mean(1) for k in range(3)], axis=1)
    np.testing.assert_array_equal(chosen(1e6), spread.argmin(1))


@pytest.mark.parametrize("name", heads.HEADS)
def test_left_out_rows_are_judged_by_heads_without_them(name):
    X, y = draw(24, 5, 3)
    kinds = np.stack([X, X / X.std(axis=0)])
    sets = sets_of(X[:, 0], y, np.ones(24), 3)
    penalty = FirthPenalty(0.1, np.array([0.5, 0.7]))
    together = fit_heads(kinds, sets, (name,), penalty, 5).left_out
    at = 0
    for left in sets.left:
        rows = left[left >= 0]
        kept = np.setdiff1d(np.arange(24), rows)
        alone = fit_heads(kinds[:, kept], all_of(y[kept]), (name,), penalty, 5).heads
        for s in range(2):
            expected = alone[s][name].logits(kinds[s, rows])
            found = together[s, 0, at : at + len(rows)]
            np.testing.assert_allclose(
                found - found.mean(1, keepdims=True),
                expected - expected.mean(1, keepdims=True),
                atol=0.02 if name == "firth" else 1e-6,  # the Firth head is solved roughly
            )
        at += len(rows)


# Sets


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=4, max_size=40), st.integers(0, 10**6))
def test_rounds_are_disjoint_and_leave_every_class_a_row(labels, seed):
    labels = np.unique(labels, return_inverse=True)[1]
    along = np.random.default_rng(seed).integers(0, 12, len(labels)).astype(float)
    K = int(labels.max()) + 1
    sets = sets_of(along, labels, np.ones(len(labels)), K)
    rows = sets.left_out()
    assert len(np.unique(rows)) == len(rows)
    for weights in sets.weights[1:]:
        kept, left = np.flatnonzero(weights), np.flatnonzero(weights == 0)
        assert set(labels[kept]) == set(range(K))
        copies = [(labels[i], along[i]) for i in left]
        assert not set(copies) & {(labels[i], along[i]) for i in kept}


def test_evidence_is_worth_what_its_poorest_classes_let_it():
    def worth(shots):
        labels = np.repeat(np.arange(len(shots)), shots)
        along = np.random.default_rng(0).normal(size=len(labels))
        sets = sets_of(along, labels, np.ones(len(labels)), len(shots))
        weights, left = sets.evidence(), sets.labels[sets.left_out()]
        totals = np.bincount(left, weights, minlength=len(shots))[np.unique(left)]
        np.testing.assert_allclose(totals, totals.mean() if len(totals) else 0.0)
        return float(weights.sum())

    assert worth([5, 5]) == pytest.approx(10)
    assert worth([2, 16]) == pytest.approx(4 * 2 * 16 / 18)  # Kish: (Σw)² / Σw²
    assert worth([1, 25]) == 0
    assert worth([1, 5, 5]) == pytest.approx(10 / 2)
    assert worth([1, 1]) == 0


def test_evidence_for_rows_of_a_prior_counts_classes_as_frequent_as_it_says():
    labels = np.repeat([0, 1, 2], [8, 4, 1])
    along = np.random.default_rng(0).normal(size=13)
    sets = sets_of(along, labels, np.ones(13), 3)
    left = labels[sets.left_out()]
    by_shots = sets.evidence(np.array([8, 4, 1]) / 13)
    # All rows alike; of what can be confused beside the first class, 4 of 5 parts are seen.
    np.testing.assert_allclose(by_shots, 4 / 5)
    totals = np.bincount(left, sets.evidence(np.array([0.2, 0.7, 0.1])))
    assert totals[1] / totals[0] == pytest.approx(3.5)
    assert (
        not sets_of(along, np.repeat([0, 1], [12, 1]), np.ones(13), 2)
        .evidence(np.array([12, 1]) / 13)
        .any()
    )


# The rule


@pytest.mark.parametrize("directions", [10, 60])
def test_class_means_show_the_directions_that_they_lie_in(directions):
    means = np.random.default_rng(0).normal(size=(40, directions))
    rows = np.pad(means, ((0, 0), (0, 100 - directions)))
    found = class_directions(spread_of(rows[None], all_of(np.arange(40))))
    assert found[0] == pytest.approx(directions, rel=0.15)
    two = class_directions(spread_of(rows[None, :2], all_of([0, 1])))
    assert two[0] == pytest.approx(USUAL_DIRECTIONS)  # one direction shows nothing


def test_the_ridge_of_a_table_falls_with_the_rows_of_its_poorest_classes():
    random = np.random.default_rng(0)

    def of(shots):
        labels = np.repeat([0, 1], shots)
        rows = random.normal(size=(len(labels), 4))
        return ridge(rows / 2, all_of(labels), table=True)

    assert of([2, 2]) > 2 * of([10, 10]) > 4 * of([40, 40])
    assert of([2, 38]) > 2 * of([20, 20])


def test_classes_far_apart_make_the_rule_sharper():
    shares, margins = np.array([0.5, 0.5]), np.array([[1.0, 3.0], [1.0, 3.0]])
    near, far = blend.rule(shares, margins, np.array([2.0, 20.0]), fixed=False)
    assert far.sum() > 3 * near.sum()
    np.testing.assert_allclose(near / near.sum(), [0.25, 0.75])
    fixed = blend.rule(shares, margins, np.array([2.0, 20.0]), fixed=True)
    np.testing.assert_allclose(fixed[0], near.sum() / 2)


# The blend


def test_no_evidence_leaves_the_rule():
    start = np.array([[2.0, 1.0], [0.5, 3.0]])
    found, _ = blend.settle(np.zeros((2, 2, 5, 3)), np.zeros(5, int), np.ones(5), start)
    np.testing.assert_allclose(found, start, rtol=1e-6)
    found, loss = blend.settle(np.ones((2, 2, 0, 3)), np.zeros(0, int), np.ones(0), start)
    np.testing.assert_allclose(found, start, rtol=1e-6)
    np.testing.assert_array_equal(loss, 0)


def test_left_out_rows_move_the_blend_to_the_head_that_knows():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 200)
    knows = np.eye(3)[labels] + 0.4 * random.normal(size=(200, 3))
    guesses = random.normal(size=(200, 3))
    start = np.array([[3.0, 3.0]])
    a, _ = blend.settle(np.stack([[knows, guesses]]), labels, np.ones(200), start)
    assert a[0, 0] / a[0, 1] > 5
    kept, _ = blend.settle(np.stack([[knows, guesses]]), labels, np.ones(200), start, apart=0.0)
    assert kept[0, 0] == pytest.approx(kept[0, 1])


@pytest.mark.parametrize("prior", [(1 / 3, 1 / 3, 1 / 3), (0.7, 0.2, 0.1)])
def test_the_blend_is_at_the_optimum_of_its_posterior(monkeypatch, prior):
    monkeypatch.setattr(blend, "CLOSE", 1e-7)
    random = np.random.default_rng(1)
    labels = random.integers(0, 3, 30)
    logits = np.eye(3)[labels] + random.normal(size=(2, 3, 30, 3))
    weights, start = random.uniform(0.5, 2, 30), np.array([[1.0, 2.0, 0.5], [2.0, 1.0, 1.0]])

    def loss(u, s):
        log_p = log_softmax(np.tensordot(np.exp(u), logits[s], 1) + np.log(prior), axis=1)
        value = -log_p[np.arange(30), labels] @ weights
        away = u - np.log(start[s])
        together = away.mean() ** 2 / blend.TOGETHER**2
        apart = ((away - away.mean()) ** 2).sum() / blend.APART**2
        return value + 0.5 * (together + apart)

    found, value = blend.settle(logits, labels, weights, start, log_prior=np.log(prior))
    for s in range(2):
        best = minimize(loss, np.log(start[s]), (s,), options={"gtol": 1e-9})
        np.testing.assert_allclose(np.log(found[s]), best.x, atol=1e-4)
        assert value[s] == pytest.approx(best.fun)


def test_kinds_of_columns_count_as_left_out_rows_say():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 60)
    knows = 3 * np.eye(3)[labels] + random.normal(size=(60, 3))
    guesses = random.normal(size=(60, 3))
    kinds = np.stack([guesses, knows])[:, None]
    start, alike = np.ones((2, 1)), np.zeros(3)
    found = blend.blend(kinds, labels, np.ones(60), start, alike, fixed=False)
    assert found.weights[1] > 0.99
    lost = blend.blend(kinds[:1], labels, np.ones(60), start[:1], alike[1:], fixed=False)
    assert lost.weights[0] < 0.6  # knowing nothing does as well as guesses


def test_the_margin_is_what_a_class_has_at_its_own_mean():
    logits = np.array([[3.0, 1.0, 1.0], [0.0, 5.0, 0.0], [2.0, 2.0, 4.0]])
    assert heads.margin(logits) == pytest.approx((2 + 5 + 2) / 3)
    assert heads.margin(-logits) == 0
