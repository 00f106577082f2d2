"""The heads with a formula against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firthshot.engine import Centroid, Converged, LeastSquares
from firthshot.engine._trial import Trial
from firthshot.engine.heads.least_squares import ridge_regression
from firthshot.errors import FirthshotError
from firthshot.objective import Penalty, softmax
from oracles.linear_optimum import closed_form_optimum


def make_trial(n=12, d=30, k=3, dtype="float64", offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % k
    rows = rng.normal(size=(n + 21, d)) + offset
    rows[:n] += rng.normal(size=(k, d))[labels]
    return Trial(0, 1, k, rows[:n].astype(dtype), labels, rows[n:].astype(dtype))


def form_for(trial):
    penalty = Penalty("firth", (0.0, 1.0))
    return penalty.tables(trial.labels, trial.n_classes, 100)


def fit(head, trial, keep=True):
    (fitted,) = head.fit(trial, Converged(), form_for(trial), keep).values()
    return fitted


@pytest.mark.parametrize(("dtype", "margin"), [("float64", 1e-12), ("float32", 1e-6)])
@pytest.mark.parametrize("offset", [0.0, 50.0])
def test_centroid_logits_are_squared_distances(dtype, margin, offset):
    trial = make_trial(dtype=dtype, offset=offset)
    fitted = fit(Centroid(), trial)
    X, query = trial.support.astype(float), trial.query.stack().astype(float)
    means = np.stack([X[trial.labels == c].mean(0) for c in range(3)])
    distances = -0.5 * ((query[:, None] - means) ** 2).sum(-1)
    assert fitted.logits.shape == (3, 2, trial.query.padded)
    assert fitted.logits.dtype == dtype
    for l in range(2):
        got = fitted.logits[:, l, :21].T.astype(float)
        scale = 1 + offset * np.abs(means).max() * 30
        np.testing.assert_allclose(softmax(got), softmax(distances), atol=margin * scale)
    np.testing.assert_allclose(fitted.norms, (means**2).sum())
    np.testing.assert_allclose(fitted.weights["coef"], np.stack([means, means]), rtol=1e-5)
    via_weights = query @ means.T + fitted.weights["intercept"][0]
    np.testing.assert_allclose(softmax(via_weights), softmax(distances), atol=1e3 * margin * scale)


def test_a_class_without_rows_has_no_centroid():
    trial = make_trial()
    empty = Trial(0, 1, 4, trial.support, trial.labels, trial.query)
    with pytest.raises(FirthshotError, match="Class 3"):
        fit(Centroid(), empty)


@given(
    n=st.integers(3, 30),
    d=st.integers(1, 30),
    ridge=st.sampled_from([0.0, 1e-3, 1.0, 100.0]),
    seed=st.integers(0, 100),
)
@settings(max_examples=60, deadline=None)
def test_ridge_regression_solves_its_normal_equations(n, d, ridge, seed):
    rng = np.random.default_rng(seed)
    X, targets = rng.normal(size=(n, d)), rng.normal(size=(n, 2))
    coef, intercept = ridge_regression(X, targets, ridge)
    residual = X @ coef.T + intercept - targets
    np.testing.assert_allclose(X.T @ residual + ridge * coef.T, 0, atol=1e-8)
    np.testing.assert_allclose(residual.sum(0), 0, atol=1e-9)


def test_without_ridge_the_smallest_weights_are_taken():
    X, targets = np.random.default_rng(0).normal(size=(5, 20)), np.eye(5)
    coef, _ = ridge_regression(X, targets, 0.0)
    centred = X - X.mean(0)
    outside = coef - coef @ np.linalg.pinv(centred) @ centred
    np.testing.assert_allclose(outside, 0, atol=1e-12)


@pytest.mark.parametrize("shape", [(12, 30, 3), (60, 10, 4)], ids=str)
def test_least_squares_is_scikit_learns_ridge_times_log_three(shape):
    from sklearn.linear_model import Ridge

    trial = make_trial(*shape)
    fitted = fit(LeastSquares(2.0), trial)
    one_hot = np.eye(shape[2])[trial.labels] - 1 / shape[2]
    other = Ridge(2.0).fit(trial.support, one_hot)
    expected = np.log(3) * other.predict(trial.query.stack())
    for l in range(2):
        np.testing.assert_allclose(fitted.logits[:, l, :21].T, expected, atol=1e-10)
    np.testing.assert_allclose(fitted.weights["coef"][1], np.log(3) * other.coef_, atol=1e-10)
    square = np.log(3) ** 2 * ((other.coef_**2).sum() + (other.intercept_**2).sum())
    np.testing.assert_allclose(fitted.norms, square)


def test_without_ridge_it_is_the_exact_firth_estimate():
    """The closed form's norm counts the intercept, which a large constant feature makes free."""
    trial = make_trial(n=9, d=30)
    X, query = trial.support, trial.query.stack()
    fitted = fit(LeastSquares(0.0), trial)
    on_support = X @ fitted.weights["coef"][0].T + fitted.weights["intercept"][0]
    joint = closed_form_optimum(X, trial.labels, 3, 1.5)
    np.testing.assert_allclose(on_support, X @ joint.weights + joint.bias, atol=1e-10)
    big = 1e5
    free = closed_form_optimum(
        np.column_stack([X, np.full(9, big)]), trial.labels, 3, 1.5, intercept=False
    )
    expected = query @ free.weights[:-1] + big * free.weights[-1]
    np.testing.assert_allclose(fitted.logits[:, 0, :21].T, expected, atol=1e-6)


def test_weights_are_kept_only_on_request():
    trial = make_trial(dtype="float32")
    for head in (Centroid(), LeastSquares()):
        assert fit(head, trial, keep=False).weights == {}
        assert fit(head, trial).weights["coef"].dtype == np.float32
