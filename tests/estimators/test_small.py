"""Small fits in NumPy: the optima of the compiled solvers, and nothing compiled on the way."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from firthshot import FirthClassifier, FirthCosineClassifier, load_bank, sample_episodes
from firthshot.estimators import _optimum
from firthshot.estimators._optimum import LinearSolver, logits, public, solve_linear, variant_logits
from firthshot.estimators._small import Variant
from firthshot.estimators._support import Support
from firthshot.objective import softmax
from oracles.linear_optimum import closed_form_optimum, draw

SHAPES = {
    "few rows": (12, 30),
    "more rows than features": (30, 18),
    "many more": (60, 4),
}


def problem(shape, n_classes, seed, *, weighted, dependent):
    """Draw rows of every class, some of them combinations of others or equal with other labels."""
    rng = np.random.default_rng(seed)
    n, d = SHAPES[shape]
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)])
    X = rng.normal(size=(n_classes, d))[labels] + rng.normal(size=(n, d)) + 3.0
    if dependent:
        X[1], X[-1] = X[0], X[0] + X[2]
    weights = rng.uniform(0.3, 3.0, n) if weighted else np.ones(n)
    prior = (
        rng.dirichlet(np.full(n_classes, 3.0)) if weighted else np.full(n_classes, 1 / n_classes)
    )
    return Support(X, labels, weights, prior)


@given(
    shape=st.sampled_from(sorted(SHAPES)),
    n_classes=st.sampled_from([2, 3, 5]),
    seed=st.integers(0, 10**6),
    weighted=st.booleans(),
    dependent=st.booleans(),
    intercept=st.booleans(),
    lam=st.sampled_from([0.0, 0.04, 1.0, 10.0]),
    l2=st.sampled_from([0.0, 0.1, 1.0, 30.0]),
)
@settings(max_examples=80, deadline=None)
def test_numpy_and_the_kernels_find_the_same_optimum(
    shape, n_classes, seed, weighted, dependent, intercept, lam, l2
):
    support = problem(shape, n_classes, seed, weighted=weighted, dependent=dependent)
    path, left_out = [(lam, l2), (0.3, 2 * l2)], np.array([0, n_classes])
    solver = LinearSolver(1e-9, 1000, intercept)
    small = solve_linear(support, path, solver)
    kernels = _optimum._solve_by_kernels(support, path, solver)
    start = small[0].start
    assert start is not None or l2 > 0
    assume(start is not None)  # rows that depend on each other may go to the kernels
    assert [one.problem for one in small] == [other.problem for other in kernels]
    assume(not kernels[0].problem)
    # A gradient of 1e-9 leaves this much where λ is large and l2 small: little curvature is left.
    for one, other in zip(small, kernels, strict=True):
        for name, theirs in other.parameters.items():
            bound = 2e-5 * max(1.0, np.abs(theirs).max())
            np.testing.assert_allclose(one.parameters[name], theirs, atol=bound)
    assume(lam > 0 or len(set(np.delete(support.labels, left_out))) == n_classes)
    variant = Variant(lam, l2, support.weights_without(left_out), start)
    (ours,) = variant_logits(support, [variant], solver)
    (head,) = _optimum._solve_by_kernels(support.without(left_out), [(lam, l2)], solver)
    assume(not head.problem)
    theirs = logits(support.X, head.parameters)
    centred = (z - z.mean(axis=1, keepdims=True) for z in (ours, theirs))
    np.testing.assert_allclose(*centred, atol=2e-5 * max(1.0, np.abs(theirs).max()))


@pytest.mark.parametrize("intercept", [False, True])
def test_means_of_classes_stand_for_the_inverse_of_many_rows(intercept, monkeypatch):
    rng, labels = np.random.default_rng(0), np.arange(150) % 5
    X = rng.normal(size=(5, 100))[labels] + 0.3 * rng.normal(size=(150, 100))
    weights = rng.uniform(0.5, 2.0, 150)

    def fitted():
        support = Support(X, labels, weights, np.full(5, 0.2))
        found = solve_linear(support, [(0.1, 10.0)], LinearSolver(1e-9, 1000, intercept))
        (metric,) = next(iter(support.prepared.values()))._metrics
        return type(metric).__name__, found[0].parameters["coef_"]

    by_means = fitted()
    monkeypatch.setattr("firthshot.engine.solvers.metric.MANY_ROWS", 1000)
    by_inverse = fitted()
    assert (by_means[0], by_inverse[0]) == ("_MeansMetric", "_InverseMetric")
    np.testing.assert_allclose(by_means[1], by_inverse[1], atol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("far", [0.0, 1e4])
@pytest.mark.parametrize("intercept", [False, True])
def test_without_l2_independent_rows_have_the_closed_form(n_classes, far, intercept):
    rng, labels = np.random.default_rng(0), np.arange(12) % n_classes
    X, weights = rng.normal(size=(12, 30)) + far, rng.uniform(0.3, 3.0, 12)
    support = Support(X, labels, weights, np.full(n_classes, 1 / n_classes))
    (head,) = solve_linear(support, [(0.5, 0.0)], LinearSolver(1e-10, 1000, intercept))
    assert head.start is not None
    moments = support.moments
    unit = np.sqrt(moments.spread if intercept else moments.square)
    centre = np.average(X, axis=0, weights=weights) if far and intercept else np.zeros(30)
    rows = (X - centre) / unit
    W, b = closed_form_optimum(rows, labels, n_classes, 0.5, intercept=intercept)
    expected = public(W.T / unit, np.zeros(n_classes) if b is None else b, support)
    size = np.abs(expected["coef_"]).max()
    np.testing.assert_allclose(head.parameters["coef_"], expected["coef_"], atol=1e-6 * size)
    ours = logits(X, head.parameters)
    theirs = logits(X - centre, expected)
    np.testing.assert_allclose(softmax(ours), softmax(theirs), atol=1e-6)


@pytest.mark.parametrize("lam", [0.0, 0.04, 1.0])
@pytest.mark.parametrize("change", ["duplicates", "collinear", "mixed scales", "a shared row"])
@pytest.mark.parametrize("shape", [(25, 60, 5), (40, 24, 3), (300, 6, 4), (100, 150, 20)], ids=str)
def test_awkward_rows_without_l2_are_what_the_kernels_make_of_them(shape, change, lam):
    n, d, n_classes = shape
    X, labels = draw(n, d, n_classes, spread=0.5)
    if change == "duplicates":
        X[n // 2 :] = X[: n - n // 2]
    elif change == "collinear":
        X[:, -1] = X[:, 0] + X[:, 1]
    elif change == "mixed scales":
        X *= np.logspace(-2, 2, d)
    else:
        X[labels.tolist().index(1)] = X[0]
    weights = np.random.default_rng(1).uniform(0.3, 3.0, n)
    support = Support(X, labels, weights, np.full(n_classes, 1 / n_classes))
    solver = LinearSolver(1e-9, 1000)
    (ours,) = solve_linear(support, [(lam, 0.0)], solver)
    (theirs,) = _optimum._solve_by_kernels(support, [(lam, 0.0)], solver)
    assert ours.start is not None
    assert ours.problem == theirs.problem
    p, q = (softmax(logits(X, head.parameters)) for head in (ours, theirs))
    np.testing.assert_allclose(p, q, atol=1e-5)


def test_a_prior_without_some_class_separates_as_it_does_for_the_kernels():
    X, labels = draw(12, 30, 3)
    support = Support(X, labels, np.ones(12), np.array([0.5, 0.5, 0.0]))
    (ours,) = solve_linear(support, [(1.0, 0.0)], LinearSolver(1e-6))
    (theirs,) = _optimum._solve_by_kernels(support, [(1.0, 0.0)], LinearSolver(1e-6))
    assert ours.start is not None
    assert "there is no optimum" in ours.problem
    assert ours.problem == theirs.problem


def test_plain_regression_beside_a_head_without_l2_keeps_its_own():
    support = problem("many more", 3, 0, weighted=True, dependent=False)
    variants = [Variant(0.3, 0.0), _optimum.PLAIN]
    solver = LinearSolver(1e-9, 1000)
    for variant, found in zip(variants, variant_logits(support, variants, solver), strict=True):
        (head,) = _optimum._solve_by_kernels(support, [(variant.lam, variant.l2)], solver)
        expected = logits(support.X, head.parameters)
        np.testing.assert_allclose(softmax(found), softmax(expected), atol=1e-6)


def test_what_numpy_does_not_solve_goes_to_the_kernels(monkeypatch):
    support = problem("few rows", 3, 0, weighted=False, dependent=False)
    unfinished = solve_linear(support, [(1.0, 0.0)], LinearSolver(1e-6, max_iter=2))
    assert unfinished[0].start is None
    monkeypatch.setattr(_optimum, "SMALL", 100)
    large = solve_linear(support, [(1.0, 1.0)], LinearSolver(1e-6))
    assert large[0].start is None


@pytest.mark.parametrize(("ways", "shots"), [(20, 5), (50, 5), (20, 20)])
@pytest.mark.parametrize("make", [FirthClassifier, FirthCosineClassifier])
def test_fits_in_float32_stay_in_numpy(make, ways, shots, monkeypatch):
    """Left-out rounds and plain regression included."""
    bank = load_bank("clinc150-minilm")
    task = sample_episodes(bank, "novel", ways=ways, shots=shots, trials=1, queries=1)[0]
    monkeypatch.setattr(_optimum, "_solve_by_kernels", None)
    model = make().fit(np.asarray(bank.features[task.support], np.float32), task.support_labels)
    assert model.converged_


@pytest.mark.parametrize("settings", ["", "l2=0", "l2=0, class_prior='training'", "lam=0, l2=0"])
@pytest.mark.parametrize("estimator", ["FirthClassifier", "FirthCosineClassifier"])
def test_a_small_fit_imports_no_compiler(estimator, settings):
    program = f"""
import sys
import numpy as np
from firthshot import {estimator}
X = np.random.default_rng(0).normal(size=(25, 384))
model = {estimator}({settings}).fit(X, np.arange(25) % 5)
model.predict_proba(X)
print(*sorted({{"numba", "polars", "matplotlib", "torch"}} & set(sys.modules)))
"""
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert loaded.stdout.split() == []
