"""Leave-one-out by one Newton step against refitting, on real embeddings."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from firthshot import estimators, load_bank
from firthshot.estimators import FirthCosineClassifier, _left_out
from firthshot.estimators._base import L2_GRID, LAM_GRID, HeadEstimator
from firthshot.estimators._left_out import LeftOut, choose, leavable_rows
from oracles.linear_optimum import draw

Head = partial(estimators.FirthClassifier, l2=1.0, calibrate=False)
# Base and validation classes only.
CELLS = [(5, 2), (5, 5), (10, 2), (10, 5), (20, 2), (5, 20), (20, 5)]
PATHS = {
    "lam, l2 1": [(lam, 1.0) for lam in LAM_GRID],
    "lam, l2 0.01": [(lam, 0.01) for lam in LAM_GRID],
    "l2, lam 0": [(0.0, l2) for l2 in L2_GRID],
    "l2, lam 3": [(3.0, l2) for l2 in L2_GRID],
}


def sample(ways, shots, seed):
    """Draw a support set from the base and validation classes of the embedded bank."""
    bank = load_bank("clinc150-minilm")
    rng = np.random.default_rng((ways, shots, seed))
    classes = bank.class_rows("base") + bank.class_rows("val")
    chosen = rng.choice(len(classes), ways, replace=False)
    rows = np.concatenate([rng.choice(classes[c], shots, replace=False) for c in chosen])
    return np.asarray(bank.features[rows], np.float64), np.repeat(np.arange(ways), shots)


def both_ways(X, y, path, **settings):
    """Return left-out logits by one Newton step and by refitting, and what they are scored on."""
    head = Head(class_weight=None, tol=1e-8, **settings)
    support = head._support(X, y, None)
    rows = leavable_rows(support)
    fits = head._fit_path(support, path)
    quick = head._left_out_logits(support, rows, path, fits)
    slow = HeadEstimator._left_out_logits(head, support, rows, path, fits)
    return quick, slow, rows, support


def chosen(logits, rows, support, path):
    left = [LeftOut(rows, support.labels[rows], support.weights[rows], z) for z in logits]
    return choose(left, path)[0]


def agreement(cells, paths, trials):
    """Return how many trials choose the same, or a neighbouring, grid value both ways."""
    same = near = total = 0
    for ways, shots in cells:
        for path in paths:
            for seed in range(trials):
                quick, slow, rows, support = both_ways(*sample(ways, shots, seed), path)
                one, two = (chosen(z, rows, support, path) for z in (quick, slow))
                same, near, total = same + (one == two), near + (abs(one - two) <= 1), total + 1
    print(f"same {same}, neighbouring or same {near} of {total}")
    return near / total


def test_the_grid_value_is_that_of_refitting():
    assert agreement([(5, 2), (5, 5)], list(PATHS.values()), 2) >= 0.95


@pytest.mark.slow
def test_the_grid_value_is_that_of_refitting_in_many_trials():
    assert agreement(CELLS, list(PATHS.values()), 15) >= 0.95


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_one_newton_step_is_exact_where_little_changes(k, fit_intercept):
    """With many rows one of them moves the optimum little: Newton's error is of second order."""
    X, y = draw(80, 5, k, spread=0.5)
    quick, slow, *_ = both_ways(X, y, [(0.5, 1.0)], fit_intercept=fit_intercept)
    inside = (
        Head(class_weight=None, lam=0.5, l2=1.0, fit_intercept=fit_intercept).fit(X, y)._scores(X)
    )
    quick, slow, inside = (z - z.mean(-1, keepdims=True) for z in (quick[0], slow[0], inside))
    assert abs(quick - slow).max() < 0.05 * abs(slow - inside).max()


def test_one_newton_step_is_newton_on_the_left_out_problem():
    """Compare with the textbook: solve with the dense Hessian of the objective without the row."""
    X, y = draw(12, 4, 3)
    lam, l2 = 0.7, 0.5
    head = Head(class_weight=None, lam=lam, l2=l2, tol=1e-12).fit(X, y)
    head._refit_work = 0
    left = head.leave_one_out(X, y)
    rows = np.column_stack([X, np.ones(12)])
    theta = np.column_stack([head.coef_, head.intercept_])
    p = np.exp(rows @ theta.T)
    p /= p.sum(1, keepdims=True)
    g = (1 + lam) * p - np.eye(3)[y] - lam / 3
    ridge = np.kron(np.eye(3), np.diag([l2] * 4 + [1e-9]))
    for i in left.rows:
        H = ridge.copy()
        for j in set(range(12)) - {i}:
            A = (1 + lam) * (np.diag(p[j]) - np.outer(p[j], p[j]))
            H += np.kron(A, np.outer(rows[j], rows[j]))
        gradient = -np.kron(g[i], rows[i])
        moved = theta - np.linalg.lstsq(H, gradient, rcond=None)[0].reshape(3, 5)
        expected = rows[i] @ moved.T
        got = left.logits[list(left.rows).index(i)]
        np.testing.assert_allclose(got - got.mean(), expected - expected.mean(), atol=2e-3)


