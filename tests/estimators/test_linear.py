"""FirthClassifier against scikit-learn, finite differences and the identities of its objective."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from firthshot import estimators
from firthshot.errors import FirthshotError
from firthshot.objective import log_softmax, softmax
from oracles.linear_optimum import closed_form_optimum, draw

# Stated coefficients, and probabilities as the objective has them.
Head = partial(estimators.FirthClassifier, lam=1.0, l2=1.0, calibrate=False)


def objective(X, y, weights, prior, lam, l2, W, b):
    """Return the objective of the class's docstring from its public parameters."""
    z = X @ W.T + b
    if z.shape[1] == 1:
        z = np.hstack([np.zeros_like(z), z])
    log_p = log_softmax(z)
    cross = -log_p[np.arange(len(y)), y]
    safe = np.where(prior > 0, prior, 1.0)
    divergence = (prior * (np.log(safe) - log_p)).sum(1)
    return weights @ (cross + lam * divergence) + 0.5 * l2 * (W**2).sum()


@pytest.mark.parametrize("k", [2, 3, 8])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n", [40, 300])
def test_without_the_penalty_it_is_logistic_regression(k, fit_intercept, n):
    X, y = draw(n, 60, k)
    ours = Head(
        class_weight=None, lam=0.0, l2=0.5, fit_intercept=fit_intercept, calibrate=False, tol=1e-9
    ).fit(X, y)
    theirs = LogisticRegression(
        C=2.0, fit_intercept=fit_intercept, tol=1e-10, solver="newton-cholesky"
    ).fit(X, y)
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == theirs.intercept_.shape
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert ours.converged_


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("prior", ["uniform", "class-frequency", "given"])
@pytest.mark.parametrize("shape", [(20, 30), (80, 5)])
def test_no_direction_lowers_the_objective(k, prior, shape):
    X, y = draw(*shape, k)
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.5, 2.0, len(y))
    u = {
        "uniform": np.full(k, 1 / k),
        "class-frequency": np.bincount(y, weights) / weights.sum(),
        "given": rng.dirichlet(np.ones(k)),
    }[prior]
    model = Head(class_weight=None, lam=0.7, l2=0.3, prior=u if prior == "given" else prior)
    model.fit(X, y, sample_weight=weights)

    def value(W, b):
        return objective(X, y, weights, u, 0.7, 0.3, W, b)

    least, step = value(model.coef_, model.intercept_), 1e-4
    for _ in range(30):
        dW, db = rng.normal(size=model.coef_.shape), rng.normal(size=model.intercept_.shape)
        up, down = (value(model.coef_ + h * dW, model.intercept_ + h * db) for h in (step, -step))
        assert up > least
        assert down > least
        assert abs(up - down) / (2 * step) < 1e-3 * weights.sum()


def test_the_penalty_is_label_smoothing_at_another_scale():
    """CE + λ KL(u‖p) is (1 + λ) CE of labels smoothed by λ/(1 + λ), so that l2 shrinks by 1 + λ."""
    from firthshot.engine import solve
    from oracles.linear_optimum import form_of

    X, y = draw(30, 50, 4)
    lam, l2 = 1.5, 0.8
    model = Head(class_weight=None, lam=lam, l2=l2, tol=1e-9).fit(X, y)
    soft = (np.eye(4)[y] + lam / 4) / (1 + lam)
    form = form_of(X, y, l2=l2 / (1 + lam), l2_kind="ridge")
    smooth = solve(X, soft, form, tolerance=1e-10)
    np.testing.assert_allclose(model.coef_, smooth.coef[0], atol=1e-6)


def test_independent_rows_without_ridge_have_the_closed_form():
    X, y = draw(12, 40, 3)
    model = Head(class_weight=None, lam="theory", l2=0.0, tol=1e-6).fit(X, y)
    assert model.lam_ == pytest.approx(1.5)
    assert model.lam_source_ == "theory"
    unit = np.sqrt(np.square(X - X.mean(0)).sum(1).mean())  # whose weights have the least norm
    expected = closed_form_optimum(X / unit, y, 3, 1.5)
    np.testing.assert_allclose(unit * model.coef_, expected.weights.T, atol=1e-5)


def test_theory_is_k_rank_over_2n():
    X, y = draw(60, 7, 3)
    model = Head(lam="theory").fit(X, y)
    assert model.lam_ == pytest.approx(3 * 8 / 120)
    assert Head(lam="theory", fit_intercept=False).fit(X, y).lam_ == 3 * 7 / 120
    twice = Head(lam="theory").fit(X, y, sample_weight=np.full(60, 2.0))
    repeated = Head(lam="theory").fit(np.vstack([X, X]), np.concatenate([y, y]))
    assert twice.lam_ == pytest.approx(repeated.lam_)


