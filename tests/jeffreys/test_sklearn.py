"""scikit-learn's own checks, with no expected failure."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from firthshot.jeffreys import JeffreysLogisticRegression


@pytest.mark.filterwarnings("ignore::firthshot.jeffreys.CollinearityWarning")
@parametrize_with_checks(
    [
        JeffreysLogisticRegression(tol=1e-10),  # two ways of weighing agree as far as tol
        JeffreysLogisticRegression(correction="flic"),
        JeffreysLogisticRegression(fit_intercept=False, standard_errors="augmented", tau=1.0),
    ]
)
def test_estimator_follows_scikit_learn(estimator, check):
    check(estimator)
