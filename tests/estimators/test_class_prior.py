"""Frequencies of classes among new rows, in the explicit heads."""

from __future__ import annotations

import numpy as np
import pytest

from firthshot import FirthshotError, load_model
from firthshot.estimators import (
    DistributionCalibrationClassifier,
    FirthClassifier,
    FirthCosineClassifier,
    FirthMLPClassifier,
)
from oracles.linear_optimum import draw

HEADS = [
    FirthClassifier(),
    FirthClassifier(class_weight=None),
    FirthCosineClassifier(),
    FirthMLPClassifier(hidden=(4,), tol=0.1),
]


def unequal():
    X, y = draw(60, 6, 3, spread=0.6)
    kept = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:4], np.flatnonzero(y == 2)[:8]]
    return X[kept], np.array(["a", "b", "c"])[y[kept]], X


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_probabilities_are_those_of_the_head_times_the_change_of_frequencies(head):
    X, y, new = unequal()
    counts = np.unique(y, return_counts=True)[1]
    trained = counts / counts.sum() if head.class_weight is None else np.full(3, 1 / 3)
    plain = head.set_params(class_prior=None).fit(X, y).predict_proba(new)
    for given, wanted in [
        ("uniform", np.full(3, 1 / 3)),
        ("training", counts / counts.sum()),
        ({"a": 1, "b": 2, "c": 7}, np.array([0.1, 0.2, 0.7])),
        ([0.1, 0.2, 0.7], np.array([0.1, 0.2, 0.7])),
    ]:
        model = head.set_params(class_prior=given).fit(X, y)
        expected = plain * wanted / trained
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(new), expected, rtol=1e-6)
        best = model.predict_proba(new).argmax(axis=1)
        np.testing.assert_array_equal(model.predict(new), model.classes_[best])
        np.testing.assert_array_equal(model.decision_function(new).argmax(axis=1), best)
    head.set_params(class_prior=None)


def test_a_class_weight_that_changes_nothing_is_corrected_to_nothing():
    X, y, _ = unequal()
    weighed = FirthClassifier(class_weight={"a": 2, "b": 2, "c": 2}, class_prior="training")
    alike = FirthClassifier(class_weight=None, class_prior=None)
    ours = weighed.fit(X, y)._prior_shift
    np.testing.assert_allclose(ours, 0, atol=1e-12)
    assert alike.fit(X, y)._prior_shift is None


def test_sample_weights_are_rows_of_training():
    X, y, new = unequal()
    model = FirthClassifier(class_prior="training")
    doubled = model.fit(X, y, np.where(y == "b", 2.0, 1.0)).predict_proba(new)
    twice = np.r_[np.arange(len(y)), np.flatnonzero(y == "b")]
    np.testing.assert_allclose(doubled, model.fit(X[twice], y[twice]).predict_proba(new), rtol=1e-5)


def test_float32_stays_float32():
    X, y, new = unequal()
    model = FirthClassifier(class_prior="training").fit(X.astype("f4"), y)
    assert model.decision_function(new.astype("f4")).dtype == np.float32


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_a_saved_head_keeps_it(head, tmp_path):
    X, y, new = unequal()
    model = head.set_params(class_prior={"a": 0.2, "b": 0.3, "c": 0.5}).fit(X, y)
    model.save(tmp_path / "it.firth")
    again = load_model(tmp_path / "it.firth")
    np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
    head.set_params(class_prior=None)


def test_distribution_calibration_takes_it():
    X, y = draw(12, 6, 3)
    base = (np.ones((4, 6)), np.stack([np.eye(6)] * 4))
    X, given = np.abs(X), [0.6, 0.3, 0.1]
    settings = {"artificial": 0, "base": base}
    plain = DistributionCalibrationClassifier(**settings).fit(X, y).predict_log_proba(X)
    model = DistributionCalibrationClassifier(class_prior=given, **settings).fit(X, y)
    trained = np.log(np.bincount(y) / len(y))
    moved = model.predict_log_proba(X) - plain - np.log(given) + trained
    np.testing.assert_allclose(moved, moved[:, :1] * np.ones(3), atol=1e-6)


@pytest.mark.parametrize("given", ["test", [0.5, 0.5], {"a": 1.0}, [0.0, 0.5, 0.5]])
def test_frequencies_that_mean_nothing_are_refused(given):
    X, y, _ = unequal()
    with pytest.raises(FirthshotError, match="class_prior"):
        FirthClassifier(class_prior=given).fit(X, y)
