"""The compiled core against a plain implementation, numerical derivatives and mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import reference
from scipy.optimize import minimize

from firthshot.jeffreys._design import make_design, orthonormal_design
from firthshot.jeffreys._kernels.evaluate import gradient, value
from firthshot.jeffreys._model import Model, fit, make_model
from firthshot.kernels.elementary import exp_in_place, log_in_place

CLASSES = [2, 3, 5]


def evaluate(model, beta):
    theta = np.ascontiguousarray(beta @ model.design.R.T).ravel()
    work = model.make_work()
    lp = value(model.data, work, theta)
    gradient(model.data, work)
    return lp + model.shift, work


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("tau", [0.0, 0.5, 1.3])
def test_value_information_and_gradient(classes, tau):
    rng = np.random.default_rng(classes)
    X, y, weights, offset = reference.random_problem(rng, classes=classes)
    beta = 0.7 * rng.normal(size=(classes - 1, 3))
    model = make_model(X, y, classes, weights=weights, offset=offset, tau=tau)
    lp, work = evaluate(model, beta)

    def function(b):
        return reference.penalised_loglik(b, X, y, weights, offset, tau)

    assert lp == pytest.approx(function(beta), rel=1e-12)
    scale = np.tile(np.diag(model.design.R), classes - 1)
    F = reference.information(beta, X, weights, offset)
    np.testing.assert_allclose(work.F * np.outer(scale, scale), F, rtol=1e-10, atol=1e-12)
    numerical = reference.numerical_gradient(function, beta)
    np.testing.assert_allclose(work.score[0] * scale, numerical, rtol=1e-5, atol=1e-7)
    if tau:
        assert work.hat.sum() == pytest.approx(model.size)


@pytest.mark.parametrize("rows", [1, 3, 7, 8])
def test_blocks_do_not_matter(rows):
    rng = np.random.default_rng(0)
    X, y, weights, offset = reference.random_problem(rng, n=15, p=3, classes=3)
    model = make_model(X, y, 3, weights=weights, offset=offset)
    beta = rng.normal(size=(2, 3))
    whole, expected = evaluate(model, beta)
    work = model.make_work()._replace(
        block=np.empty((3, rows)),
        G=np.zeros((2, 6, rows)),
        residual=np.empty((4, rows)),
        rows=np.empty((3, rows)),
    )
    theta = np.ascontiguousarray(beta @ model.design.R.T).ravel()
    assert value(model.data, work, theta) + model.shift == pytest.approx(whole, rel=1e-13)
    gradient(model.data, work)
    np.testing.assert_allclose(work.score, expected.score, rtol=1e-10, atol=1e-12)


def test_wide_designs_use_syrk_and_agree():
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(120), rng.normal(size=(120, 49))])
    y = rng.integers(2, size=120)
    model = make_model(X, y, 2)
    beta = 0.1 * rng.normal(size=(1, 50))
    lp, _ = evaluate(model, beta)
    ones = np.ones(120)
    expected = reference.penalised_loglik(beta, X, y, ones, np.zeros((120, 1)), 0.5)
    assert lp == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("classes", CLASSES)
def test_maximum_against_a_general_optimiser(classes):
    rng = np.random.default_rng(10 + classes)
    X, y, weights, offset = reference.random_problem(rng, n=25, classes=classes)
    fitted = fit(make_model(X, y, classes, weights=weights, offset=offset))
    assert fitted.maximum.converged

    def loss(flat):
        b = flat.reshape(classes - 1, 3)
        return -reference.penalised_loglik(b, X, y, weights, offset, 0.5)

    found = minimize(loss, np.zeros(3 * (classes - 1)), method="BFGS", options={"gtol": 1e-6})
    np.testing.assert_allclose(fitted.beta.ravel(), found.x, atol=2e-5)
    assert fitted.penalised_loglik >= -found.fun - 1e-9


def test_orthonormal_basis_gives_the_same_fit():
    rng = np.random.default_rng(3)
    X, y, weights, offset = reference.random_problem(rng, n=30, classes=3)
    model = make_model(X, y, 3, weights=weights, offset=offset)
    design = orthonormal_design(model.design)
    np.testing.assert_allclose((design.R.T @ design.Z).T, X, atol=1e-12)
    other = fit(Model(design, model.data._replace(Z=design.Z)))
    scaled = fit(model)
    np.testing.assert_allclose(other.beta, scaled.beta, rtol=1e-7)
    assert other.penalised_loglik == pytest.approx(scaled.penalised_loglik, rel=1e-12)


def test_predictors_that_overflow_are_no_value():
    model = make_model(np.array([[1.0], [1.0], [-1.0]]), np.array([0, 1, 1]), 2)
    work = model.make_work()
    assert value(model.data, work, np.array([np.inf])) == -np.inf
    assert value(model.data, work, np.array([np.nan])) == -np.inf


def test_exponential_and_logarithm():
    rng = np.random.default_rng(0)
    x = np.concatenate([-np.abs(rng.normal(size=500)) * 10 ** rng.uniform(-9, 2.4, 500), [0, -700]])
    y = x.copy()
    exp_in_place(y, np.empty_like(y))
    exact = np.array([float(mpmath.exp(v)) for v in x])
    assert np.all(np.abs(y - exact) <= 2 * np.spacing(exact))
    deep = np.array([-1e4, -np.inf])
    exp_in_place(deep, np.empty(2))
    assert np.all((deep > 0) & (deep < 1e-300))
    t = np.concatenate([1 + 10 ** rng.uniform(-15, 3, 500), [1.0, 2.0, 0.5, 1e300]])
    z = t.copy()
    log_in_place(z, np.empty_like(z))
    exact = np.array([float(mpmath.log(v)) for v in t])
    np.testing.assert_allclose(z, exact, rtol=5e-16, atol=0)


def test_scaling_survives_huge_and_tiny_columns():
    X = np.array([[1e200, 1e-200, 0.0], [-2e200, 3e-200, 0.0], [1e200, 1e-200, 0.0]])
    design = make_design(X)
    assert np.all(np.isfinite(design.Z))
    np.testing.assert_allclose((design.R.T @ design.Z).T, X, rtol=1e-10)
