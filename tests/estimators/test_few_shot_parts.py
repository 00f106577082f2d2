"""The heads of the blend against plain implementations, and the blend itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from firthshot.estimators import FirthClassifier
from firthshot.estimators._few_shot import blend, logistic
from firthshot.estimators._few_shot.gaussian import fit_gaussian
from firthshot.estimators._few_shot.heads import left_out_rounds, ridge, rounds_of, scatter_of
from firthshot.estimators._few_shot.neighbours import Neighbours
from firthshot.estimators._few_shot.rows import LabelledRows, place
from oracles.linear_optimum import draw


def examples(n, d, K, seed=0):
    X, y = draw(n, d, K, seed=seed)
    alike = LabelledRows(X, y, np.ones(n), K).alike
    return LabelledRows(X - alike @ X / alike.sum(), y, np.ones(n), K)


# Coordinates


@pytest.mark.parametrize("kind", ["unit", "scaled", "plain"])
@pytest.mark.parametrize(("n", "d"), [(8, 30), (30, 8)])
def test_coordinates_keep_distances(kind, n, d):
    X, y = draw(n, d, 3)
    new = np.random.default_rng(1).normal(size=(5, d))
    where = place(X, y, np.ones(n), 3, kind)
    rows, outside = where.apply(X), where.apply(new)
    np.testing.assert_allclose(rows[:, -1], 0, atol=1e-6)
    prepared = {
        "unit": lambda A: A / np.linalg.norm(A, axis=1, keepdims=True),
        "scaled": lambda A: A / where.spread,
        "plain": lambda A: A,
    }[kind]
    expected = np.linalg.norm(prepared(new)[:, None] - prepared(X), axis=2) / where.size
    found = np.linalg.norm(outside[:, None] - rows, axis=2)
    np.testing.assert_allclose(found, expected, rtol=1e-7)


# Heads


def test_the_firth_head_is_that_of_firth_classifier():
    known = examples(40, 6, 4)
    l2, lam = ridge(known), 0.3
    rows = np.column_stack([known.rows, np.ones(40)])
    problem = logistic.Problem(
        rows, np.eye(4)[known.labels] + lam / 4, known.alike[None], lam, l2,
        scatter_of(known, known.alike),
    )  # fmt: skip
    W = logistic.solve(problem, problem.inverse(), tolerance=1e-10)[0]
    oracle = FirthClassifier(lam=lam, class_weight="balanced", calibrate=False, tol=1e-10)
    oracle.fit(known.rows, known.labels)
    assert oracle.l2_ == pytest.approx(l2)
    logits = known.rows @ W[:-1] + W[-1]
    expected = oracle.decision_function(known.rows)
    np.testing.assert_allclose(
        logits - logits.mean(1, keepdims=True),
        expected - expected.mean(1, keepdims=True),
        atol=1e-7,
    )


def test_several_sets_of_weights_are_several_fits():
    known = examples(30, 5, 3)
    rows = np.column_stack([known.rows, np.ones(30)])
    random = np.random.default_rng(0)
    weights = random.integers(0, 3, (4, 30)) + 0.5
    problem = logistic.Problem(
        rows, np.eye(3)[known.labels], weights, 0.0, 0.5, scatter_of(known, known.alike)
    )
    together = logistic.solve(problem, problem.inverse(), tolerance=1e-9)
    for one, found in zip(weights, together, strict=True):

        def value(flat, one=one):
            alone = logistic.Problem(*vars(problem).values())
            object.__setattr__(alone, "weights", one[None])
            f, g = alone.value_and_gradient(flat.reshape(1, 6, 3))
            return f[0], g.ravel()

        best = minimize(value, np.zeros(18), jac=True, options={"gtol": 1e-9})
        assert value(found.ravel())[0] <= best.fun + 1e-8


def test_the_gaussian_head_is_the_density_it_says():
    known = examples(60, 4, 3)
    head = fit_gaussian(known, scatter_of(known, known.weights), 4)
    covariance = np.linalg.inv(head.whitening @ head.whitening.T)
    new = np.random.default_rng(1).normal(size=(7, 4))
    expected = np.stack(
        [
            multivariate_normal(head.centre + away, widening * covariance).logpdf(new)
            for away, widening in zip(head.away, head.widening, strict=True)
        ],
        axis=1,
    )
    found = head.logits(new) - 0.5 * (4 - head.directions) * np.log(head.widening)
    np.testing.assert_allclose(
        found - found[:, :1], expected - expected[:, :1], rtol=1e-6, atol=1e-6 * abs(expected).max()
    )


def test_unequal_shots_widen_classes_of_few_rows_and_draw_their_means():
    X, y = draw(40, 5, 2)
    kept = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:2]]
    known = LabelledRows(X[kept], y[kept], np.ones(len(kept)), 2)
    head = fit_gaussian(known, scatter_of(known, known.weights), 5)
    assert head.widening[1] > head.widening[0] > 1
    length = np.linalg.norm(known.class_means - head.centre, axis=1)
    drawn = np.linalg.norm(head.away, axis=1) / length
    assert drawn[1] < drawn[0] < 1


def test_neighbours_range_from_the_nearest_row_to_the_nearest_mean():
    known = examples(30, 4, 3)
    new = np.random.default_rng(1).normal(size=(50, 4))
    distance = np.linalg.norm(new[:, None] - known.rows, axis=2)
    narrow = Neighbours(known, 1e-3).logits(new).argmax(1)
    np.testing.assert_array_equal(narrow, known.labels[distance.argmin(1)])
    wide = Neighbours(known, 1e6).logits(new).argmax(1)
    spread = np.stack([np.square(distance[:, known.labels == k]).mean(1) for k in range(3)], axis=1)
    np.testing.assert_array_equal(wide, spread.argmin(1))


# Rounds


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=4, max_size=40), st.integers(0, 10**6))
def test_rounds_are_disjoint_and_leave_every_class_a_row(labels, seed):
    labels = np.unique(labels, return_inverse=True)[1]
    along = np.random.default_rng(seed).integers(0, 12, len(labels)).astype(float)
    K = int(labels.max()) + 1
    known = LabelledRows(along[:, None], labels, np.ones(len(labels)), K)
    rounds = left_out_rounds(along, known)
    rows = np.concatenate([np.empty(0, int), *rounds])
    assert len(np.unique(rows)) == len(rows)
    for left in rounds:
        kept = np.setdiff1d(np.arange(len(labels)), left)
        assert set(labels[kept]) == set(range(K))
        copies = [(labels[i], along[i]) for i in left]
        assert not set(copies) & {(labels[i], along[i]) for i in kept}


def test_rounds_come_back_from_their_numbers():
    turns = np.array([0, 2, -1, 1, 0, 2])
    found = [rows.tolist() for rows in rounds_of(turns)]
    assert found == [[0, 4], [3], [1, 5]]
    assert rounds_of(np.full(3, -1)) == []


# The blend


def test_no_evidence_leaves_the_rule():
    prior = np.array([2.0, 1.0])
    flat = np.zeros((2, 5, 3))
    found = blend.settle(flat, np.zeros(5, int), np.ones(5), prior)
    np.testing.assert_allclose(found, prior, rtol=1e-6)


def test_left_out_rows_move_the_blend_to_the_head_that_knows():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 200)
    knows = np.eye(3)[labels] + 0.4 * random.normal(size=(200, 3))
    guesses = random.normal(size=(200, 3))
    prior = np.array([3.0, 3.0])
    a = blend.settle(np.stack([knows, guesses]), labels, np.ones(200), prior)
    assert a[0] / a[1] > 5
    kept = blend.settle(np.stack([knows, guesses]), labels, np.ones(200), prior, apart=0.0)
    assert kept[0] == pytest.approx(kept[1])


def test_the_blend_is_at_the_optimum_of_its_posterior():
    random = np.random.default_rng(1)
    labels = random.integers(0, 3, 30)
    logits = np.eye(3)[labels] + random.normal(size=(3, 30, 3))
    weights, prior = random.uniform(0.5, 2, 30), np.array([1.0, 2.0, 0.5])

    def loss(u):
        value = blend._likelihood(logits, labels, weights, np.exp(u))[0]
        away = u - np.log(prior)
        together = away.mean() ** 2 / blend.TOGETHER**2
        apart = ((away - away.mean()) ** 2).sum() / blend.APART**2
        return value + 0.5 * (together + apart)

    best = minimize(loss, np.log(prior), options={"gtol": 1e-9})
    found = blend.settle(logits, labels, weights, prior)
    np.testing.assert_allclose(np.log(found), best.x, atol=1e-4)


def test_the_margin_is_what_a_class_has_at_its_own_mean():
    logits = np.array([[3.0, 1.0, 1.0], [0.0, 5.0, 0.0], [2.0, 2.0, 4.0]])
    assert blend.margin(logits) == pytest.approx((2 + 5 + 2) / 3)
    assert blend.margin(-logits) == 0
