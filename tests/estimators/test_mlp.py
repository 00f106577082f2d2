"""The 3-layer estimator: derivatives by oracles, where it stops, and what it does not depend on."""

import warnings

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch.nn import functional

from firthshot.errors import FirthshotError
from firthshot.estimators import FirthMLPClassifier
from firthshot.estimators._full_batch import (
    layers_of,
    minimise,
    n_parameters,
    value_and_gradient,
    xavier_start,
)
from firthshot.estimators._mlp import folds, merge_equal_rows, rows_in_their_span
from firthshot.estimators._support import Support
from firthshot.objective import PENALTIES
from firthshot.torch import firth_loss

SMALL = {"hidden": (12, 6), "calibrate": False}


@parametrize_with_checks(
    [FirthMLPClassifier(hidden=(30,)), FirthMLPClassifier(hidden=(40, 20), calibrate=False)]
)
def test_estimator_follows_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([FirthMLPClassifier(), FirthMLPClassifier(lam="theory")])
def test_the_published_widths_follow_scikit_learn(estimator, check):
    check(estimator)


def support(n_classes=4, shots=3, d=10, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), shots)
    centres = rng.normal(size=(n_classes, d))
    return centres[y] + 0.5 * rng.normal(size=(len(y), d)), y


def problem(widths, lam=0.7, seed=0):
    """Return rows, labels, weights that sum to one, prior, targets and a point θ."""
    rng = np.random.default_rng(seed)
    n, K = 9, widths[-1]
    X, y = rng.normal(size=(n, widths[0])), rng.integers(0, K, n)
    weights, prior = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(K))
    targets = weights[:, None] * (np.eye(K)[y] + lam * prior)
    theta = 0.7 * rng.normal(size=n_parameters(widths))
    return X, y, weights, prior, targets, theta


def torch_objective(theta, widths, X, y, weights, prior, lam, decay):
    """Compute the objective by torch's own layers and the loss of firthshot.torch."""
    hidden, layers = torch.from_numpy(X), layers_of(theta, widths)
    for W, b in layers[:-1]:
        hidden = functional.relu(functional.linear(hidden, W.T, b))
    W, b = layers[-1]
    losses = firth_loss(
        functional.linear(hidden, W.T, b),
        torch.from_numpy(y),
        lam,
        torch.from_numpy(prior),
        reduction="none",
    )
    ridge = sum(W.square().sum() for W, _ in layers)
    return (torch.from_numpy(weights) * losses).sum() + 0.5 * decay * ridge


@pytest.mark.parametrize("widths", [(5, 4, 3), (5, 7, 4, 3), (3, 4, 4, 4, 2)])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_the_gradient_is_that_of_finite_differences_and_autograd(widths, decay):
    X, y, weights, prior, targets, theta = problem(widths)
    value, gradient = value_and_gradient(theta, widths, X, targets, decay)
    step = 1e-6
    for at in range(len(theta)):
        ends = []
        for sign in (1, -1):
            moved = theta.copy()
            moved[at] += sign * step
            ends.append(value_and_gradient(moved, widths, X, targets, decay)[0])
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(gradient[at], abs=1e-8)
    flat = torch.from_numpy(theta).requires_grad_()
    total = torch_objective(flat, widths, X, y, weights, prior, 0.7, decay)
    (by_torch,) = torch.autograd.grad(total, flat)
    np.testing.assert_allclose(gradient, by_torch.numpy(), rtol=1e-10, atol=1e-14)
    # the values differ by a constant, which does not depend on θ
    other = value_and_gradient(0.5 * theta, widths, X, targets, decay)[0]
    scaled = torch_objective(0.5 * flat, widths, X, y, weights, prior, 0.7, decay)
    assert value - other == pytest.approx((total - scaled).item(), abs=1e-12)


def test_the_objective_is_zero_for_perfect_predictions():
    """One linear layer can be given logits that match the targets exactly."""
    _, y, weights, prior, targets, _ = problem((9, 3))
    shares = targets / targets.sum(axis=1, keepdims=True)
    theta = np.concatenate([np.log(shares).ravel(), np.zeros(3)])
    value, gradient = value_and_gradient(theta, (9, 3), np.eye(9), targets, 0.0)
    assert value == pytest.approx(0.0, abs=1e-15)
    assert np.abs(gradient).max() < 1e-15
    losses = PENALTIES["firth"].loss(0.7, prior).value(np.log(shares), y)
    moved = PENALTIES["firth"].loss(0.7, prior).value(np.zeros((9, 3)), y)
    zero = value_and_gradient(np.zeros_like(theta), (9, 3), np.eye(9), targets, 0.0)[0]
    assert zero == pytest.approx(weights @ (moved - losses), abs=1e-12)


