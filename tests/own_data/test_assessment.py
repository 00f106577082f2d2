"""Left-out rows, the learning curve and comparisons, against plain computation."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from firthshot import FewShotClassifier
from firthshot.own_data.assessment import assess, expected_calibration_error
from firthshot.own_data.assessment.compare import rival_score
from firthshot.own_data.assessment.estimate import (
    CurvePoint,
    estimate_accuracy,
    learning_curve,
    shots_of,
)
from firthshot.own_data.assessment.rows import LabelledFit, LeftOutRows, leave_out, rounds_of


def made(counts, seed=0, noise=1.0, d=70):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(counts)), counts)
    X = 2 * np.eye(len(counts), d)[labels] + noise * rng.normal(size=(len(labels), d))
    return LabelledFit(FewShotClassifier(), X, labels, np.arange(len(counts)))


def test_rounds_are_disjoint_and_empty_no_class():
    task = made((2, 5, 12, 1))
    rounds = rounds_of(task)
    left = np.concatenate(rounds)
    assert len(left) == len(set(left.tolist())) == 19  # all but the single row
    for rows in rounds:
        kept = np.setdiff1d(np.arange(20), rows)
        assert set(task.labels[kept]) == {0, 1, 2, 3}


def test_copies_are_left_out_together():
    task = made((4, 4))
    X = task.features.copy()
    X[1] = X[0]
    copied = LabelledFit(task.estimator, X, task.labels, task.classes)
    assert copied.counts.tolist() == [3, 4]
    for rows in rounds_of(copied):
        assert (0 in rows) == (1 in rows)


def test_classes_count_alike_in_a_mean():
    task = made((1, 3))
    assert task.mean(np.array([1.0, 0, 0, 0]), np.array([0, 1, 1, 1])) == 0.5
    plain = LabelledFit(task.estimator, task.features, task.labels, task.classes, alike=False)
    assert plain.mean(np.array([1.0, 0, 0, 0]), np.array([0, 1, 1, 1])) == 0.25


def test_turned_rows_give_logistic_regression_the_same_answers():
    task = made((6, 6, 6))
    known, asked = np.arange(0, 18, 2), np.arange(1, 18, 2)
    plain = LogisticRegression().fit(task.features[known], task.labels[known])
    found = task.probabilities(known, asked, LogisticRegression())
    np.testing.assert_allclose(found, plain.predict_proba(task.features[asked]), atol=1e-4)
    assert task.turned.shape == (18, 18)


def test_the_curve_finds_its_own_shape():
    true = {m: 1 - 0.1 - 0.3 * m**-0.5 for m in (1, 2, 4, 8)}
    from firthshot.own_data.assessment.estimate import _fitted

    points = tuple(CurvePoint(m, accuracy, 0.001) for m, accuracy in true.items())
    curve = _fitted(points, 8.0)
    assert curve.floor == pytest.approx(0.1, abs=0.01)
    assert curve.slope == pytest.approx(0.3, abs=0.02)
    gain, doubt = curve.gain(8, 16)
    assert gain == pytest.approx(0.3 * (8**-0.5 - 16**-0.5), rel=0.1)
    assert doubt > 0


def test_the_curve_rises_and_expects_more_of_more_rows():
    task = made((16, 16, 16, 16), noise=1.5)
    left = leave_out(task, rounds_of(task))
    estimate, curve = estimate_accuracy(task, left)
    assert [point.shots for point in curve.points[:4]] == [1, 2, 4, 8]
    assert curve.accuracy(32) > curve.accuracy(16) > curve.accuracy(1)
    assert estimate.low < estimate.accuracy < estimate.high
    assert estimate.accuracy >= estimate.measured
    assert learning_curve(task, curve.points[-1]) == curve


def test_shots_are_the_harmonic_mean():
    assert shots_of(np.array([2, 2, 8])) == pytest.approx(3 / (0.5 + 0.5 + 0.125))


@pytest.mark.parametrize("counts", [(5, 5, 5, 5), (2, 3, 10, 10), (1, 4, 4, 4)])
def test_the_interval_holds_the_accuracy_of_new_rows(counts):
    inside = []
    for seed in range(10):
        task = made(counts, seed, noise=1.3)
        found = estimate_accuracy(task, leave_out(task, rounds_of(task)))[0]
        new = made((100,) * 4, seed + 100, noise=1.3)
        model = FewShotClassifier().fit(task.features, task.labels)
        accuracy = (model.predict(new.features) == new.labels).mean()
        inside.append(found.low <= accuracy <= found.high)
    assert np.mean(inside) >= 0.8


def test_a_rival_that_is_worse_is_said_to_be():
    task = made((20, 20))
    labels = task.labels
    right = np.eye(2)[labels] * 0.8 + 0.1
    ours = LeftOutRows(np.arange(40), labels, right)
    theirs = LeftOutRows(np.arange(40), labels, right[:, ::-1])
    score = rival_score(task, "worse", ours, theirs)
    assert score.points.mean == 1.0
    assert score.points.certain
    assert score.nats.mean == pytest.approx(np.log(9))
    same = rival_score(task, "same", ours, ours)
    assert same.points.mean == 0
    assert not same.points.certain


def test_rivals_follow_the_rows():
    names = [one.name for one in assess(made((6, 6))).rivals]
    assert names == ["LogisticRegression()", "nearest class mean", "λ = 0"]
    assert [one.name for one in assess(made((2, 8))).rivals][-1] == "no class weights"


def test_calibration_error_by_hand():
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    y = np.array([0, 1, 0, 1])
    # bins of 0.9 (two rows, one right), 0.6 (right), 0.8 (right)
    expected = (abs(1.8 - 1) + abs(0.6 - 1) + abs(0.8 - 1)) / 4
    assert expected_calibration_error(p, y) == pytest.approx(expected)


def test_doubts_name_the_planted_rows_first():
    task = made((10, 10, 10), noise=0.25)
    labels = task.labels.copy()
    labels[[0, 11]] = [1, 2]
    found = assess(LabelledFit(task.estimator, task.features, labels, task.classes)).doubts
    assert {one.row for one in found[:2]} == {0, 11}
    assert {one.other for one in found[:2]} == {0, 1}
