"""What must not change the fit, and what must change it in a known way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import amended_loglik, random_problem

from firthshot.jeffreys import JeffreysLogisticRegression
from firthshot.jeffreys._profile import profile_intervals
from firthshot.jeffreys._tests import each_coefficient
from oracles.fisher import amended_log_det

SEEDS = st.integers(0, 10_000)
CLASSES = st.integers(2, 4)
some = settings(max_examples=15, deadline=None)


def problem(seed, classes, n=30):
    X, y, weights, _ = random_problem(np.random.default_rng(seed), n=n, classes=classes)
    return X[:, 1:], y, weights


def fitted(X, y, weights=None, **options):
    return JeffreysLogisticRegression(**options).fit(X, y, sample_weight=weights)


@given(SEEDS, CLASSES)
@some
def test_order_of_rows(seed, classes):
    X, y, weights = problem(seed, classes)
    order = np.random.default_rng(seed).permutation(len(y))
    one, other = fitted(X, y, weights), fitted(X[order], y[order], weights[order])
    np.testing.assert_allclose(other.params_, one.params_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(other.bse(), one.bse(), rtol=1e-6)


@given(SEEDS, CLASSES)
@some
def test_change_of_reference(seed, classes):
    """With another baseline coefficients are differences and the likelihood is the same."""
    X, y, weights = problem(seed, classes)
    one, other = fitted(X, y, weights), fitted(X, y, weights, reference=1)
    full = np.vstack([np.zeros(2), one.coef_])
    kept = np.delete(np.arange(classes), 1)
    np.testing.assert_allclose(other.coef_, full[kept] - full[1], rtol=1e-6, atol=1e-7)
    assert other.penalised_loglik_ == pytest.approx(one.penalised_loglik_, rel=1e-10)
    np.testing.assert_allclose(other.predict_proba(X), one.predict_proba(X), rtol=1e-6)


@given(SEEDS, CLASSES, st.floats(-6, 6), st.floats(-3, 3))
@some
def test_scale_and_shift_of_columns(seed, classes, power, shift):
    X, y, weights = problem(seed, classes)
    factor = 10.0**power
    one, other = fitted(X, y, weights), fitted(X * [factor, 1.0] + [0.0, shift], y, weights)
    np.testing.assert_allclose(other.coef_ * [factor, 1.0], one.coef_, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(other.predict_proba(X * [factor, 1.0] + [0.0, shift]),
                               one.predict_proba(X), rtol=1e-5)  # fmt: skip


@given(SEEDS, CLASSES)
@some
def test_weights_are_repeated_rows(seed, classes):
    X, y, _ = problem(seed, classes, n=20)
    counts = np.random.default_rng(seed).integers(0, 4, size=len(y))
    counts[:classes] = 1
    repeated = np.repeat(np.arange(len(y)), counts)
    one, other = fitted(X, y, counts), fitted(X[repeated], y[repeated])
    np.testing.assert_allclose(other.params_, one.params_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(other.bse("augmented"), one.bse("augmented"), rtol=1e-6)
    assert other.penalised_loglik_ == pytest.approx(one.penalised_loglik_, rel=1e-10)


@given(SEEDS, CLASSES)
@some
def test_offset_moves_the_coefficient(seed, classes):
    """A known part of the predictor, given as offset, is missing from its coefficient only."""
    X, y, weights = problem(seed, classes)
    offset = np.tile(0.7 * X[:, :1], (1, classes - 1))
    one = fitted(X, y, weights)
    other = JeffreysLogisticRegression().fit(X, y, weights, offset)
    np.testing.assert_allclose(other.coef_[:, 0], one.coef_[:, 0] - 0.7, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(other.predict_proba(X, offset), one.predict_proba(X), rtol=1e-5)


@given(SEEDS, CLASSES, st.integers(4, 12), st.integers(0, 20))
@some
def test_saturated_models_are_the_papers_KL_form(seed, classes, n, extra):
    """With rank X = N the maximum is p = (w [y] + ½) / (w + K / 2), to 1e-8."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n - 1 + extra))
    y = np.concatenate([np.arange(classes), rng.integers(classes, size=n - classes)])
    weights = rng.uniform(0.5, 3.0, size=n)
    model = fitted(X, y, weights)
    target = np.full((n, classes), 0.5)
    target[np.arange(n), y] += weights
    target /= target.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), target, atol=1e-8)
    assert model.rank_ == n
    assert model.converged_


