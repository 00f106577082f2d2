"""When the linear head has an optimum, and features that make it hard to reach."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
from scipy.optimize import minimize

from firthshot.engine import solve
from firthshot.engine.results import Status
from firthshot.objective import Penalty
from oracles.linear_optimum import draw, flatten, form_of, plain_objective

TOLERANCE = 1e-6


@pytest.mark.parametrize("shape", [(10, 30, 3), (10, 9, 3), (5, 5, 5)], ids=str)
def test_separable_data_without_penalty_have_no_optimum(shape):
    X, labels = draw(*shape)
    form = form_of(X, labels, family="firth", coefficients=(0.0, 0.1))
    found = solve(X, labels, form)
    assert found.status.tolist() == [Status.NO_OPTIMUM, Status.OK]
    assert not found.converged[0]
    assert np.isfinite(found.coef).all()


def test_separated_clouds_have_no_optimum_though_rows_are_dependent():
    X, labels = draw(90, 4, 3, spread=30.0)
    found = solve(X, labels, form_of(X, labels))
    assert found.status.tolist() == [Status.NO_OPTIMUM]


def test_one_class_that_is_separable_from_the_rest_is_enough():
    """Classes 0 and 1 overlap, class 2 lies apart: its weights grow for ever."""
    X, labels = draw(90, 3, 3, spread=0.0)
    X[labels == 2, 0] += 100.0
    found = solve(X, labels, form_of(X, labels))
    assert found.status.tolist() == [Status.NO_OPTIMUM]


def test_points_that_touch_are_no_escape_from_separation():
    """Two classes meet at one point, where they tie; everywhere else they are separated."""
    X = np.array([[-2.0], [-1.0], [0.0], [0.0], [1.0], [2.0]])
    labels = np.array([0, 0, 0, 1, 1, 1])
    found = solve(X, labels, form_of(X, labels))
    assert found.status.tolist() == [Status.NO_OPTIMUM]


def test_one_row_in_two_classes_is_no_escape_from_separation_and_takes_no_time():
    """Independent rows but for one that two classes share; a linear programme took minutes."""
    X, labels = draw(260, 300, 20)
    X[labels.tolist().index(1)] = X[labels.tolist().index(0)]
    start = perf_counter()
    found = solve(X, labels, form_of(X, labels))
    assert found.status.tolist() == [Status.NO_OPTIMUM]
    assert perf_counter() - start < 20


def test_rows_that_every_class_shares_have_an_optimum():
    X, labels = draw(4, 30, 4)
    same = np.repeat(X[:1], 8, axis=0)
    found = solve(same, np.tile(labels, 2), form_of(same, np.tile(labels, 2)))
    assert found.status.tolist() == [Status.OK]


@pytest.mark.parametrize("shape", [(60, 3, 2), (200, 5, 4)], ids=str)
def test_overlapping_data_without_penalty_have_an_optimum(shape):
    X, labels = draw(*shape, spread=0.5)
    penalty = Penalty()
    found = solve(X, labels, form_of(X, labels), tolerance=1e-9)
    assert found.status.tolist() == [Status.OK]
    function = plain_objective(X, labels, shape[2], 0, penalty)
    other = minimize(
        function, np.zeros(X.shape[1] * shape[2] + shape[2]), jac=True, options={"gtol": 1e-9}
    )
    np.testing.assert_allclose(found.objective[0], other.fun, rtol=1e-9)
    np.testing.assert_allclose(flatten(found, 0), other.x, atol=1e-4)


def test_a_class_without_rows_has_no_optimum_unless_it_has_a_target():
    X, labels = draw(20, 40, 3)
    free = form_of(X, labels, 4, l2=1.0, l2_kind="ridge")
    held = form_of(X, labels, 4, l2=1.0, l2_kind="weight-decay")
    firth = form_of(X, labels, 4, family="firth", coefficients=(0.1,), l2=1.0, l2_kind="ridge")
    assert solve(X, labels, free).status.tolist() == [Status.NO_OPTIMUM]
    assert solve(X, labels, held).converged.all()
    assert solve(X, labels, firth).converged.all()


def test_confidence_alone_keeps_separable_data_finite():
    X, labels = draw(10, 30, 3)
    form = form_of(X, labels, family="confidence", coefficients=(0.0, 0.5))
    found = solve(X, labels, form)
    assert found.status.tolist() == [Status.NO_OPTIMUM, Status.OK]


AWKWARD = {
    "duplicate rows": lambda X: np.repeat(X[:10], 3, axis=0),
    "nearly duplicate rows": lambda X: np.repeat(X[:10], 3, axis=0) + 1e-7 * X,
    "constant features": lambda X: np.column_stack([X, np.full((30, 3), 7.0)]),
    "nothing but constants": np.ones_like,
    "huge": lambda X: 1e4 * X,
    "tiny": lambda X: 1e-4 * X,
    "far away": lambda X: X + 1e3,
    "mixed scales": lambda X: X * np.logspace(-4, 4, X.shape[1]),
}


@pytest.mark.parametrize("d", [12, 200])
@pytest.mark.parametrize("change", AWKWARD.values(), ids=AWKWARD)
@pytest.mark.parametrize("kind", ["ridge", "weight-decay"])
def test_awkward_features_reach_the_tolerance(change, kind, d):
    X, labels = draw(30, d, 3)
    X = change(X)
    penalty = Penalty("firth", (0.0, 0.1, 1.0), l2=0.1, l2_kind=kind)
    found = solve(X, labels, form_of(X, labels, **vars(penalty)))
    assert found.converged.all(), (found.gradient_norm, found.iterations)
    for l in range(3):
        _, gradient = plain_objective(X, labels, 3, l, penalty)(flatten(found, l))
        assert abs(gradient).max() <= 1.5 * TOLERANCE


@pytest.mark.parametrize("change", ["duplicate rows", "huge", "tiny", "constant features"])
def test_awkward_features_under_firth_alone(change):
    X, labels = draw(30, 200, 3)
    X = AWKWARD[change](X)
    found = solve(X, labels, form_of(X, labels, family="firth", coefficients=(0.1, 1.0)))
    assert found.converged.all(), (found.gradient_norm, found.iterations)


@pytest.mark.parametrize("scale", [0.05, 1.0, 20.0])
def test_many_rows_are_approached_in_single_precision_and_finished_in_double(scale):
    X, labels = draw(2200, 10, 4, spread=0.5)
    X = scale * (X + 1.0)
    penalty = Penalty("firth", (0.0, 0.5), l2=1.0, l2_kind="ridge")
    form = form_of(X, labels, **vars(penalty))
    for tolerance in (1e-3, 1e-8):
        found = solve(X, labels, form, tolerance=tolerance, warm_start=True)
        assert found.converged.all(), (found.gradient_norm, found.iterations)
        for l in range(2):
            _, gradient = plain_objective(X, labels, 4, l, penalty)(flatten(found, l))
            assert abs(gradient).max() <= 1.5 * tolerance


@pytest.mark.parametrize("shape", [(38, 19, 2), (70, 36, 4), (8, 4, 2)], ids=str)
def test_more_rows_than_features_do_not_stall_on_the_gram_matrix(shape):
    for seed in range(20):
        X, labels = draw(*shape, seed=seed)
        form = form_of(X, labels, family="firth", coefficients=(0.0, 0.5), l2=1.0, l2_kind="ridge")
        found = solve(X, labels, form, tolerance=1e-10)
        assert found.converged.all(), (seed, found.gradient_norm)
