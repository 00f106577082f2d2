"""The converged linear head against plain d-dimensional minimisers and known closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from firthshot.engine import Converged, Linear, Trial, solve
from firthshot.engine.results import Status
from firthshot.errors import FirthshotError
from firthshot.objective import Penalty, SampleLoss, softmax
from oracles.banks import PlainBank
from oracles.linear_optimum import closed_form_optimum, draw, flatten, form_of, plain_objective

TOLERANCE = 1e-6


PENALTIES = {
    "plain": Penalty(l2=0.1, l2_kind="ridge"),
    "firth": Penalty("firth", (0.0, 0.1, 1.0, 10.0), l2=1.0, l2_kind="ridge"),
    "firth class-frequency": Penalty(
        "firth", (0.3, 3.0), "class-frequency", l2=1.0, l2_kind="ridge"
    ),
    "label smoothing": Penalty("label-smoothing", (0.0, 0.1, 0.9), l2=0.5, l2_kind="ridge"),
    "label smoothing class-frequency": Penalty(
        "label-smoothing", (0.2,), "class-frequency", l2=0.1, l2_kind="weight-decay"
    ),
    "mean square": Penalty("l2", (0.1, 1.0, 100.0), l2_kind="mean-square"),
    "ridge": Penalty("l2", (0.1, 1.0, 100.0), l2_kind="ridge"),
    "weight decay": Penalty("l2", (0.001, 0.1, 1.0), l2_kind="weight-decay"),
    "confidence": Penalty("confidence", (0.0, 0.1, 1.0), l2=1.0, l2_kind="ridge"),
}
SHAPES = {
    "few rows": (20, 50, 4),
    "one shot": (5, 40, 5),
    "two classes": (15, 30, 2),
    "many rows": (80, 6, 3),
    "many rows and classes": (150, 40, 12),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
def test_agrees_with_a_plain_minimiser(penalty, shape):
    X, labels = draw(*shape)
    k = shape[2]
    found = solve(X, labels, form_of(X, labels, **vars(penalty)), tolerance=1e-8)
    assert found.converged.all()
    for l in range(len(penalty.coefficients)):
        function = plain_objective(X, labels, k, l, penalty)
        mine = flatten(found, l)
        value, gradient = function(mine)
        assert abs(gradient).max() <= 1e-8 + 1e-12
        np.testing.assert_allclose(found.gradient_norm[l], abs(gradient).max(), rtol=0, atol=1e-12)
        expected = value
        np.testing.assert_allclose(found.objective[l], expected, rtol=1e-10)
        if penalty.family == "confidence":  # not convex: stationary is all that is promised
            continue
        other = minimize(
            function,
            np.zeros(len(mine)),
            jac=True,
            method="L-BFGS-B",
            options={"ftol": 0, "gtol": 1e-8, "maxiter": 5000, "maxfun": 10000},
        )
        assert value <= other.fun + 1e-12
        np.testing.assert_allclose(mine, other.x, atol=2e-4 * (1 + abs(mine).max()))
        logits = [X @ p[: X.shape[1] * k].reshape(-1, k) + p[-k:] for p in (mine, other.x)]
        np.testing.assert_allclose(softmax(logits[0]), softmax(logits[1]), atol=1e-5)


def test_a_ridge_of_one_is_scikit_learn_at_c_one():
    from sklearn.linear_model import LogisticRegression

    X, labels = draw(60, 100, 5)
    found = solve(X, labels, form_of(X, labels, l2=1.0, l2_kind="ridge"), tolerance=1e-9)
    other = LogisticRegression(C=1.0, solver="newton-cg", tol=1e-10).fit(X, labels)
    np.testing.assert_allclose(found.coef[0], other.coef_, atol=1e-5)
    np.testing.assert_allclose(
        found.intercept[0] - found.intercept[0].mean(), other.intercept_, atol=1e-5
    )


@pytest.mark.parametrize("kind", ["ridge", "weight-decay", "mean-square"])
@pytest.mark.parametrize("n", [12, 90])
def test_sample_weights_are_repeated_rows(kind, n):
    X, labels = draw(n, 20, 4)
    times = np.random.default_rng(1).integers(0, 4, n)
    times[:4] = 1
    repeated = np.repeat(np.arange(n), times)
    form = form_of(X, labels, family="firth", coefficients=(0.0, 0.5), l2=0.2, l2_kind=kind)
    weighted = solve(X, labels, form, sample_weight=3.0 * times, tolerance=1e-9)
    plain = solve(X[repeated], labels[repeated], form, tolerance=1e-9)
    np.testing.assert_allclose(weighted.coef, plain.coef, atol=1e-6)
    np.testing.assert_allclose(weighted.objective, plain.objective, rtol=1e-10)


def test_soft_targets_are_label_smoothing():
    X, labels = draw()
    smooth = form_of(
        X, labels, family="label-smoothing", coefficients=(0.3,), l2=1.0, l2_kind="ridge"
    )
    soft = 0.7 * np.eye(4)[labels] + 0.3 / 4
    hard = form_of(X, labels, l2=1.0, l2_kind="ridge")
    np.testing.assert_allclose(solve(X, labels, smooth).coef, solve(X, soft, hard).coef, atol=1e-10)


def test_without_an_intercept_it_stays_zero_and_the_weights_are_optimal():
    X, labels = draw()
    found = solve(X, labels, form_of(X, labels, l2=1.0, l2_kind="ridge"), fit_intercept=False)
    assert not found.intercept.any()
    by_logits = SampleLoss().gradient(X @ found.coef[0].T, labels)
    gradient = by_logits.T @ X / len(X) + found.coef[0] / len(X)
    assert abs(gradient).max() <= TOLERANCE
    np.testing.assert_allclose(found.gradient_norm[0], abs(gradient).max(), atol=1e-12)


@given(
    n=st.integers(2, 12),
    extra=st.integers(0, 20),
    k=st.integers(2, 6),
    seed=st.integers(0, 1000),
    coefficient=st.sampled_from([0.01, 0.5, 3.0, 30.0]),
    intercept=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_without_ridge_independent_rows_have_the_closed_form(
    n, extra, k, seed, coefficient, intercept
):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(n, n + extra)), rng.integers(0, k, n)
    form = form_of(X, labels, k, family="firth", coefficients=(coefficient,))
    found = solve(X, labels, form, tolerance=1e-9, fit_intercept=intercept)
    expected = closed_form_optimum(X, labels, k, coefficient, intercept=intercept)
    assert found.converged.all()
    # the slightest curvature is σ²_min p_min / n
    rows = np.column_stack([X, np.ones(n)]) if intercept else X
    slightest = np.linalg.svd(rows, compute_uv=False)[-1] ** 2 * coefficient / (k * n) / 2
    margin = 1e-7 + 1e-8 * n * k / slightest
    np.testing.assert_allclose(found.coef[0].T, expected.weights, atol=margin)
    if intercept:
        np.testing.assert_allclose(found.intercept[0], expected.bias, atol=margin)


@pytest.mark.parametrize("scale", [1e-3, 20.0])
def test_firth_alone_is_free_of_the_scale_of_features_and_l2_is_not(scale):
    X, labels = draw(60, 5, 3, spread=0.7)
    query = np.random.default_rng(5).normal(size=(50, 5))

    def predict(factor, **penalty):
        form = form_of(X, labels, **penalty)
        found = solve(factor * X, labels, form, tolerance=1e-10)
        assert found.converged.all()
        return softmax(factor * query @ found.coef[0].T + found.intercept[0])

    firth = [predict(factor, family="firth", coefficients=(0.5,)) for factor in (1.0, scale)]
    np.testing.assert_allclose(*firth, atol=1e-5)
    l2 = [predict(factor, l2=1.0, l2_kind="ridge") for factor in (1.0, scale)]
    assert abs(l2[0] - l2[1]).max() > 0.01


def test_the_iteration_limit_is_reported():
    X, labels = draw(40, 80, 4)
    form = form_of(X, labels, family="firth", coefficients=(0.0, 0.1), l2=0.01, l2_kind="ridge")
    found = solve(X, labels, form, max_iterations=1)
    assert (found.status == Status.NOT_CONVERGED).all()
    assert (found.iterations == 1).all()
    assert (found.gradient_norm > TOLERANCE).all()


@given(seed=st.integers(0, 500), n=st.integers(4, 40), d=st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_relabelling_permutes_the_weights(seed, n, d):
    X, labels = draw(n, d, 4, seed)
    order = np.random.default_rng(seed).permutation(4)
    penalty = {"family": "firth", "coefficients": (0.0, 1.0), "l2": 1.0, "l2_kind": "ridge"}
    one = solve(X, labels, form_of(X, labels, 4, **penalty), tolerance=1e-9)
    two = solve(X, order[labels], form_of(X, labels, 4, **penalty), tolerance=1e-9)
    np.testing.assert_allclose(two.coef[:, order], one.coef, atol=1e-6)


@given(
    seed=st.integers(0, 500),
    n=st.integers(2, 60),
    d=st.integers(1, 60),
    scale=st.sampled_from([1e-4, 1.0, 100.0]),
    offset=st.sampled_from([0.0, 10.0]),
    kind=st.sampled_from(["ridge", "weight-decay", "mean-square"]),
)
@settings(max_examples=60, deadline=None)
def test_both_bases_reach_the_tolerance_and_the_same_optimum(seed, n, d, scale, offset, kind):
    """Many coefficients at once take the rotated features, one alone often takes the triangle."""
    X, labels = draw(n + 3, d, 3, seed)
    X = scale * (X + offset)
    path = (0.0, 0.1, 1.0, 10.0)
    penalty = {"family": "firth", "l2": 0.1, "l2_kind": kind}
    form = form_of(X, labels, 3, coefficients=path, **penalty)
    together = solve(X, labels, form, tolerance=1e-8)
    warm = solve(X, labels, form, tolerance=1e-8, warm_start=True)
    assert together.converged.all()
    assert warm.converged.all()
    np.testing.assert_allclose(warm.objective, together.objective, rtol=1e-9)
    for l, coefficient in enumerate(path):
        alone = solve(
            X, labels, form_of(X, labels, 3, coefficients=(coefficient,), **penalty), tolerance=1e-8
        )
        assert alone.converged.all()
        np.testing.assert_allclose(alone.objective[0], together.objective[l], rtol=1e-9)


def test_bad_weights_and_decays_are_refused():
    X, labels = draw()
    form = form_of(X, labels, l2=1.0, l2_kind="ridge")
    for bad in (-np.ones(30), np.zeros(30), np.ones(3), np.full(30, np.nan)):
        with pytest.raises(FirthshotError, match="sample_weight"):
            solve(X, labels, form, sample_weight=bad)
    object.__setattr__(form, "bias_decay", np.array([2.0]))
    with pytest.raises(FirthshotError, match="bias_decay"):
        solve(X, labels, form)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_trial_is_scored_at_its_optimum(dtype):
    X, labels = draw(20, 50, 4)
    query = np.random.default_rng(3).normal(size=(37, 50)).astype(dtype)
    trial = Trial(0, 1, 4, X.astype(dtype), labels, query)
    penalty = {"family": "firth", "coefficients": (0.0, 0.5, 2.0), "l2": 1.0, "l2_kind": "ridge"}
    form = form_of(X, labels, **penalty)
    (fitted,) = Linear().fit(trial, Converged(), form, True).values()
    found = solve(X.astype(dtype), labels, form)
    assert fitted.logits.dtype == dtype
    assert fitted.logits.shape == (4, 3, trial.query.padded)
    assert (fitted.status == Status.OK).all()
    expected = np.einsum("qd,lkd->klq", query, found.coef) + found.intercept.T[:, :, None]
    margin = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(fitted.logits[:, :, :37], expected, atol=margin)
    np.testing.assert_allclose(fitted.weights["coef"], found.coef, atol=margin)
    np.testing.assert_allclose(fitted.weights["intercept"], found.intercept, atol=margin)
    norms = (found.coef**2).sum((1, 2)) + (found.intercept**2).sum(1)
    np.testing.assert_allclose(fitted.norms, norms)


def test_the_same_trial_gives_the_same_bits_on_threads():
    from concurrent.futures import ThreadPoolExecutor

    X, labels = draw(40, 60, 5)
    form = form_of(X, labels, family="firth", coefficients=(0.0, 1.0), l2=1.0, l2_kind="ridge")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: solve(X, labels, form).coef, range(8)))
    assert all((other == found[0]).all() for other in found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_trials_end_to_end(dtype):
    from firthshot.engine import train
    from firthshot.episodes import sample_episodes

    bank = PlainBank(n_classes=6, rows=40, d=10)
    features = bank.features.astype(dtype)
    block = sample_episodes(bank, "novel", ways=4, shots=2, queries=9, trials=[3, 1, 3])
    penalty = Penalty("firth", (0.0, 1.0), l2=0.0, l2_kind="ridge")
    results = train(
        features, block, Linear(), Converged(), penalty, dtype=dtype, keep=["predictions"]
    )
    assert (results.status == [Status.NO_OPTIMUM, Status.OK]).all()
    assert len(results.problems()) == 3
    assert (results.nll[0] == results.nll[2]).all()
    for t in range(3):
        episode = block[t]
        X, labels = features[episode.support], episode.support_labels
        expected = closed_form_optimum(X, labels, 4, 1.0)
        logits = features[episode.query] @ expected.weights + expected.bias
        assert (results.kept["predictions"][t][1] == logits.argmax(1)).all()