@pytest.mark.parametrize("classes", [2, 3])
def test_amended_determinant_when_columns_outnumber_rows(classes):
    """N < p with repeated rows: rank < N, nothing is saturated, and the definition must hold."""
    rng = np.random.default_rng(7)
    base = rng.normal(size=(5, 12))
    X = np.repeat(base, 2, axis=0)
    y = np.arange(10) % classes
    model = fitted(X, y, fit_intercept=False)
    assert model.rank_ == 5
    ones, zero = np.ones(10), np.zeros((10, classes - 1))

    def height(beta):
        return amended_loglik(beta, X, y, ones, zero, 0.5)

    best = height(model.coef_)
    assert model.penalised_loglik_ == pytest.approx(best, rel=1e-10)
    for _ in range(20):
        assert height(model.coef_ + 0.05 * rng.normal(size=model.coef_.shape)) < best
    # least norm: the coefficients lie in the row space of X
    rows = np.linalg.svd(X)[2][:5]
    np.testing.assert_allclose(model.coef_ @ rows.T @ rows, model.coef_, atol=1e-10)


@pytest.mark.parametrize(("n", "p"), [(30, 3), (8, 7), (6, 15)])
@pytest.mark.parametrize("classes", [2, 3])
def test_penalty_is_the_amended_determinant(n, p, classes):
    """Two rooms, one definition: the likelihood plus ½ log of the amended determinant."""
    rng = np.random.default_rng(n + classes)
    X = rng.normal(size=(n, p))
    y = np.concatenate([np.arange(classes), rng.integers(classes, size=n - classes)])
    model = fitted(X, y)
    logits = model.predict_log_proba(X)
    loglik = logits[np.arange(n), y].sum()
    determinant = float(amended_log_det(X, logits))
    expected = loglik + 0.5 * determinant
    assert model.penalised_loglik_ == pytest.approx(expected, abs=1e-8)
    if p + 1 >= n:  # rank X = N: the paper's KL form with λ = K / 2
        rows = np.column_stack([X, np.ones(n)])
        of_rows = (classes - 1) * np.linalg.slogdet(rows @ rows.T)[1]
        assert determinant == pytest.approx(logits.sum() + of_rows, abs=1e-8)


@pytest.mark.parametrize("seed", [25, 26, 33])
def test_bounds_survive_starts_that_are_lost_to_rounding(seed):
    x = [.345584, .821618, .330437, -1.303157, .905356, .446375,
         -.536953, .581118, .364572, .294132, .028422, .546713]  # fmt: skip
    noise = np.random.default_rng(1).uniform(-0.5e-6, 0.5e-6, size=(seed + 1, 12))[-1]
    X = (np.array(x) + noise)[:, None]
    model = JeffreysLogisticRegression().fit(X, [0, 0, 2, 1, 0, 2, 1, 0, 2, 0, 2, 0])
    bounds = model.conf_int()
    assert bounds[2, 0] == pytest.approx(-1.14338, abs=1e-4)
    assert model.test({"2:(Intercept)": bounds[2, 0]}).chi2 == pytest.approx(3.841459, abs=1e-5)


def test_a_bound_that_is_not_found_is_noted(monkeypatch):
    from firthshot.jeffreys import _inference

    found = _inference.profile_intervals

    def lose(*arguments, **options):
        bounds = found(*arguments, **options)
        bounds[1, 0] = np.nan
        return bounds

    monkeypatch.setattr(_inference, "profile_intervals", lose)
    model = JeffreysLogisticRegression().fit(np.arange(6.0)[:, None], [0, 1, 0, 1, 0, 1])
    assert "of x0 was not found" in str(model.summary())


def test_many_levels_need_one_start_and_agree_with_the_search_from_many():
    """A factor with many separated levels is slow to fit, but has one maximum that matters."""
    rng = np.random.default_rng(3)
    levels = rng.integers(0, rng.integers(14, 24), 60)
    X = np.column_stack([rng.normal(size=60), levels[:, None] == np.unique(levels)[1:]])
    fit = JeffreysLogisticRegression().fit(X, rng.integers(0, 2, 60)).fit_
    assert fit.model.is_slow(fit.maximum.n_iter - 2)
    assert not fit.suspect
    few = [1, 3]
    bounds = profile_intervals(fit, few)
    chi2 = [test.chi2 for test in each_coefficient(fit, few)]
    fit.__dict__["suspect"] = True
    np.testing.assert_allclose(bounds, profile_intervals(fit, few), rtol=1e-5)
    np.testing.assert_allclose(chi2, [t.chi2 for t in each_coefficient(fit, few)], rtol=1e-5)