def test_the_start_is_xaviers():
    theta = xavier_start((30, 20, 10, 5), np.random.RandomState(0))
    for W, b in layers_of(theta, (30, 20, 10, 5)):
        bound = np.sqrt(6 / sum(W.shape))
        assert 0.9 * bound < np.abs(W).max() <= bound
        assert not b.any()


@pytest.mark.parametrize(("lam", "l2"), [(0.1, 0.0), (1.0, 0.0), (5.0, 0.01)])
def test_it_stops_where_the_gradient_is_within_the_tolerance(lam, l2):
    X, y = support(shots=5)
    model = FirthMLPClassifier(lam=lam, l2=l2, tol=1e-4, **SMALL).fit(X, y)
    assert model.converged_
    unit, centre = np.sqrt(np.square(X - X.mean(0)).sum(1).mean()), X.mean(0)
    X, coefs = (X - centre) / unit, [unit * model.coefs_[0], *model.coefs_[1:]]
    intercepts = model.intercepts_
    intercepts[0] = intercepts[0] + centre @ model.coefs_[0]
    pairs = zip(coefs, intercepts, strict=True)
    theta = np.concatenate([part.ravel() for pair in pairs for part in pair])
    flat, widths, n = torch.from_numpy(theta).requires_grad_(), (10, 12, 6, 4), len(y)
    uniform = np.full(4, 0.25)
    total = torch_objective(flat, widths, X, y, np.full(n, 1 / n), uniform, lam, l2 / n)
    (gradient,) = torch.autograd.grad(total, flat)
    assert gradient.abs().max() <= 1e-4 * (1 + lam) + 1e-10


def test_a_stalled_descent_ends():
    X, _, _, _, targets, theta = problem((4, 6, 3))
    settings = {"tolerance": 1e-14, "max_iterations": 100_000}
    loose = minimise(theta, (4, 6, 3), X, targets, 0.01, stall=1e-3, **settings)
    tight = minimise(theta, (4, 6, 3), X, targets, 0.01, stall=1e-9, **settings)
    assert loose.success
    assert tight.success
    assert loose.nit < tight.nit < 100_000


def test_nothing_depends_on_the_run_or_on_the_order_of_rows():
    X, y = support()
    model = FirthMLPClassifier(**SMALL).fit(X, y)
    order = np.random.default_rng(0).permutation(len(y))
    for other in (
        FirthMLPClassifier(**SMALL).fit(X, y),
        FirthMLPClassifier(**SMALL).fit(X[order], y[order]),
        FirthMLPClassifier(**SMALL, random_state=np.random.RandomState(0)).fit(X, y),
    ):
        for mine, theirs in zip(model.coefs_, other.coefs_, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    elsewhere = FirthMLPClassifier(**SMALL, random_state=1).fit(X, y)
    assert not np.array_equal(elsewhere.coefs_[1], model.coefs_[1])


def test_a_weight_of_two_is_the_row_given_twice():
    X, y = support()
    weights = np.random.default_rng(0).integers(1, 4, len(y))
    one = FirthMLPClassifier(**SMALL).fit(X, y, weights)
    two = FirthMLPClassifier(**SMALL).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_equal_rows_of_different_classes_are_not_joined():
    X = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0], [1.0, 2.0]])
    merged = merge_equal_rows(
        Support(X, np.array([1, 0, 1, 1]), np.array([1.0, 2.0, 4.0, 8.0]), np.array([0.5, 0.5]))
    )
    found = sorted(zip(merged.labels, merged.X[:, 0], merged.weights, strict=True))
    assert found == [(0, 1.0, 2.0), (1, 0.0, 4.0), (1, 1.0, 9.0)]


def test_the_first_layer_stays_in_the_span_of_the_rows():
    X, y = support(n_classes=3, shots=2, d=20)
    model = FirthMLPClassifier(l2=0.0, **SMALL).fit(X, y)
    rows, basis = rows_in_their_span(X, X.dtype)
    np.testing.assert_allclose(rows @ basis.T, X, atol=1e-12)
    assert basis.shape == (20, 6)
    first = model.coefs_[0]
    np.testing.assert_allclose(basis @ (basis.T @ first), first, atol=1e-12)


