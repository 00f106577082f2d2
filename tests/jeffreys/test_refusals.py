"""What exact Firth regression refuses, each in one sentence, and odd names that it must not."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning

from firthshot import regress
from firthshot.errors import FirthshotError
from firthshot.jeffreys import JeffreysLogisticRegression

pytest.importorskip("formulaic")
X = np.random.default_rng(0).normal(size=(40, 1))
Y = np.random.default_rng(1).integers(0, 2, 40)


@pytest.mark.parametrize("name", ["offset(x)", "C(x)", "a`b", "", "np.log(x)", "x:z"])
def test_a_column_may_have_any_name(name):
    table = pd.DataFrame({"y": Y, name: X[:, 0], "x": X[:, 0] ** 2})
    fit = regress("y ~ .", table)
    direct = JeffreysLogisticRegression().fit(table[[name, "x"]].to_numpy(), Y)
    assert fit.model.parameter_names_ == ["(Intercept)", name, "x"]
    np.testing.assert_allclose(fit.model.params_, direct.params_, rtol=1e-7)
    np.testing.assert_allclose(
        fit.predict_proba(table), direct.predict_proba(fit.design.to_numpy())
    )
    assert len(fit.test_terms()) == 2


@pytest.mark.parametrize("right", [".", "x + `1`"])
def test_a_column_called_one_is_not_lost(right):
    table = pd.DataFrame({"y": Y, "1": X[:, 0], "x": X[:, 0] ** 2})
    with pytest.raises(FirthshotError, match=r"^A column is called '1', .*: rename it\.$"):
        regress(f"y ~ {right}", table)
    assert regress("y ~ x + 1", table).model.parameter_names_ == ["(Intercept)", "x"]


def test_names_that_become_one_are_refused():
    table = {"y": Y, "g[b]": X[:, 0], "g": np.resize(["a", "b"], 40)}
    with pytest.raises(FirthshotError, match=r"^Two columns of the model are called 'g\[b\]'"):
        regress("y ~ .", table)


@pytest.mark.parametrize(
    ("size", "shown"), [(1e200, "e\\+200"), (1e-160, "e-160"), (1e-310, "e-310")]
)
def test_columns_beyond_the_range_of_numbers(size, shown):
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 0] ** 2 * size})
    message = rf"^The largest value of column 'b' is \d{shown}: rescale the column to between .*\.$"
    with pytest.raises(FirthshotError, match=message):
        JeffreysLogisticRegression().fit(table, Y)


def test_columns_within_the_range_of_numbers_are_fitted_in_any_unit():
    plain = JeffreysLogisticRegression().fit(X, Y)
    for size in (1e140, 1e-140):
        scaled = JeffreysLogisticRegression().fit(X * size, Y)
        np.testing.assert_allclose(scaled.conf_int()[1] * size, plain.conf_int()[1], rtol=1e-5)
        assert scaled.test("x0").p_value == pytest.approx(plain.test("x0").p_value)


def test_a_query_of_polars_is_no_table():
    query = pl.DataFrame({"y": Y, "x": X[:, 0]}).lazy()
    with pytest.raises(FirthshotError, match=r"LazyFrame.*collect\(\)"):
        regress("y ~ x", query)
    with pytest.raises(FirthshotError, match=r"^X is a LazyFrame, .*: give X\.collect\(\)\.$"):
        JeffreysLogisticRegression().fit(query.select("x"), Y)


@pytest.mark.parametrize("tau", ["half", None, np.nan, -1.0])
def test_a_power_that_is_no_number(tau):
    with pytest.raises(FirthshotError, match=r"^tau is .*; give a number that is not negative"):
        JeffreysLogisticRegression(tau=tau).fit(X, Y)


@pytest.mark.parametrize(
    "table",
    [pd.DataFrame({"y": [], "x": []}), pl.DataFrame({"y": [], "x": []}), {"y": [], "x": []}],
)
def test_an_empty_table(table):
    for formula in ("y ~ x", "cbind(y, x) ~ 1"):
        with pytest.raises(FirthshotError, match=r"^The table has no rows: give one with data\.$"):
            regress(formula, table)


def test_a_missing_value_of_new_rows_has_no_option():
    fit = regress("y ~ x", {"y": Y, "x": X[:, 0], "o": X[:, 0]}, offset="o")
    for row in ({"x": [np.nan], "o": [0.0]}, {"x": [0.0], "o": [np.nan]}):
        with pytest.raises(FirthshotError, match="row 1: fill what is missing, or remove such"):
            fit.predict_proba(row)
    with pytest.raises(FirthshotError, match="no rows"):
        fit.predict_proba({"x": [], "o": []})


def test_huge_offsets_are_told_without_warnings_of_numpy():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        offset = np.resize([1000.0, 0.0], 40)
        model = JeffreysLogisticRegression().fit(X, Y, offset=offset)
        probabilities = model.predict_proba(X, offset=offset)
    assert not model.converged_
    assert np.isfinite(probabilities).all()
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    assert "offsets" in str(caught[0].message)


def test_a_summary_shows_itself():
    summary = JeffreysLogisticRegression().fit(X, Y).summary(method="wald")
    assert repr(summary) == str(summary)
    assert repr(summary).startswith("Binary logistic regression")
