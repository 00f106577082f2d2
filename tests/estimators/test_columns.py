"""Columns of unlike scale: warned of, or brought to one as StandardScaler does."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from firthshot import (
    FirthClassifier,
    FirthCosineClassifier,
    FirthMLPClassifier,
    load_bank,
)
from firthshot.errors import FirthshotError, ScaleWarning
from firthshot.estimators import wide_columns

HEADS = [FirthClassifier, FirthCosineClassifier, FirthMLPClassifier]
BANKS = ["clinc150-minilm", *sorted((Path(__file__).parents[2] / "banks").glob("*.bank"))]


def wine():
    X, y = load_wine(return_X_y=True)
    return X[::6], y[::6]


@pytest.mark.parametrize("head", HEADS)
def test_standardize_is_a_scaler_in_front(head):
    X, y = wine()
    own = head(standardize=True).fit(X, y)
    piped = make_pipeline(StandardScaler(), head()).fit(X, y)
    np.testing.assert_allclose(own.predict_proba(X), piped.predict_proba(X), atol=1e-5)
    scaler = piped[0]
    np.testing.assert_allclose(own.column_scale_.mean, scaler.mean_)
    np.testing.assert_allclose(own.column_scale_.spread, scaler.scale_)


def test_a_weight_of_two_is_a_row_given_twice():
    X, y = wine()
    weights = np.where(np.arange(len(y)) % 3, 1.0, 2.0)
    twice = np.repeat(np.arange(len(y)), weights.astype(int))
    one = FirthClassifier(standardize=True).fit(X, y, weights)
    other = FirthClassifier(standardize=True).fit(X[twice], y[twice])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


def test_constant_huge_and_single_precision_columns():
    X, y = wine()
    X = np.column_stack([X, np.full(len(X), 0.1), X[:, 0] * 1e200])
    p = FirthClassifier(standardize=True).fit(X, y).predict_proba(X)
    assert np.isfinite(p).all()
    small = FirthClassifier(standardize=True).fit(X[:, :-1].astype(np.float32), y)
    assert small.coef_.dtype == np.float32


def test_sparse_rows_are_not_centred():
    X, y = wine()
    with pytest.raises(FirthshotError, match="standardize is True, and sparse rows"):
        FirthClassifier(standardize=True).fit(csr_array(X), y)


def test_a_second_fit_forgets_the_scale():
    X, y = wine()
    head = FirthClassifier(standardize=True).fit(X, y)
    head.set_params(standardize=False)
    with pytest.warns(ScaleWarning):
        assert head.fit(X, y).column_scale_ is None


@pytest.mark.parametrize("head", [FirthClassifier, FirthCosineClassifier])
def test_a_column_that_decides_alone_is_warned_of(head):
    X, y = load_wine(return_X_y=True, as_frame=True)
    with pytest.warns(ScaleWarning, match="'magnesium'.*StandardScaler"):
        head().fit(X[::6], y[::6])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        head(standardize=True).fit(X[::6], y[::6])


@pytest.mark.parametrize("bank", BANKS, ids=lambda bank: Path(bank).stem)
def test_features_of_networks_are_not_warned_of(bank):
    features, draw = load_bank(str(bank)).features, np.random.default_rng(0)
    for rows in [2, 5, 25, 100] * 10:
        which = np.sort(draw.choice(len(features), rows, replace=False))
        assert not len(wide_columns(np.asarray(features[which], np.float32)))


@pytest.mark.parametrize("data", [load_digits, load_iris])
def test_pixels_and_measurements_are_not_warned_of(data):
    assert not len(wide_columns(data().data))


@pytest.mark.parametrize("name", ["calibrate", "fit_intercept", "standardize"])
@pytest.mark.parametrize("value", ["yes", 1, None])
def test_a_flag_is_true_or_false(name, value):
    with pytest.raises(FirthshotError, match=f"{name} is {value!r}; give True or False"):
        FirthClassifier(**{name: value}).fit(*wine())


@pytest.mark.parametrize("seed", range(40))
def test_wide_columns_are_those_of_the_plain_definition(seed):
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(2, 60)), int(rng.integers(1, 100))
    X = rng.standard_t(2, (rows, columns)) * 10.0 ** rng.uniform(-1.5, 1.5, columns)
    X[:, rng.random(columns) < 0.2] = 3.0  # constant ones
    X[:, :1] *= 10.0 ** rng.integers(0, 4)
    spread = X.std(axis=0)
    varying = np.sort(spread[spread > 0])
    if not len(varying):
        limit = np.inf
    elif columns < 64:
        quartile = np.quantile(varying, 0.25, method="lower")
        limit = min(10 * np.median(varying), 100 * quartile)
    else:
        limit = 100 * np.median(varying)
    expected = np.flatnonzero(spread > limit)
    np.testing.assert_array_equal(wide_columns(X), expected)


@pytest.mark.parametrize(("small", "wide"), [(1, 1), (2, 2), (2, 3), (5, 1)])
def test_columns_are_found_wide_though_half_of_them_are(small, wide):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((24, small + wide)) * np.repeat([1.0, 1e6], [small, wide])
    assert list(wide_columns(X)) == list(range(small, small + wide))


@pytest.mark.parametrize("head", [FirthClassifier, FirthCosineClassifier])
def test_the_warning_points_to_where_fit_was_called(head):
    X = np.random.default_rng(0).normal(size=(12, 5)) * [1, 1, 1, 1, 1000]
    with pytest.warns(ScaleWarning) as caught:
        head().fit(X, [0, 1] * 6)
    assert {one.filename for one in caught} == {__file__}
