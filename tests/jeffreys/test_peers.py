"""What firthmodels asserts of itself, as facts; R's packages are in `test_peers_in_r`.

Source: github.com/jzluo/firthmodels, tests/test_logistic.py and tests/test_separation.py (commits
0549bc9 and 26db1ae). Its numbers come from R's logistf; its intercept is last, ours is first.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from firthshot.jeffreys import JeffreysLogisticRegression, detect_separation

TOLERANCE = 1e-4  # relative: that of the source
ESTIMATES = [-0.4434562830, 3.6577140153, 0.6759781501, -0.8633119501, 0.3385788510]
ERRORS = [0.3452906671, 1.4822786334, 0.2687886213, 0.3874453554, 0.1370778814]
P_VALUES = [0.1997147194, 0.0002084147149, 0.0093173148959, 0.0236385713206, 0.0055887969164]
LOWER = [-1.16089382506, 1.3901042899, 0.1602568036, -1.6677883758, 0.0893054012]
UPPER = [0.2295139209, 8.5876062114, 1.2568999211, -0.1135186948, 0.6572681313]


@pytest.fixture(scope="module")
def quasi_separated():
    """Return the 100 rows of the source, drawn in its order: an indicator seen in one class."""
    rng, n = np.random.default_rng(42), 100
    columns = [
        rng.choice([0, 1], n, p=[0.8, 0.2]),
        rng.standard_normal(n),
        rng.uniform(-1, 1, n),
        rng.exponential(2.0, n),
    ]
    X = np.array(columns, dtype=float).T
    y = rng.binomial(1, expit(X @ [0.0, 0.8, -0.6, 0.3] - 0.5))
    return JeffreysLogisticRegression().fit(X, np.where(X[:, 0] == 1, 1, y))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (lambda model: model.params_, ESTIMATES),
        (lambda model: model.bse("augmented"), ERRORS),
        (lambda model: [test.p_value for test in model.test()], P_VALUES),
        (lambda model: model.conf_int()[:, 0], LOWER),
        (lambda model: model.conf_int()[:, 1], UPPER),
    ],
    ids=["estimates", "standard errors", "p-values", "lower bounds", "upper bounds"],
)
def test_numbers_of_logistf_in_firthmodels(quasi_separated, asked, expected):
    np.testing.assert_allclose(asked(quasi_separated), expected, rtol=TOLERANCE)


RISING, HALVES = [[1], [2], [3], [4], [5], [6]], [0, 0, 0, 1, 1, 1]
TWO = [[0, 0.5], [0, -0.2], [0, 0.8], [1, -0.5], [1, 0.3], [1, 0.1]]
DIRECTIONS = {  # columns, labels, whether with intercept, and the directions, intercept first
    "complete": (RISING, HALVES, True, ["-Inf", "+Inf"]),
    "overlap": ([[1], [1], [2], [2], [3], [3]], [0, 1] * 3, True, ["finite", "finite"]),
    "no intercept": (RISING, HALVES, False, ["finite"]),
    "falling": ([[4], [5], [6], [1], [2], [3]], HALVES, True, ["+Inf", "-Inf"]),
    "other labels": (RISING, [-1, -1, -1, 1, 1, 1], True, ["-Inf", "+Inf"]),
}


@pytest.mark.parametrize(("X", "y", "intercept", "expected"), DIRECTIONS.values(), ids=DIRECTIONS)
def test_directions_of_firthmodels(X, y, intercept, expected):
    found = detect_separation(X, y, fit_intercept=intercept)
    assert list(found.directions.values()) == expected


def test_a_second_column_of_a_separated_table():
    """The source says -Inf, one separating direction of many; the column may go either way."""
    found = detect_separation(TWO, HALVES)
    assert found.kind == "complete"
    assert list(found.directions.values()) == ["-Inf", "+Inf", "±Inf"]