@pytest.mark.parametrize("make", [Head, FirthCosineClassifier])
def test_left_out_rows_of_a_small_support_set_are_exact(make):
    """With two rows per class one Newton step is some points of accuracy away from refitting."""
    X, y = sample(6, 2, 0)
    head = make(lam=0.25, l2=0.5, class_weight=None, tol=1e-7).fit(X, y)
    left = head.leave_one_out(X, y)
    for row, logits in zip(left.rows, left.logits, strict=True):
        rest = np.arange(len(y)) != row
        other = make(lam=0.25, l2=0.5, class_weight=None, tol=1e-7).fit(X[rest], y[rest])
        np.testing.assert_allclose(other._scores(X[row : row + 1])[0], logits, atol=1e-5)
    head._refit_work = 0
    one_step = head.leave_one_out(X, y)
    assert abs(one_step.logits - left.logits).max() > 1e-3


def test_beyond_the_budget_leverages_stand_in(monkeypatch):
    X, y = draw(150, 6, 3, spread=0.5)
    exact, *_ = both_ways(X, y, [(1.0, 1.0)])
    monkeypatch.setattr(_left_out, "MOST_OPERATIONS", 0.0)
    near, slow, *_ = both_ways(X, y, [(1.0, 1.0)])
    inside = Head(lam=1.0, l2=1.0).fit(X, y)._scores(X)
    centred = [z - z.mean(-1, keepdims=True) for z in (near[0], slow[0], inside)]
    error, change = abs(centred[0] - centred[1]).max(), abs(centred[2] - centred[1]).max()
    assert abs(exact - near).max() > 0
    assert error < 0.2 * change


def test_both_coefficients_are_chosen_from_the_product_of_the_grids():
    X, y = sample(5, 4, 0)
    model = Head(lam="loo", l2="loo", tol=1e-9).fit(X, y)
    path = model.loo_path_
    assert len(path["lam"]) == len(LAM_GRID) * len(L2_GRID) == len(path["nll"])
    best = int(np.argmin(path["nll"]))
    assert (model.lam_, model.l2_) == (path["lam"][best], path["l2"][best])
    assert model.lam_source_ == model.l2_source_ == "loo"
    again = Head(lam=model.lam_, l2=model.l2_, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-5)
    assert not hasattr(again, "loo_path_")


def test_one_row_per_class_falls_back_and_says_so():
    X, y = sample(5, 1, 0)
    with pytest.warns(UserWarning, match="lam = 1 is used instead of leave-one-out"):
        model = Head(lam="loo", l2=1.0).fit(X, y)
    assert (model.lam_, model.lam_source_) == (1.0, "fallback")
    assert not hasattr(model, "loo_path_")
    left = Head(lam=1.0).fit(X, y).leave_one_out(X, y)
    assert len(left.rows) == 0
    assert np.isnan(left.nll)


def test_rows_that_are_alone_in_their_class_are_never_left_out():
    X, y = sample(4, 3, 0)
    X, y = X[:-2], y[:-2]  # the last class keeps one row
    left = Head(lam=1.0).fit(X, y).leave_one_out(X, y)
    assert left.rows.tolist() == list(range(9))


def test_left_out_scores_are_weighted_means():
    X, y = sample(3, 4, 0)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 12)
    left = (
        Head(class_weight=None, lam=1.0)
        .fit(X, y, sample_weight=weights)
        .leave_one_out(X, y, weights)
    )
    log_p = left.logits - np.log(np.exp(left.logits).sum(1, keepdims=True))
    own = log_p[np.arange(12), y]
    assert left.nll == pytest.approx(-(weights @ own) / weights.sum())
    right = left.logits.argmax(1) == y
    assert left.accuracy == pytest.approx((weights @ right) / weights.sum())
