"""The temperature against a fine grid, its fallback, and what it does to probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from firthshot import load_bank
from firthshot.estimators import FirthClassifier
from firthshot.estimators._left_out import LeftOut
from firthshot.estimators._temperature import PSEUDO, fit_temperature, support_temperature
from firthshot.objective import log_softmax


def left_out(n=60, k=4, scale=3.0, seed=0):
    """Draw logits whose labels follow softmax(logits / scale)."""
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(n, k)) * 2
    p = np.exp(log_softmax(logits / scale))
    labels = np.array([rng.choice(k, p=row) for row in p])
    return LeftOut(np.arange(n), labels, rng.uniform(0.5, 2.0, n), logits)


def smoothed_loss(left, temperature):
    n, k = left.logits.shape
    rest = PSEUDO / (left.weights.sum() + 2 * PSEUDO)
    targets = np.full((n, k), rest / (k - 1))
    targets[np.arange(n), left.labels] = 1 - rest
    loss = -(targets * log_softmax(left.logits / temperature)).sum(1)
    return np.average(loss, weights=left.weights)


def test_no_other_temperature_fits_better():
    left = left_out()
    found = fit_temperature(left)
    grid = np.geomspace(0.05, 50, 4000)
    best = min(smoothed_loss(left, t) for t in grid)
    assert smoothed_loss(left, found) <= best + 1e-9


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_the_scale_of_the_logits_is_found_again(scale):
    assert fit_temperature(left_out(n=4000, scale=scale)) == pytest.approx(scale, rel=0.1)


def test_rows_that_are_all_right_do_not_demand_certainty():
    logits = np.eye(3)[[0, 1, 2, 0, 1, 2]]
    left = LeftOut(np.arange(6), logits.argmax(1), np.ones(6), logits)
    p = np.exp(log_softmax(logits / fit_temperature(left)))
    np.testing.assert_allclose(p.max(1), 1 - PSEUDO / (6 + 2 * PSEUDO), atol=1e-4)


def test_without_rows_the_temperature_is_one():
    none = np.empty(0, int)
    assert fit_temperature(LeftOut(none, none, np.empty(0), np.empty((0, 3)))) == 1.0


def episode(ways, shots, seed, queries=15):
    """Draw support and query sets from the base and validation classes of the embedded bank."""
    bank = load_bank("clinc150-minilm")
    rng = np.random.default_rng((ways, shots, seed))
    classes = bank.class_rows("base") + bank.class_rows("val")
    picks = [
        rng.choice(classes[c], shots + queries, replace=False)
        for c in rng.choice(len(classes), ways, replace=False)
    ]
    halves = [
        np.concatenate([p[part] for p in picks]) for part in (slice(shots), slice(shots, None))
    ]
    X, Q = (np.asarray(bank.features[rows], np.float64) for rows in halves)
    return X, np.repeat(np.arange(ways), shots), Q, np.repeat(np.arange(ways), queries)


def scores(p, y):
    """Return nll and the calibration error in 15 bins of equal width."""
    confidence, right = p.max(1), p.argmax(1) == y
    bins = np.minimum((confidence * 15).astype(int), 14)
    gaps = [
        abs((right[bins == k] - confidence[bins == k]).sum())
        for k in range(15)
        if (bins == k).any()
    ]
    return -np.log(p[np.arange(len(y)), y]).mean(), sum(gaps) / len(y)


@pytest.mark.parametrize(("ways", "shots"), [(5, 1), (5, 2), (5, 10), (20, 5)])
def test_calibrated_probabilities_are_better_on_new_rows(ways, shots):
    plain, calibrated = [], []
    for seed in range(4):
        X, y, Q, truth = episode(ways, shots, seed)
        for calibrate, found in ((False, plain), (True, calibrated)):
            model = FirthClassifier(lam=1.0, l2=1.0, calibrate=calibrate).fit(X, y)
            found.append(scores(model.predict_proba(Q), truth))
    assert (np.mean(calibrated, axis=0) < np.mean(plain, axis=0)).all()


def test_calibration_changes_probabilities_and_no_prediction():
    X, y, Q, _ = episode(5, 3, 0)
    plain = FirthClassifier(lam=1.0, l2=1.0, calibrate=False).fit(X, y)
    model = FirthClassifier(lam=1.0, l2=1.0, calibrate=True).fit(X, y)
    assert plain.temperature_ == 1.0 != model.temperature_
    np.testing.assert_allclose(model.decision_function(Q), plain.decision_function(Q), atol=1e-9)
    assert (model.predict(Q) == plain.predict(Q)).all()
    expected = log_softmax(plain.decision_function(Q) / model.temperature_)
    np.testing.assert_allclose(model.predict_log_proba(Q), expected, atol=1e-9)


def test_a_row_that_is_right_by_a_hair_does_not_ask_for_certainty():
    """Its probability stays near one half whatever the temperature, so it has no say."""
    labels = np.repeat([0, 1], 5)
    logits = np.where(np.eye(2)[labels] > 0, 1.0, 0.0)
    even = support_temperature(logits, None, labels, np.ones(10))
    logits[0] = [1e-6, 0.0]
    one_by_a_hair = support_temperature(logits, None, labels, np.ones(10))
    assert even == pytest.approx(1 / np.log(19))
    assert one_by_a_hair == pytest.approx(even, rel=1e-4)
