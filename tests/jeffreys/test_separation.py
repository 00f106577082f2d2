"""Separation: found, named, explained, and not seen where it is not."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import polars as pl
import pytest
from golden_data import load
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from firthshot.jeffreys import JeffreysLogisticRegression, detect_separation
from oracles.separation import separation as by_one_programme


def separation(X, y, **options):
    return JeffreysLogisticRegression(**options).fit(X, y).separation()


def test_names_the_one_variable():
    golden = load("binary_endometrial")
    found = separation(golden.X, golden.y)
    assert found.kind == "quasi-complete"
    assert found.variables == ("x0",)
    assert found.directions["x0"] == "+Inf"
    assert found.separated.sum() == golden.X[:, 0].sum()
    for words in ("x0 tells classes apart", "13 of 79 rows", "x0 (+Inf)", "estimates are finite"):
        assert words in str(found)


def test_no_separation():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    found = separation(X, [0, 1, 0, 1])
    assert not found
    assert "exists" in str(found)


def test_multinomial_class_ruled_out():
    golden = load("multinomial_hepatitis")
    model = JeffreysLogisticRegression().fit(golden.X, golden.y, sample_weight=golden.weights)
    found = model.separation()
    assert found.kind == "quasi-complete"
    assert found.directions["1:x0"] == "-Inf"
    assert found.directions["2:x0"] == "finite"


def test_more_columns_than_rows_are_completely_separated():
    X = np.random.default_rng(0).normal(size=(6, 9))
    found = separation(X, [0, 1, 2, 0, 1, 2])
    assert found.kind == "complete"
    assert "undetermined" in found.directions.values()


@given(st.integers(0, 10_000), st.integers(2, 3))
@settings(max_examples=20, deadline=None)
def test_complete_separation_is_linear_separability(seed, classes):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(15, 2))
    scores = np.column_stack([X, -X.sum(axis=1)])[:, :classes]
    y = scores.argmax(axis=1)
    if len(np.unique(y)) == classes:
        found = separation(X, y)
        assert found.kind == "complete"
        assert found.separated.all()


@pytest.mark.parametrize("flips", [1, 3])
def test_overlap_undoes_it(flips):
    x = np.arange(20.0)
    y = (x > 9).astype(int)
    y[:flips] = 1
    assert not separation(x[:, None], y)


def test_without_penalty_no_estimate_is_claimed():
    with pytest.warns(ConvergenceWarning, match=r"^x0 separates the classes: .*; use tau=0\.5\.$"):
        model = JeffreysLogisticRegression(tau=0.0).fit(np.arange(6.0)[:, None], [0, 0, 0, 1, 1, 1])
    assert not model.converged_
    summary = model.summary()
    for text in (str(summary), str(model.separation())):
        assert "estimate does not exist" in text
        assert "onverged" not in text
        assert "finite." not in text
    assert not summary.header["converged"]
    model = JeffreysLogisticRegression(tau=0.0).fit(np.arange(6.0)[:, None], [0, 0, 1, 0, 1, 1])
    assert "Converged" in str(model.summary())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["profile", "wald"])
def test_without_penalty_separation_leaves_no_bound(method):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat([0.0, 1.0], 20), rng.normal(size=40)])
    y = np.where(X[:, 0] > 0.0, 1, np.arange(40) % 2)
    model = JeffreysLogisticRegression(tau=0.0).fit(X, y)
    assert list(model.separation().directions.values()) == ["finite", "+Inf", "finite"]
    bounds = model.conf_int(method=method)
    assert np.isfinite(bounds[[0, 2]]).all()
    assert bounds[1, 1] == np.inf
    model.fit(X[:, 1:], X[:, 1] > 0.0)  # the threshold lies between two rows, on either side of 0
    bounds = model.conf_int(method=method)
    assert bounds[0].tolist() == [-np.inf, np.inf]
    assert bounds[1, 1] == np.inf


@given(
    st.integers(0, 10_000),
    st.integers(2, 4),
    st.sampled_from(["numbers", "levels", "scales"]),
    st.sampled_from([0.0, 0.1, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_agrees_with_one_programme_over_all_comparisons(seed, classes, kind, noise):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(8, 60)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, p)) if kind != "levels" else rng.integers(0, 3, (n, p)) * 1.0
    X = np.column_stack(
        [np.ones(n), X * (10.0 ** rng.integers(-4, 5, p) if kind == "scales" else 1)]
    )
    scores = X / np.abs(X).max(axis=0) @ rng.normal(size=(p + 1, classes)) * 5
    y = (scores + noise * rng.gumbel(size=scores.shape)).argmax(axis=1)
    labels, y = np.unique(y, return_inverse=True)
    if len(labels) < 2 or np.linalg.matrix_rank(X) < p + 1:
        return
    found = detect_separation(X, y, fit_intercept=False)
    kind, separated, moves = by_one_programme(X, y, len(labels))
    assert found.kind == kind
    np.testing.assert_array_equal(found.separated, separated)
    assert list(found.directions.values()) == moves
    assert bool(found.variables) == bool(found)


@pytest.mark.parametrize("collinear_and_separated", [False, True])
def test_a_collinear_column_is_undetermined(collinear_and_separated):
    x = np.array([0.0, 1.0, 2.0, 3.0])
    y = [0, 0, 1, 1] if collinear_and_separated else [0, 1, 0, 1]
    found = detect_separation(np.column_stack([x, 2 * x]), y)
    assert bool(found) == collinear_and_separated
    assert found.directions["x1"] == "undetermined"
    assert "undetermined" not in (found.directions["(Intercept)"], found.directions["x0"])
    assert "undetermined" not in str(found)


@pytest.mark.parametrize("classes", [2, 3])
def test_data_without_a_fit_are_told_as_those_of_a_fit(classes):
    """With labels that are text, names of columns, a reference and rows of weight zero."""
    rng = np.random.default_rng(classes)
    X = pl.DataFrame({"flag": rng.random(60) < 0.2, "age": rng.normal(size=60)})
    y = np.array(["a", "b", "c"])[rng.integers(0, classes, 60)]
    y[X["flag"].to_numpy()] = "b"
    weights = np.append(0.0, np.ones(59))
    options = {"reference": "b"}
    model = JeffreysLogisticRegression(**options).fit(X, y, sample_weight=weights)
    found, known = detect_separation(X, y, sample_weight=weights, **options), model.separation()
    assert found.kind == known.kind == "quasi-complete"
    assert found.variables == known.variables == ("flag",)
    assert found.directions == known.directions
    np.testing.assert_array_equal(found.separated, known.separated)
    assert "of 59 rows" in str(found)
    assert str(found).endswith("the maximum-likelihood estimate does not exist.")
    assert str(known) in " ".join(str(model.summary()).split())
    assert model.summary().to_dict()["separation"]["variables"] == ["flag"]


QUASI = """
import numpy as np
from firthshot.jeffreys import detect_separation

