"""Values, gradients and curvature against 50 digits, up to logits of ±1e4.

The references are the definitions, written out in mpmath, not our formulas.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firthshot.objective import PENALTIES, SampleLoss, log_softmax
from oracles.penalties import registered_cases

PRIOR = [0.5, 0.0, 0.3, 0.2]
LOGITS = [
    [1e4, -1e4, 0.0, 1.0],
    [-1e4, -1e4, -1e4, -1e4],
    [1e4, 1e4, -1e4, -1e4],
    [1e4, 1e4 - 1, 1e4 - 2, 1e4 - 40],
    [-1e4, 1e4, -1e4, -1e4],
    [0.0, 0.0, 0.0, 0.0],
    [0.1, -0.2, 0.3, 7.5],
    [745.0, 0.0, -745.0, 30.0],
    [1e-9, 0.0, -1e-9, 2e-9],
]
LABELS = [1, 2, 3, 0, 1, 0, 2, 0, 3]


def probabilities(z):
    top = max(z)
    powers = [mpmath.exp(mpmath.mpf(x) - mpmath.mpf(top)) for x in z]
    return [power / mpmath.fsum(powers) for power in powers]


def cross_entropy(target, p):
    return -mpmath.fsum(t * mpmath.log(q) for t, q in zip(target, p, strict=True) if t)


def kl(a, b):
    pairs = zip(a, b, strict=True)
    return mpmath.fsum(x * mpmath.log(x / y) for x, y in pairs if x)


def one_hot(y):
    return [mpmath.mpf(int(j == y)) for j in range(4)]


def smoothed(y):
    epsilon = mpmath.mpf(0.3)
    return [
        (1 - epsilon) * t + epsilon * mpmath.mpf(a) for t, a in zip(one_hot(y), PRIOR, strict=True)
    ]


UNIFORM = [mpmath.mpf(1) / 4] * 4
HALF = [mpmath.mpf(a) for a in PRIOR]
REFERENCES = {
    "cross-entropy": (SampleLoss(), lambda p, y: cross_entropy(one_hot(y), p)),
    "label-smoothing": (
        PENALTIES["label-smoothing"].loss(0.3, PRIOR),
        lambda p, y: cross_entropy(smoothed(y), p),
    ),
    "towards-uniform": (SampleLoss(0, 1), lambda p, y: cross_entropy(UNIFORM, p)),
    "towards-prior": (SampleLoss(0, 1, 0, PRIOR), lambda p, y: cross_entropy(HALF, p)),
    "confidence": (SampleLoss(0, 0, 1), lambda p, y: kl(p, UNIFORM)),
    "firth": (
        PENALTIES["firth"].loss(2.5),
        lambda p, y: cross_entropy(one_hot(y), p) + 2.5 * cross_entropy(UNIFORM, p),
    ),
}


def close(ours, reference, tolerance=1e-12):
    error = abs(mpmath.mpf(float(ours)) - reference)
    return np.isfinite(ours) and error <= tolerance * (1 + abs(reference))


def slope(function, z, direction):
    """Differentiate along a direction by central differences with 80 digits to spare."""
    with mpmath.workdps(120):
        h = mpmath.mpf(10) ** -40
        ahead = [mpmath.mpf(x) + h * d for x, d in zip(z, direction, strict=True)]
        behind = [mpmath.mpf(x) - h * d for x, d in zip(z, direction, strict=True)]
        return (function(ahead) - function(behind)) / (2 * h)


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("row", range(len(LOGITS)))
class TestAgainstFiftyDigits:
    def test_value(self, name, row):
        term, reference = REFERENCES[name]
        with mpmath.workdps(50):
            exact = reference(probabilities(LOGITS[row]), LABELS[row])
            ours = term.value(np.array([LOGITS[row]]), [LABELS[row]])[0]
            assert close(ours, exact), (ours, exact)

    def test_gradient(self, name, row):
        term, reference = REFERENCES[name]
        ours = term.gradient(np.array([LOGITS[row]]), [LABELS[row]])[0]
        for k in range(4):
            exact = slope(
                lambda z: reference(probabilities(z), LABELS[row]), LOGITS[row], np.eye(4)[k]
            )
            assert close(ours[k], exact), (k, ours[k], exact)

    def test_hessian_product(self, name, row):
        term, reference = REFERENCES[name]
        v = [0.5, -2.0, 1.0, 3.0]
        ours = term.hessian_product(np.array([LOGITS[row]]), np.array([v]))[0]

        def gradient(z, k):
            return slope(lambda x: reference(probabilities(x), LABELS[row]), z, np.eye(4)[k])

        for k in range(4):
            with mpmath.workdps(120):
                h = mpmath.mpf(10) ** -15
                ahead = [mpmath.mpf(x) + h * d for x, d in zip(LOGITS[row], v, strict=True)]
                behind = [mpmath.mpf(x) - h * d for x, d in zip(LOGITS[row], v, strict=True)]
                exact = (gradient(ahead, k) - gradient(behind, k)) / (2 * h)
            assert close(ours[k], exact, 1e-11), (k, ours[k], exact)


def test_a_confident_right_prediction_keeps_the_digits_of_its_loss():
    z = np.array([[60.0, 0.0, -1.0]])
    with mpmath.workdps(50):
        tail = mpmath.exp(-60) + mpmath.exp(-61)
        exact, slope_exact = mpmath.log1p(tail), -tail / (1 + tail)
    np.testing.assert_allclose(SampleLoss().value(z, [0])[0], float(exact), rtol=1e-14)
    np.testing.assert_allclose(SampleLoss().gradient(z, [0])[0, 0], float(slope_exact), rtol=1e-14)


@settings(deadline=None)
@given(st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=8))
def test_log_softmax_is_a_finite_log_distribution_of_the_same_gaps(z):
    log_p = log_softmax([z])[0]
    assert np.isfinite(log_p).all()
    assert (log_p <= 0).all()
    np.testing.assert_allclose(np.exp(log_p).sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(np.diff(log_p), np.diff(z), atol=1e-11)


@settings(deadline=None)
@given(st.lists(st.floats(-1e4, 1e4), min_size=4, max_size=4))
@pytest.mark.parametrize("case", registered_cases(), ids=str)
def test_losses_are_finite_and_never_negative(case, z):
    loss = case.loss(PRIOR)
    value, gradient = loss.value([z], [1]), loss.gradient([z], [1])
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()
    assert value[0] >= -1e-14


@pytest.mark.parametrize("name", REFERENCES)
def test_float32_survives_the_same_extremes(name):
    term, _ = REFERENCES[name]
    z = np.array(LOGITS, dtype=np.float32)
    for method in ("value", "gradient"):
        result = getattr(term, method)(z, LABELS)
        assert result.dtype == np.float32
        assert np.isfinite(result).all()
    assert np.isfinite(term.hessian_product(z, np.ones_like(z) * [1, -1, 2, 0])).all()
