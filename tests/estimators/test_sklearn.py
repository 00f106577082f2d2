"""scikit-learn's own checks, with no expected failure, and its tools around the estimator."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from firthshot.estimators import FirthClassifier
from oracles.linear_optimum import draw


@parametrize_with_checks(
    [
        FirthClassifier(),
        FirthClassifier(lam="theory", l2=0.1, tol=1e-11),
        FirthClassifier(prior="class-frequency", class_weight="balanced", tol=1e-11),
    ]
)
def test_estimator_follows_scikit_learn(estimator, check):
    check(estimator)


def test_in_a_pipeline_with_string_labels():
    X, y = draw(60, 20, 3)
    names = np.array(["a", "b", "c"])[y]
    model = make_pipeline(StandardScaler(), FirthClassifier()).fit(X, names)
    assert model.score(X, names) > 0.9
    assert model.predict_proba(X).shape == (60, 3)


def test_in_a_grid_search_over_words_and_numbers():
    X, y = draw(60, 20, 3)
    search = GridSearchCV(FirthClassifier(), {"lam": [0.0, 1.0, "theory", "loo"], "l2": [0.1, 1.0]})
    search.fit(X, y)
    assert len(search.cv_results_["params"]) == 8
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()


def test_cross_validation_agrees_with_logistic_regression_where_they_are_the_same():
    X, y = draw(90, 10, 3, spread=0.5)
    ours = cross_val_score(FirthClassifier(lam=0.0, l2=1.0, class_weight=None), X, y)
    theirs = cross_val_score(LogisticRegression(tol=1e-8), X, y)
    np.testing.assert_allclose(ours, theirs)


def test_inside_scikit_learns_calibration():
    X, y = draw(90, 10, 3)
    model = CalibratedClassifierCV(FirthClassifier(), cv=3).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1.0)


def test_features_can_be_selected_by_its_coefficients():
    X, y = draw(60, 20, 3)
    chosen = SelectFromModel(FirthClassifier(), max_features=5, threshold=-np.inf).fit(X, y)
    assert chosen.transform(X).shape == (60, 5)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_a_table_are_remembered(library):
    frames = pytest.importorskip(library)
    X, y = draw(30, 3, 2)
    table = frames.DataFrame(X)
    table.columns = ["length", "width", "weight"]
    model = FirthClassifier().fit(table, y)
    assert model.feature_names_in_.tolist() == ["length", "width", "weight"]
    np.testing.assert_allclose(model.predict_proba(table), model.fit(X, y).predict_proba(X))
    assert not hasattr(model, "feature_names_in_")


def test_other_columns_are_refused_in_scikit_learns_words():
    frames = pytest.importorskip("pandas")
    X, y = draw(30, 3, 2)
    model = FirthClassifier().fit(frames.DataFrame(X, columns=["a", "b", "c"]), y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frames.DataFrame(X, columns=["a", "c", "b"]))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)
    with pytest.raises(ValueError, match="2 features"):
        FirthClassifier().fit(X, y).predict(X[:, :2])


def test_a_clone_and_a_copy_predict_the_same():
    X, y = draw(30, 8, 3)
    model = FirthClassifier(lam="loo", calibrate=True).fit(X, y)
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict_proba(X), model.predict_proba(X))
