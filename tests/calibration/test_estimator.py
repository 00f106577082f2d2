"""The face of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from calibration.made_up import statistics, task
from firthshot import DistributionCalibrationClassifier, FirthClassifier
from firthshot.errors import FirthshotError


def raw_task() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    support, labels, query = task()
    return support**2, np.array(list("abcd"))[labels], query**2


def test_fit_and_predict() -> None:
    X, y, query = raw_task()
    model = DistributionCalibrationClassifier(statistics(), artificial=100, lam=0.1).fit(X, y)
    assert model.converged_
    assert model.coef_.shape == (4, 24)
    np.testing.assert_allclose(model.predict_proba(query).sum(1), 1)
    assert (model.predict(query) == np.repeat(list("abcd"), 25)).mean() > 0.6
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    other = clone(model).set_params(random_state=1).fit(X, y)
    assert not np.array_equal(other.coef_, model.coef_)


def test_without_artificial_rows_it_is_the_plain_classifier() -> None:
    X, y, query = raw_task()
    model = DistributionCalibrationClassifier(statistics(), artificial=0, lam=0.3, tol=1e-9)
    plain = FirthClassifier(lam=0.3, l2=1.0, calibrate=False, tol=1e-9).fit(np.sqrt(X), y)
    expected = plain.predict_proba(np.sqrt(query))
    np.testing.assert_allclose(model.fit(X, y).predict_proba(query), expected)
    loose = clone(model).set_params(tol=1e-2).fit(X, y)
    assert loose.n_iter_ < model.n_iter_
    assert not np.array_equal(loose.coef_, model.coef_)


def test_coefficients_by_word_follow_the_support_rows() -> None:
    X, y, _ = raw_task()
    model = DistributionCalibrationClassifier(
        statistics(), artificial=10, lam="shots", l2="scale"
    ).fit(X, y)
    plain = FirthClassifier(calibrate=False).fit(np.sqrt(X), y)
    assert (model.lam_, model.l2_) == pytest.approx((plain.lam_, plain.l2_))


def test_two_classes_and_the_theorys_coefficient() -> None:
    X, y, query = raw_task()
    two = np.isin(y, ["a", "b"])
    model = DistributionCalibrationClassifier(statistics(), artificial=30, lam="theory")
    model.fit(X[two], y[two])
    assert model.lam_ == pytest.approx(2 * 25 / (2 * 64))
    assert model.decision_function(query).shape == (100,)


def test_ill_posed() -> None:
    X, y, _ = raw_task()
    with pytest.raises(FirthshotError, match="needs base statistics"):
        DistributionCalibrationClassifier().fit(X, y)
    with pytest.raises(FirthshotError, match="same backbone"):
        DistributionCalibrationClassifier(statistics(d=20)).fit(X, y)
    with pytest.raises(FirthshotError, match="between 1 and"):
        DistributionCalibrationClassifier(statistics(), neighbours=9).fit(X, y)
    model = DistributionCalibrationClassifier(statistics(), artificial=10).fit(X, y)
    with pytest.raises(FirthshotError, match="cannot be saved"):
        model.save("x.firth")
    with pytest.raises(FirthshotError, match="no sample_weight"):
        model.fit(X, y, np.arange(1.0, 9.0))