def found(n, p, classes, kind):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(n), rng.random(n) < 0.05, rng.normal(size=(n, p - 1))])
    scores = X @ rng.normal(size=(p + 1, classes))
    noise = 0.0 if kind == "complete" else 1.0
    y = (scores + noise * rng.gumbel(size=scores.shape)).argmax(axis=1)
    if kind == "quasi-complete":
        y[X[:, 1] == 1.0] = 1
    return detect_separation(X, y, fit_intercept=False)
"""


def test_memory_is_linear_in_rows():
    """With a matrix of rows by rows these 4000 took 130 MB a copy."""
    scope: dict = {}
    exec(QUASI, scope)
    scope["found"](100, 3, 2, "quasi-complete")
    tracemalloc.start()
    found = scope["found"](4000, 3, 2, "quasi-complete")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.kind == "quasi-complete"
    assert found.variables == ("x1",)
    assert peak < 30e6


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["none", "quasi-complete", "complete"])
def test_a_hundred_thousand_rows_fit_into_a_gigabyte(kind, classes):
    code = QUASI + (
        f"import resource\nassert found(100_000, 20, {classes}, {kind!r}).kind == {kind!r}\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1_000_000  # kilobytes


def test_an_offset_does_not_hide_the_maximum_of_separated_rows():
    """A constant offset moves the intercept alone, however large it is."""
    x, y = np.tile([0.0, 1.0], 21)[:, None], np.tile([0, 0, 0, 1, 0, 1], 7)
    plain = JeffreysLogisticRegression().fit(x, y)
    for size in (4.0, 4.5, 9.0, 30.0):
        moved = JeffreysLogisticRegression().fit(x, y, offset=np.full(42, size))
        np.testing.assert_allclose(moved.params_, plain.params_ - [size, 0.0], atol=1e-6)


def test_infinite_estimates_without_penalty_are_not_profiled():
    """Their finite bounds took minutes: units of search were standard errors of 1e7."""
    x = np.column_stack([np.tile([0.0, 1.0], 21), np.arange(42) % 5])
    y = np.tile([0, 0, 0, 1, 0, 1], 7)
    with pytest.warns(ConvergenceWarning, match="separates the classes"):
        model = JeffreysLogisticRegression(tau=0.0).fit(x, y)
    bounds = model.conf_int()
    assert bounds[1, 1] == np.inf
    assert np.isnan(bounds[1, 0])
    assert np.isfinite(bounds[2]).all()