@given(seed=st.integers(0, 300), n=st.integers(6, 50), d=st.integers(1, 50), k=st.integers(2, 5))
@settings(max_examples=25, deadline=None)
def test_order_of_rows_and_names_of_classes_do_not_matter(seed, n, d, k):
    X, y = draw(n, d, k, seed)
    rng = np.random.default_rng(seed)
    rows, names = rng.permutation(len(y)), rng.permutation(k)
    one = Head(lam=0.5, tol=1e-9).fit(X, y)
    two = Head(lam=0.5, tol=1e-9).fit(X[rows], names[y][rows])
    np.testing.assert_allclose(two.predict_proba(X)[:, names], one.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("prior", ["uniform", "class-frequency"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_weights_are_repeated_rows(prior, class_weight):
    X, y = draw(30, 40, 3)
    times = np.random.default_rng(0).integers(0, 4, 30)
    times[:3] = 1
    rows = np.repeat(np.arange(30), times)
    settings = {"lam": 0.8, "prior": prior, "class_weight": class_weight, "tol": 1e-10}
    weighted = Head(**settings).fit(X, y, sample_weight=times)
    repeated = Head(**settings).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-7)


def test_a_class_weight_multiplies_the_sample_weights():
    X, y = draw(30, 10, 3)
    by_class = Head(class_weight={0: 2.0, 1: 1.0, 2: 0.5}).fit(X, y)
    by_row = Head(class_weight=None).fit(X, y, sample_weight=np.array([2.0, 1.0, 0.5])[y])
    np.testing.assert_allclose(by_class.coef_, by_row.coef_, atol=1e-7)


def test_string_labels_come_back_and_probabilities_follow_their_order():
    X, y = draw(30, 20, 3)
    names = np.array(["pear", "apple", "quince"])
    model = Head().fit(X, names[y])
    assert model.classes_.tolist() == ["apple", "pear", "quince"]
    assert set(model.predict(X)) <= set(names)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1.0)
    np.testing.assert_allclose(np.log(p), model.predict_log_proba(X), atol=1e-12)
    assert (model.classes_[p.argmax(1)] == model.predict(X)).all()


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("shape", [(20, 300), (120, 30)])
def test_sparse_rows_are_dense_rows(k, shape):
    from scipy.sparse import csr_array, csr_matrix

    X, y = draw(*shape, k)
    X[np.abs(X) < 1.0] = 0.0
    X[:, 3] = 0.0
    dense = Head(tol=1e-10).fit(X, y)
    for kind in (csr_array, csr_matrix):
        sparse = Head(tol=1e-10).fit(kind(X), y)
        np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-8)
        assert not sparse.coef_[:, 3].any()
        np.testing.assert_allclose(sparse.predict_proba(kind(X)), dense.predict_proba(X), atol=1e-8)


def test_float32_stays_float32():
    X, y = draw(30, 20, 3)
    single = Head().fit(X.astype(np.float32), y)
    assert single.coef_.dtype == single.predict_proba(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.coef_, Head().fit(X, y).coef_, atol=1e-5)


def test_separated_classes_without_any_penalty_are_reported():
    X, y = draw(10, 30, 3)
    with pytest.warns(ConvergenceWarning, match="set lam or l2 above zero"):
        model = Head(lam=0.0, l2=0.0).fit(X, y)
    assert not model.converged_


def test_too_few_iterations_are_reported():
    X, y = draw(30, 30, 3)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = Head(max_iter=1, lam=0.0, l2=1e-3).fit(X, y)
    assert model.n_iter_ == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lam": -1.0}, "lam is -1.0"),
        ({"lam": "best"}, "lam is 'best'"),
        ({"lam": None}, "lam is None; give a number that is not negative, or 'shots' or 'theory'"),
        ({"l2": [1.0]}, "l2 is .1.0.; give a number"),
        ({"tol": 0.0}, "tol is 0.0"),
        ({"tol": None}, "tol is None"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"max_iter": "many"}, "max_iter is 'many'"),
        ({"l2": np.nan}, "l2 is nan"),
        ({"l2": "theory"}, "l2 is 'theory'"),
        ({"prior": "flat"}, "prior is 'flat'"),
        ({"prior": [0.5, 0.6, 0.1]}, "prior must be 3 probabilities"),
        ({"prior": [0.5, 0.5]}, "prior must be 3 probabilities"),
        ({"prior": ["a", "b", "c"]}, "prior must be 3 probabilities"),
        ({"prior": None}, "prior must be 3 probabilities"),
        ({"prior": [np.nan, 0.5, 0.5]}, "prior must be 3 probabilities"),
        ({"prior": [-0.5, 0.5, 1.0]}, "prior must be 3 probabilities"),
        ({"prior": [[0.5, 0.5, 0.0]]}, "prior must be 3 probabilities"),
        ({"class_weight": "even"}, "class_weight is 'even'"),
        ({"class_weight": {0: -1.0, 1: 1.0, 2: 1.0}}, "class_weight of class 0 is -1.0"),
        ({"class_weight": {0: 1.0, 1: np.nan, 2: 1.0}}, "class_weight of class 1 is nan"),
        ({"class_weight": {0: 1.0, 1: 1.0, 2: 0.0}}, "class_weight of class 2 is 0.0"),
    ],
)
def test_bad_parameters_are_refused_by_name(settings, words):
    X, y = draw(30, 10, 3)
    with pytest.raises(FirthshotError, match=words):
        Head(**settings).fit(X, y)


def test_bad_weights_are_refused():
    X, y = draw(30, 10, 3)
    for bad, words in (
        (-np.ones(30), "row 0"),
        (np.ones(3), "shape"),
        (np.full(30, np.inf), "finite"),
        ((y > 0).astype(float), "class 0"),
    ):
        with pytest.raises(FirthshotError, match=words):
            Head().fit(X, y, sample_weight=bad)


def test_a_prior_moves_probabilities_of_rows_that_say_nothing():
    X, y = draw(40, 5, 3)
    u = np.array([0.7, 0.2, 0.1])
    far = Head(lam=1e4, prior=u, l2=1.0, calibrate=False).fit(X, y)
    np.testing.assert_allclose(far.predict_proba(X), np.tile(u, (40, 1)), atol=1e-3)
    np.testing.assert_allclose(softmax(far.decision_function(X)), far.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("labels", [["a", 1, "a", 1], ["a", None, "a", "b"]])
def test_labels_that_cannot_be_sorted_are_refused_in_a_sentence(labels):
    X = np.eye(4)
    with pytest.raises(FirthshotError, match=r"cannot be sorted \(.*str\): make them all text"):
        estimators.FirthClassifier().fit(X, np.array(labels, object))