def test_sparse_and_short_floats():
    X, y = support(d=15)
    X[np.abs(X) < 0.6] = 0
    X[:, 3] = 0  # a column without entries
    model = FirthMLPClassifier(**SMALL).fit(X, y)
    thin = FirthMLPClassifier(**SMALL).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(
        thin.predict_proba(sparse.csr_array(X)), model.predict_proba(X), rtol=1e-9
    )  # both descend from the same numbers: another optimum would be 0.1 away
    short = FirthMLPClassifier(**SMALL).fit(X.astype(np.float32), y)
    assert {W.dtype for W in short.coefs_} == {np.dtype(np.float32)}
    np.testing.assert_allclose(short.predict_proba(X), model.predict_proba(X), atol=0.02)


def test_folds_cover_all_rows_and_never_hold_a_whole_class():
    rng = np.random.default_rng(0)
    for _ in range(50):
        labels = np.concatenate([np.arange(5), np.arange(5), rng.integers(0, 5, rng.integers(30))])
        labels = rng.permutation(labels)
        found = folds(labels, 10)
        assert sorted(np.concatenate(found)) == list(range(len(labels)))
        sizes = [len(fold) for fold in found]
        assert max(sizes) - min(sizes) <= 1
        for fold in found:
            kept = np.delete(labels, fold)
            assert set(kept) == set(labels)
    assert [len(fold) for fold in folds(np.repeat([0, 1], 3), 10)] == [1] * 6


def test_left_out_rows_are_predicted_by_heads_that_never_saw_them():
    X, y = support(n_classes=2, shots=4)  # 8 rows: one fold each
    model = FirthMLPClassifier(lam=0.5, class_weight=None, **SMALL).fit(X, y)
    left = model.leave_one_out(X, y)
    for row in range(len(y)):
        kept = np.arange(len(y)) != row
        alone = FirthMLPClassifier(lam=0.5, class_weight=None, **SMALL).fit(X[kept], y[kept])
        np.testing.assert_allclose(
            left.logits[row, 1] - left.logits[row, 0],
            alone.decision_function(X[row : row + 1])[0],
            rtol=1e-10,
        )


def test_coefficients_from_the_support_set_alone():
    X, y = support(shots=4)
    model = FirthMLPClassifier(lam="loo", hidden=(12, 6)).fit(X, y)
    assert model.lam_source_ == "loo"
    assert model.lam_ == model.loo_path_["lam"][model.loo_path_["nll"].argmin()]
    assert model.temperature_ != 1.0
    theory = FirthMLPClassifier(lam="theory", **SMALL).fit(X, y)
    assert theory.lam_ == 4 * 11 / (2 * len(y))  # ten features and a constant
    with pytest.warns(UserWarning, match="Every class has one row"):
        single = FirthMLPClassifier(lam="loo", l2="loo", **SMALL).fit(*support(shots=1))
    assert single.l2_source_ == "fallback"
    assert np.ptp(single.predict_proba(X), axis=0).max() > 0.1


def test_too_much_l2_and_too_few_iterations_are_said():
    X, y = support()
    with pytest.warns(ConvergenceWarning, match="lower l2"):
        flat = FirthMLPClassifier(l2=50.0, **SMALL).fit(X, y)
    assert not flat.converged_
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        FirthMLPClassifier(max_iter=2, **SMALL).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        short = FirthMLPClassifier(max_iter=2, **SMALL).fit(X, y)
    assert short.n_iter_ == 2
    assert not short.converged_


@pytest.mark.parametrize("hidden", [(), 5, (0,), (3, 2.5), "ab", None])
def test_bad_widths_are_refused(hidden):
    with pytest.raises(FirthshotError, match="hidden is"):
        FirthMLPClassifier(hidden=hidden).fit(*support())


def test_scikit_learns_tools():
    X, y = support(shots=6)
    y = np.array(["a", "b", "c", "d"])[y]
    pipeline = make_pipeline(StandardScaler(), FirthMLPClassifier(**SMALL))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.6
    search = GridSearchCV(FirthMLPClassifier(**SMALL), {"lam": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.best_estimator_.lam in (0.1, 1.0)
    calibrated = CalibratedClassifierCV(FirthMLPClassifier(**SMALL), cv=3).fit(X, y)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(1), 1)
    copy = clone(FirthMLPClassifier(hidden=(7,), random_state=3))
    assert (copy.hidden, copy.random_state) == ((7,), 3)
