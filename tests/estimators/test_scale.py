"""Features in any unit: predictions, convergence, and where numbers end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from firthshot.errors import FirthshotError, ScaleWarning
from firthshot.estimators import FirthClassifier, FirthCosineClassifier, FirthMLPClassifier
from firthshot.estimators._support import Support
from oracles.linear_optimum import draw

SMALL = {"hidden": (12, 6), "calibrate": False}
# The same head for features in another unit, s times as large.
SETTINGS = {
    "default": lambda s: FirthClassifier(calibrate=False, tol=1e-8),
    "no penalty": lambda s: FirthClassifier(lam=0.0, calibrate=False, tol=1e-8),
    "given l2": lambda s: FirthClassifier(lam=1.0, l2=0.3 * s**2, calibrate=False, tol=1e-8),
    "no l2": lambda s: FirthClassifier(lam=1.0, l2=0.0, calibrate=False, tol=1e-8),
    "no intercept": lambda s: FirthClassifier(fit_intercept=False, calibrate=False, tol=1e-8),
    "loo": lambda s: FirthClassifier(lam="loo", l2="loo", calibrate=False, tol=1e-8),
    "layers": lambda s: FirthMLPClassifier(**SMALL),
}


def both_scales(make, X, y, new, factor):
    """Return the same head on rows and on their multiples, and their logits of new rows."""
    one, other = make(1.0).fit(X, y), make(factor).fit(factor * X, y)
    assert one.converged_
    assert other.converged_
    return one, other, one.decision_function(new), other.decision_function(factor * new)


@given(
    exponent=st.floats(-8, 8),
    seed=st.integers(0, 100),
    shape=st.sampled_from([(24, 40, 3), (60, 7, 4), (10, 5, 2)]),
    kind=st.sampled_from(sorted(SETTINGS)),
)
@settings(max_examples=60, deadline=None)
def test_predictions_do_not_depend_on_the_unit_of_the_features(exponent, seed, shape, kind):
    X, y = draw(*shape, seed=seed)
    new = np.random.default_rng(seed).normal(size=(20, shape[1]))
    factor = 10.0**exponent
    if kind == "layers":  # a descent that is not convex carries rounding anywhere: there is none
        factor = 2.0 ** round(np.log2(factor))
    one, other, z, z_other = both_scales(SETTINGS[kind], X, y, new, factor)
    np.testing.assert_allclose(z, z_other, rtol=1e-3, atol=1e-3 * np.abs(z).max())
    assert other.l2_ == pytest.approx(one.l2_ * (1.0 if kind == "layers" else factor**2))
    if kind != "layers":
        np.testing.assert_allclose(
            one.coef_, factor * other.coef_, atol=1e-4 * np.abs(one.coef_).max()
        )


@pytest.mark.parametrize("factor", [1e-8, 1e8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [FirthClassifier, FirthCosineClassifier, FirthMLPClassifier])
def test_the_defaults_learn_at_any_scale_and_type(make, dtype, factor):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 6)
    X = (rng.normal(size=(4, 30))[labels] + 0.3 * rng.normal(size=(24, 30))) * factor
    model = make().fit(X.astype(dtype), labels)
    assert model.converged_
    assert model.score(X.astype(dtype), labels) == 1.0
    assert 0.01 < model.temperature_ < 100


def test_rows_far_from_zero_keep_their_spread():
    X, y = draw(24, 40, 3)
    one, other = (FirthClassifier(calibrate=False).fit(X + shift, y) for shift in (0.0, 1e4))
    np.testing.assert_allclose(
        one.decision_function(X), other.decision_function(X + 1e4), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_moments_are_means_over_weighted_rows(shift, kind):
    X, labels = draw(30, 6, 3)
    weights = np.random.default_rng(2).uniform(1, 2, 30)
    share, rows = weights / weights.sum(), X + shift
    found = Support(kind(rows), labels, weights, np.full(3, 1 / 3)).moments
    assert found.square == pytest.approx(share @ (rows**2).sum(1))
    assert found.spread == pytest.approx(share @ ((X - share @ X) ** 2).sum(1), rel=1e-6)


@pytest.mark.parametrize("size", [1e300, 1e-145, 1e-300])
@pytest.mark.parametrize("make", [FirthClassifier, FirthMLPClassifier])
def test_features_without_a_square_are_refused_in_a_sentence(make, size):
    X, y = draw(12, 5, 3)
    X = X * size if size < 1 else np.column_stack([X, size * X[:, 0]])
    with pytest.raises(FirthshotError, match=r"largest feature is .*: scale the features"):
        make().fit(X, y)


@pytest.mark.parametrize("size", [1e-130, 1e-30, 1e140])
@pytest.mark.parametrize("make", [FirthClassifier, FirthMLPClassifier])
def test_unequal_classes_of_any_scale(make, size):
    X, y = draw(16, 5, 3)
    y[:6] = 0
    assert (make().fit(size * X, y).predict(size * X) == make().fit(X, y).predict(X)).all()


@pytest.mark.parametrize("value", [2024.0, 1e8])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("make", [FirthClassifier, FirthMLPClassifier])
def test_a_constant_column_changes_nothing(make, dtype, value):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 8)
    X = (rng.normal(size=(24, 5)) + 2 * np.eye(5)[y]).astype(dtype)
    more = np.column_stack([X, np.full(24, value, dtype)])
    one, other = make().fit(X, y), make().fit(more, y)
    assert (other.coef_[:, -1] if make is FirthClassifier else other.coefs_[0][-1]).max() == 0
    np.testing.assert_allclose(other.predict_proba(more), one.predict_proba(X), atol=1e-5)


def test_a_column_far_from_zero_keeps_what_it_says():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 10)
    X = rng.normal(size=(20, 3)) + y[:, None]
    far = X + np.array([0.0, 2.0**30, 0.0])
    one, other = FirthClassifier().fit(X, y), FirthClassifier().fit(far, y)
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-6)


def test_the_cosine_head_warns_of_a_column_that_sets_every_direction():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(12, 4)), np.full(12, 2024.0)])
    with pytest.warns(ScaleWarning, match="Column 4 is so far from zero.*standardize=True") as seen:
        FirthCosineClassifier().fit(X, np.repeat([0, 1], 6))
    assert seen[0].filename == __file__
    FirthCosineClassifier(standardize=True).fit(X, np.repeat([0, 1], 6))  # warnings are errors


@pytest.mark.parametrize("make", [FirthClassifier, FirthCosineClassifier, FirthMLPClassifier])
@pytest.mark.filterwarnings("ignore:Every row gets the same logits")
def test_equal_rows_keep_the_shares_of_the_classes(make):
    X, y = np.ones((20, 3)), np.repeat([0, 1], [15, 5])
    model = make(class_weight=None).fit(X, y)
    assert model.temperature_ == 1.0
    np.testing.assert_allclose(model.predict_proba(X[:1]), [[0.75, 0.25]], atol=0.01)
    np.testing.assert_allclose(make().fit(X, y).predict_proba(X[:1]), 0.5, atol=0.01)
