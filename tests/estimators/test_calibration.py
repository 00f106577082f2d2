"""The rounds of left-out rows, the temperature of a support set, and the defaults by the book."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from firthshot.estimators import FirthClassifier, FirthCosineClassifier
from firthshot.estimators._optimum import plain_logits
from firthshot.estimators._support import Support
from firthshot.estimators._temperature import (
    SURE,
    WORTH,
    rounds,
    share_of_support,
    support_temperature,
)
from firthshot.objective import log_softmax
from oracles.linear_optimum import draw


def support_of(X, y, weights=None):
    k = int(y.max()) + 1
    return Support(X, y, np.ones(len(y)) if weights is None else weights, np.full(k, 1 / k))


@pytest.mark.parametrize("counts", [(2,) * 10, (10, 10), (15, 3, 2), (40, 1, 5)])
def test_rounds_leave_out_every_row_once_and_never_a_class(counts):
    y = np.repeat(np.arange(len(counts)), counts)
    X = np.random.default_rng(0).normal(size=(len(y), 6))
    found = list(rounds(support_of(X, y)))
    expected = np.flatnonzero(np.array(counts)[y] > 1)
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), expected)
    for rows in found:
        left = np.bincount(y[rows], minlength=len(counts))
        assert (left < counts).all()
        assert (left <= np.ceil(np.array(counts) / min(5, max(counts)))).all()


def test_few_rows_are_not_asked_and_many_are_not_needed():
    X, y = np.random.default_rng(0).normal(size=(4, 3)), np.array([0, 0, 1, 1])
    assert WORTH > 4
    assert not list(rounds(support_of(X, y)))
    X, y = draw(2000, 4, 2)
    assert len(list(rounds(support_of(X, y)))) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_leave_together_whatever_their_order(dtype):
    X, y = draw(24, 8, 3)
    X = X.astype(dtype)
    rng = np.random.default_rng(3)
    rows = rng.permutation(np.repeat(np.arange(24), rng.integers(1, 4, 24)))
    once = {frozenset(left.tolist()) for left in rounds(support_of(X, y))}
    copied = {frozenset(rows[left].tolist()) for left in rounds(support_of(X[rows], y[rows]))}
    assert once == copied


LOGITS = np.array([[0.2, 0.1, 0.0], [0.0, 0.3, 0.1], [0.1, 0.0, 0.15], [0.5, 0.0, 0.0]])
LABELS = np.array([0, 1, 2, 2])  # the last is wrong
WEIGHTS = np.array([1.0, 2.0, 1.0, 5.0])


def cross_entropy(t, labels, weights):
    """Return that of labels smoothed to `SURE` and what a temperature makes of `LOGITS`."""
    targets = np.where(np.eye(3)[labels] > 0, SURE, (1 - SURE) / 2)
    return -weights @ (targets * log_softmax(LOGITS / t)).sum(1)


def test_the_head_is_nearly_certain_of_its_rows_where_plain_regression_learned_nothing():
    t = support_temperature(LOGITS, np.zeros((4, 3)), LABELS, WEIGHTS * [1, 1, 1, 0.01])
    losses = [cross_entropy(t * f, LABELS, WEIGHTS * [1, 1, 1, 0.01]) for f in (0.999, 1, 1.001)]
    assert losses[1] == min(losses)


def test_the_head_has_logits_as_large_as_plain_regression_where_that_learned_its_rows():
    right = np.array([True, True, True, False])
    certain = 60.0 * np.eye(3)[LABELS[right]]
    t = support_temperature(LOGITS[right], certain, LABELS[right], WEIGHTS[right])
    apart = (LOGITS[right] - LOGITS[right].mean(1, keepdims=True)) / t
    assert np.square(apart).sum(1) @ [0.25, 0.5, 0.25] == pytest.approx(60.0**2 * 2 / 3)


def test_without_a_reference_the_head_is_nearly_certain_of_its_rows():
    timid = support_temperature(LOGITS, np.zeros((4, 3)), LABELS, WEIGHTS)
    assert support_temperature(LOGITS, None, LABELS, WEIGHTS) == timid
    X, y = draw(5, 12, 5)
    model = FirthCosineClassifier().fit(X, y)
    certain = np.log(model.predict_proba(X)[np.arange(5), y]).mean()
    assert np.exp(certain) == pytest.approx(SURE, abs=0.02)


def test_a_head_that_tells_no_classes_apart_keeps_its_logits():
    assert support_temperature(np.ones((4, 3)), np.zeros((4, 3)), LABELS, np.ones(4)) == 1.0


def test_plain_logits_are_those_of_scikit_learn():
    X, y = draw(30, 12, 3)
    plain = plain_logits(support_of(X, y), tol=1e-9)
    theirs = LogisticRegression(tol=1e-10).fit(X, y).decision_function(X)
    assert_allclose(plain - plain.mean(1, keepdims=True), theirs, atol=2e-3)


def test_left_out_rows_count_the_more_there_are():
    assert share_of_support(0, 5) == 1.0
    assert share_of_support(20, 100) == 0.5
    assert share_of_support(1e6, 2) == 0.5
    assert share_of_support(180, 10) == 0.0


def test_the_defaults_are_the_stated_rules():
    X, y = draw(24, 40, 3)
    model = FirthClassifier(class_weight=None).fit(X, y)
    assert model.lam_ == pytest.approx((3 / 24) ** 2)
    eigenvalues = np.linalg.eigvalsh(np.cov(X.T, bias=True))
    directions = eigenvalues.sum() ** 2 / np.square(eigenvalues).sum()
    share = max(0.25, min(directions / 23, np.sqrt(3 / 24)))
    assert model.l2_ == pytest.approx(eigenvalues.sum() * share)
    assert (model.lam_source_, model.l2_source_) == ("shots", "scale")


def test_equal_rows_get_a_ridge_all_the_same():
    model = FirthClassifier().fit(np.ones((6, 2)), np.array([0, 0, 0, 1, 1, 1]))
    assert model.l2_ == 0.25
    np.testing.assert_allclose(model.predict_proba(np.ones((1, 2))), 0.5, atol=1e-6)
