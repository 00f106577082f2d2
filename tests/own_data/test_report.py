"""Left-out scores by the textbook, and remarks on data made to deserve them."""

from __future__ import annotations

import numpy as np
import pytest

from firthshot.estimators import FirthClassifier
from firthshot.own_data import Examples, report_fit
from firthshot.own_data._remarks import remarks
from firthshot.own_data._report import _scores, _worse, expected_calibration_error


def clusters(counts, d=6, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    labels = np.repeat([f"c{k}" for k in range(len(counts))], counts)
    centres = 2 * np.eye(len(counts), d)
    rows = np.repeat(np.arange(len(counts)), counts)
    return Examples("made", centres[rows] + noise * rng.normal(size=(len(rows), d)), labels)


def said(examples):
    classes, counts = np.unique(examples.labels, return_counts=True)
    return " ".join(remarks(examples, classes, counts))


def changed(examples, **what):
    return Examples(**{**examples.__dict__, **what})


def test_left_out_scores_are_those_of_refitting():
    examples = clusters((4, 4, 5))
    model = FirthClassifier(lam=0.5, l2=2.0).fit(examples.features, examples.labels)
    report = report_fit(model, examples, "linear")
    right = []
    for i in range(len(examples)):
        kept = np.arange(len(examples)) != i
        again = FirthClassifier(lam=0.5, l2=2.0, calibrate=False)
        again.fit(examples.features[kept], examples.labels[kept])
        right.append(again.predict(examples.features[i : i + 1])[0] == examples.labels[i])
    assert report.left_out.rows == 13
    assert report.left_out.accuracy == pytest.approx(np.mean(right))
    assert report.counts == {"c0": 4, "c1": 4, "c2": 5}
    assert (report.lam, report.l2) == (0.5, 2.0)


def test_the_classes_mixed_up_most_are_named():
    examples = clusters((8, 8, 8), noise=0.1)
    swapped = examples.labels.copy()
    swapped[[0, 1]] = "c2"  # two rows of c0 that call themselves c2
    model = FirthClassifier().fit(examples.features, swapped)
    mixed = report_fit(model, changed(examples, labels=swapped), "linear").mixed_up
    assert (mixed.one, mixed.other) == ("c0", "c2")
    assert mixed.other_as_one >= 2


def test_one_row_per_class_has_no_left_out_scores():
    examples = clusters((1, 1, 1))
    model = FirthClassifier().fit(examples.features, examples.labels)
    report = report_fit(model, examples, "linear")
    assert report.left_out is None
    assert report.mixed_up is None
    assert "have one example each" in report.remarks[-1]


def test_calibration_error_by_hand():
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    y = np.array([0, 1, 0, 1])
    # bins of 0.9 (two rows, one right), 0.6 (right), 0.8 (right)
    expected = (abs(1.8 - 1) + abs(0.6 - 1) + abs(0.8 - 1)) / 4
    assert expected_calibration_error(p, y) == pytest.approx(expected)


def test_nothing_is_said_of_ordinary_rows():
    assert said(clusters((5, 5))) == ""


def test_single_examples_and_imbalance():
    assert "Class 'c1' has one example" in said(clusters((12, 1)))
    sentence = "Classes have 2 to 8 examples and count alike; if new data will be as uneven"
    for counts, weight, expected in (
        ((8, 2, 2), "balanced", True),
        ((8, 2, 2), None, False),
        ((5, 5, 5), "balanced", False),
    ):
        examples = clusters(counts)
        model = FirthClassifier(class_weight=weight).fit(examples.features, examples.labels)
        told = " ".join(report_fit(model, examples, "linear").remarks)
        assert (sentence in told) is expected


def test_names_that_are_probably_one_class():
    examples = clusters((4, 4))
    labels = np.array([" Cat " if label == "c0" else "cat" for label in examples.labels])
    assert "Classes ' Cat ' and 'cat' differ only in" in said(changed(examples, labels=labels))


def test_equal_rows_with_different_labels_come_first():
    examples = clusters((4, 4))
    X = examples.features.copy()
    X[6] = X[1]
    X[3] = X[0]
    words = said(changed(examples, features=X))
    assert words.startswith("Rows 2 and 7 are equal but labelled 'c0' and 'c1'")
    assert "1 row is a copy" in words


def test_columns_that_are_no_features():
    examples = clusters((5, 5), d=6)
    X = examples.features.copy()
    X[:, 1] = 7.0
    X[:, 2] = np.arange(10)
    X[:, 3] *= 1000
    names = ("a", "const", "Unnamed: 0", "wide", "e", "f")
    words = said(changed(examples, features=X, names=names))
    assert "Column 'const' has the same value" in words
    assert "Column 'Unnamed: 0' counts the rows" in words
    assert "Column 'wide' varies so much more than most others that it decides alone" in words


def test_columns_of_an_embedding_are_nobodys_to_mend():
    examples = clusters((5, 5), d=100)
    X = examples.features.copy()
    X[:, 1] = 7.0
    assert "same value" not in said(changed(examples, features=X))
    narrow = changed(examples, features=X[:, :10])
    assert "same value" in said(narrow)
    assert "same value" not in said(changed(narrow, encoder="an encoder"))


def test_a_temperature_that_makes_things_worse_is_said():
    logits, labels = np.array([[2.0, 0.0], [0.0, 2.0], [1.5, 0.0]]), np.array([0, 1, 0])
    worse, better = (list(_worse(_scores(logits, labels, t))) for t in (5.0, 0.5))
    assert worse[0].arguments == ("no_calibrate",)
    assert better == []
    assert list(_worse(None)) == []


def test_copies_matter_where_rows_were_left_out():
    examples = clusters((5, 5))
    features, labels = examples.features.copy(), examples.labels
    features[1] = features[0]
    counts, copied = np.array([5, 5]), changed(examples, features=features)
    words = "1 row is a copy of another with the same label"
    assert any(words in one for one in remarks(copied, np.unique(labels), counts))
    assert not any(
        words in one for one in remarks(copied, np.unique(labels), counts, left_out=False)
    )


def test_a_column_far_from_zero_is_named_for_the_cosine_head():
    examples = clusters((5, 5))
    far = changed(examples, features=examples.features + np.array([0, 0, 500.0, 0, 0, 0]))
    classes, counts = np.unique(far.labels, return_counts=True)
    (sentence,) = remarks(far, classes, counts, directions=True)
    assert sentence.startswith("Column '3' is so far from zero")
    assert remarks(far, classes, counts) == []
    assert remarks(far, classes, counts, directions=True, standardized=True) == []
