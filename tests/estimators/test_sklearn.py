"""scikit-learn's own checks, with no expected failure, and its tools around the estimators."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from firthshot.estimators import FirthClassifier


@parametrize_with_checks(
    [
        FirthClassifier(),
        FirthClassifier(lam="theory", l2=0.1, tol=1e-11),
        FirthClassifier(prior="class-frequency", class_weight="balanced", tol=1e-11),
    ]
)
def test_estimator_follows_scikit_learn(estimator, check):
    check(estimator)
