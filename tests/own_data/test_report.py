"""What a fit says of itself: remarks on data made to deserve them, sentences, settings."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import firthshot
from firthshot import load_bank
from firthshot.cli.fit import show_report
from firthshot.estimators import FewShotClassifier, FirthClassifier
from firthshot.own_data import Examples, answer_lines, report_fit, title_line
from firthshot.own_data._remarks import remarks
from firthshot.own_data._report import firth_words
from firthshot.own_data.assessment.compare import Gain, RivalScore
from firthshot.own_data.page import answer_of


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


def report(examples, head="auto", **parameters):
    made = FewShotClassifier if head == "auto" else FirthClassifier
    model = made(**parameters).fit(examples.features, examples.labels)
    return report_fit(model, examples, head)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("power", "normalised powers 3/4 of the features"),
        ("unit", "normalised features"),
        ("scaled", "columns on one scale"),
        ("plain", "the rows as they are"),
    ],
)
def test_the_blend_says_what_was_done_to_rows(columns, words):
    found = report(clusters((4, 4, 4)), columns=columns)
    assert found.why[0].endswith(f"on {words}.")


def test_left_out_scores_are_those_of_refitting_without_a_round():
    examples = clusters((4, 4, 4))
    found = report(examples, "linear", lam=0.5, l2=2.0)
    assert found.counts == {"c0": 4, "c1": 4, "c2": 4}
    assert (found.settings["lam"], found.settings["l2"]) == (0.5, 2.0)
    left = found.assessment.left
    assert sorted(left.rows) == list(range(12))
    first = left.rows[:3]  # a round has one row of each class
    kept = np.setdiff1d(np.arange(12), first)
    again = FirthClassifier(lam=0.5, l2=2.0).fit(examples.features[kept], examples.labels[kept])
    np.testing.assert_allclose(
        left.probabilities[:3], again.predict_proba(examples.features[first]), atol=1e-6
    )


def test_the_classes_mixed_up_most_are_named():
    examples = clusters((8, 8, 8), noise=0.1)
    swapped = examples.labels.copy()
    swapped[[0, 1]] = "c2"  # two rows of c0 that call themselves c2
    found = report(changed(examples, labels=swapped))
    mixed = found.assessment.mixed_up
    assert (mixed.one, mixed.other, mixed.other_as_one) == ("c0", "c2", 2)
    lines = dict(answer_lines(found))
    assert lines["confused"] == "'c2' taken for 'c0' twice."
    assert lines["labels"].startswith("2 look wrong. First: row ")
    assert {one.row for one in found.assessment.doubts} == {0, 1}
    swapped[[8, 9, 10]] = "c0"
    more = dict(answer_lines(report(changed(examples, labels=swapped.copy()))))
    assert more["confused"] == "'c0' taken for 'c1' 3 times, the reverse once; 2 other mistakes."


def test_one_row_per_class_has_no_left_out_scores():
    found = report(clusters((1, 1, 1)))
    assert found.assessment is None
    assert found.to_dict()["assessment"] is None
    assert "have one example each" in found.remarks[-1]
    assert "every class has one row" in dict(answer_lines(found))["accuracy"]


def test_the_answer_has_every_line():
    lines = dict(answer_lines(report(clusters((6, 6, 6)))))
    names = ["head", "accuracy", "compared", "Firth", "confused", "labels", "more rows"]
    assert list(lines) == names
    assert "expected of new rows" in lines["accuracy"]
    assert "LogisticRegression()" in lines["compared"]
    assert "nearest class mean" in lines["compared"]
    assert lines["compared"].startswith("Fitted to fewer rows and tested on the rest: this head ")
    assert "against λ = 0" in lines["Firth"]
    assert lines["Firth"].endswith("no practical difference.")
    assert title_line(report(clusters((6, 7)))) == "made: 13 rows, 6 features, 2 classes of 6 to 7"


@pytest.mark.parametrize("head", ["auto", "linear"])
def test_many_classes_of_few_rows_are_not_judged_too_harshly(head):
    """Defect 2: a class that lost a row lost weight too; 70.6 % were printed, new rows had 80.

    Here plain leave-one-out has 72 %, and new rows 84 %.
    """
    bank, rng = load_bank("clinc150-minilm"), np.random.default_rng(0)
    groups = [rng.permutation(rows) for rows in bank.class_rows("novel")]
    known, new = (
        np.concatenate([rows[part] for rows in groups]) for part in (np.s_[:3], np.s_[3:23])
    )
    X, held = (np.asarray(bank.features[rows], np.float32) for rows in (known, new))
    model = firthshot.fit(X, bank.labels[known], head=head)
    right = float((model.predict(held) == bank.labels[new]).mean())
    found = model.answer.assessment.estimate
    assert found.low < right < found.high
    assert abs(found.accuracy - right) < 0.04
    assert abs(found.measured - right) < 0.04


def test_copies_and_contradictions_agree_with_the_remarks():
    examples = clusters((2, 4), noise=0.1)
    X = examples.features.copy()
    X[1] = X[0]
    found = dict(answer_lines(report(changed(examples, features=X))))
    assert "1 class has one row but for copies and cannot be left out" in found["accuracy"]
    X = np.concatenate([examples.features[:1]] * 4)
    copies = report(Examples("made", X + np.array([[0], [0], [1], [1]]), np.array(list("aabb"))))
    assert "every class has one row but for copies" in dict(answer_lines(copies))["accuracy"]
    far = clusters((6, 6), noise=0.1)
    X = far.features.copy()
    X[[0, 11]] = 0.5 * (X[1] + X[7])
    words = dict(answer_lines(report(changed(far, features=X))))["labels"]
    assert words == "1 group of equal rows with different labels."


def test_guessing_is_named_where_the_fit_is_no_better():
    noise = Examples(
        "made", np.random.default_rng(0).normal(size=(24, 6)), clusters((12, 12)).labels
    )
    found = report(noise)
    assert "Guessing gets 50 %." in dict(answer_lines(found))["accuracy"]
    headline = answer_of(found)
    assert headline["tone"] == "plain"
    assert re.fullmatch(
        r"Between \d+ and \d+ of 100 new rows will be right, probably about \d+\. "
        r"Guessing gets 50 %\.",
        headline["words"],
    )
    assert "Guessing" not in answer_of(report(clusters((9, 9), noise=0.1)))["words"]


def test_a_gain_stays_within_what_there_is():
    tiny = report(clusters((2, 2), noise=1.5)).assessment
    assert all(-1 <= one.points.low <= one.points.high <= 1 for one in tiny.rivals)


def test_classes_of_one_row_are_counted_and_said():
    """Defect 3: 88.9 % were printed where new rows had 61, because such classes were left away."""
    rng = np.random.default_rng(1)
    counts = (6, 6, 6, 1, 1, 1)
    examples = clusters(counts, d=80, noise=0.9)
    found = report(examples).assessment.estimate
    assert found.single == 3
    centres = 2 * np.eye(6, 80)
    new = np.repeat(centres, 200, axis=0) + 0.9 * rng.normal(size=(1200, 80))
    model = FewShotClassifier().fit(examples.features, examples.labels)
    truth = np.repeat([f"c{k}" for k in range(6)], 200)
    held_out = (model.predict(new) == truth).mean()
    assert found.low <= held_out <= found.high
    assert found.accuracy < found.measured
    assert "3 classes have one row" in dict(answer_lines(report(examples)))["accuracy"]


def test_many_rows_are_left_out_in_parts():
    """Defect 10: beyond 600 rows there was no estimate at all."""
    found = report(clusters((700, 700))).assessment
    assert len(found.left) >= 1000
    assert found.estimate.high - found.estimate.low < 0.1


def test_nothing_is_said_of_ordinary_rows():
    assert said(clusters((5, 5))) == ""


def test_single_examples_and_imbalance():
    assert "Class 'c1' has one example" in said(clusters((12, 1)))
    sentence = "Classes have 2 to 8 examples and count alike; if new data will be as uneven"
    assert sentence in " ".join(report(clusters((8, 2, 2))).remarks)
    assert sentence not in " ".join(report(clusters((8, 2, 2)), class_prior="training").remarks)


def test_nearly_equal_classes_are_not_worth_a_word():
    """Defect 11: a million rows in classes of nearly one size got the sentence too."""
    counts = np.array([99_990, 100_010])
    classes = np.array(["a", "b"])
    assert remarks(clusters((5, 5)), classes, counts, balanced=True) == []


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
    assert words.startswith("Row 2 and row 7 are equal but labelled 'c0' and 'c1'")
    assert "1 row is a copy" in words


def test_pictures_are_called_by_their_files():
    """Defect 5: photos were named by row number."""
    examples = clusters((4, 4))
    X = examples.features.copy()
    X[6] = X[1]
    ids = np.array([f"photos/{label}/{i}.jpg" for i, label in enumerate(examples.labels)])
    pictures = changed(examples, features=X, ids=ids, kind="image", source="photos/")
    assert said(pictures).startswith("c0/1.jpg and c1/6.jpg are equal but labelled")


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


@pytest.mark.parametrize("bad", [0.0, 1.0, -1.0])
def test_a_rate_that_is_none_is_refused(bad):
    from firthshot.errors import FirthshotError
    from firthshot.own_data.novelty import fit_novelty

    examples = clusters((6, 6))
    novelty = fit_novelty(examples.features, examples.coded_labels()[1])
    with pytest.raises(FirthshotError, match="rate of false alarms"):
        novelty.threshold(bad)
    with pytest.raises(FirthshotError, match="needs 99 rows"):
        novelty.threshold(0.01)


def test_the_answer_fits_a_terminal_with_long_names_too():
    examples = clusters((20,) * 5, noise=4.0)
    long = np.array([f"Black throated Sparrow {name}" for name in examples.labels])
    files = np.array([f"{name}/{name.replace(' ', '_')}_0083_111470.jpg" for name in long])
    found = report(changed(examples, labels=long, ids=files, kind="image"))
    assert found.assessment.doubts
    console = Console(width=80, file=io.StringIO())
    show_report(console, found)
    assert len(console.file.getvalue().splitlines()) <= 14  # and two on what was written


def test_a_gain_of_no_use_is_said_to_be_none():
    found = report(clusters((8, 8, 8))).assessment
    same = RivalScore("λ = 0", 0.9, found.log_loss, Gain(0.0, 0.0, 0.0), Gain(1e-4, 5e-5, 2e-4))
    assert firth_words(replace(found, rivals=(same,))).endswith("no practical difference.")
    more = replace(same, nats=Gain(0.02, 0.01, 0.03))
    assert "it helps here" in firth_words(replace(found, rivals=(more,)))
    unsure = replace(same, nats=Gain(0.02, -0.01, 0.05))
    assert "not distinguishable from nothing" in firth_words(replace(found, rivals=(unsure,)))
