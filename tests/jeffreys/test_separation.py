"""Separation: found, named, explained, and not seen where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from golden_data import load
from hypothesis import given, settings
from hypothesis import strategies as st

from firthshot.jeffreys import JeffreysLogisticRegression


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
    model = JeffreysLogisticRegression(tau=0.0).fit(np.arange(6.0)[:, None], [0, 0, 0, 1, 1, 1])
    summary = model.summary()
    for text in (str(summary), str(model.separation())):
        assert "estimate does not exist" in text
        assert "onverged" not in text
        assert "finite." not in text
    assert not summary.header["converged"]
    model = JeffreysLogisticRegression(tau=0.0).fit(np.arange(6.0)[:, None], [0, 0, 1, 0, 1, 1])
    assert "Converged" in str(model.summary())
