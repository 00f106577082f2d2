"""`firthshot.fit` in Python: what it takes, what it answers, and how a model grows and is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import firthshot
from firthshot.cli import app
from firthshot.errors import FirthshotError
from firthshot.estimators import FewShotClassifier, FirthClassifier
from own_data.small_encoders import WORDS

CENTRES = 3 * np.eye(3, 80)


def rows(counts=(8, 8, 8), seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(counts)), counts)
    X = CENTRES[labels] + noise * rng.normal(size=(len(labels), 80))
    return X, np.array(["ant", "bee", "cat"])[labels]


def command(*words: object) -> Any:
    """Run a command; an error is raised."""
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_arrays_frames_folders_lists_and_tables_are_taken(photos: Path, intents: Path) -> None:
    X, y = rows()
    assert (firthshot.fit(X, y).predict(X) == y).all()
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(80)])
    model = firthshot.fit(frame.with_columns(label=pl.Series(y)))
    assert (model.predict(frame) == y).all()
    pictures = firthshot.fit(photos)
    files = sorted(photos.glob("*/0.png"))
    assert pictures.predict(files).tolist() == ["blue", "green", "red"]
    assert pictures.predict(str(files[0])).tolist() == ["blue"]
    listed = firthshot.fit(files * 2, ["b", "g", "r"] * 2)
    assert listed.predict(files).tolist() == ["b", "g", "r"]
    texts = firthshot.fit(pl.read_csv(intents), text="text")
    assert texts.predict(["card card", "bread"]).tolist() == ["about card", "about bread"]
    assert texts.predict("rain, please").tolist() == ["about rain"]
    assert firthshot.fit(intents).predict_proba(["rain"]).argmax() == 2


def test_pandas_frames_are_taken() -> None:
    pd = pytest.importorskip("pandas")
    X, y = rows()
    frame = pd.DataFrame(X[:, :5], columns=list("abcde"))
    model = firthshot.fit(frame.assign(label=y))
    assert (model.predict(frame) == firthshot.fit(X[:, :5], y).predict(X[:, :5])).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda X, y: firthshot.fit(X), "give y"),
        (lambda X, y: firthshot.fit(X, y[:3]), "one label for each of 24"),
        (lambda X, y: firthshot.fit(X[:, 0], y), "are none"),
        (lambda X, y: firthshot.fit([["a", "b"]], ["c"]), "are no numbers"),
        (lambda X, y: firthshot.fit(X, y, head="tree"), "Head 'tree' is unknown"),
        (lambda X, y: firthshot.fit(X, y, depth=3), "has no parameter depth"),
        (lambda X, y: firthshot.fit(X, y, class_weight="even"), "choose 'balanced' or 'none'"),
        (lambda X, y: firthshot.fit("photos/", y), "leave out y"),
        (lambda X, y: firthshot.fit("nodir/"), r"^There is no folder nodir/"),
        (lambda X, y: firthshot.fit(X, y).update(X, y, head="mlp"), "takes no head"),
    ],
)
def test_what_cannot_be_fitted_is_said(call, words) -> None:
    with pytest.raises(FirthshotError, match=words):
        call(*rows())


def test_the_default_head_is_few_shot_and_others_are_by_name() -> None:
    X, y = rows()
    assert isinstance(firthshot.fit(X, y).estimator, FewShotClassifier)
    linear = firthshot.fit(X, y, head="linear", lam=0.5)
    assert isinstance(linear.estimator, FirthClassifier)
    assert linear.estimator.lam_ == 0.5


def test_the_answer_shows_in_a_notebook_and_is_escaped() -> None:
    X, y = rows()
    model = firthshot.fit(X, np.where(y == "ant", "<b>ant", y))
    shown = model._repr_html_()
    assert "expected of new rows" in shown
    assert "<b>ant" not in shown
    assert "expected of new rows" in str(model)


def test_a_saved_model_is_the_same_and_can_be_assessed_again(tmp_path: Path) -> None:
    X, y = rows(noise=1.5)
    model = firthshot.fit(X, y)
    model.save(tmp_path / "m.firth")
    again = firthshot.load(tmp_path / "m.firth")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert str(again) == str(model)
    assert again.report().startswith("<!DOCTYPE html>") or "<!DOCTYPE html>" in again.report()
    np.testing.assert_allclose(again.novelty_score(X), model.novelty_score(X))


def test_files_of_estimators_without_rows_are_read(tmp_path: Path) -> None:
    X, y = rows()
    FirthClassifier().fit(X, y).save(tmp_path / "old.firth")
    old = firthshot.load(tmp_path / "old.firth")
    assert (old.predict(X) == y).all()
    for use in (
        lambda: old.novelty_score(X),
        lambda: old.update(X, y),
        lambda: str(old),
        lambda: old.predict(X, unknown=0.05),
    ):
        with pytest.raises(FirthshotError, match="saved without its rows"):
            use()


def test_rows_can_be_left_out_of_the_file(tmp_path: Path) -> None:
    X, y = rows()
    model = firthshot.fit(X, y, head="linear")
    model.save(tmp_path / "with.firth")
    model.save(tmp_path / "without.firth", rows=False)
    sizes = [(tmp_path / name).stat().st_size for name in ("with.firth", "without.firth")]
    assert sizes[0] > sizes[1] + X.nbytes
    with pytest.raises(FirthshotError, match="predicts from its rows"):
        firthshot.fit(X, y).save(tmp_path / "auto.firth", rows=False)


def test_texts_are_not_kept(intents: Path, tmp_path: Path) -> None:
    firthshot.fit(intents).save(tmp_path / "m.firth")
    assert b"number 3" not in (tmp_path / "m.firth").read_bytes()


def test_damaged_rows_are_refused(tmp_path: Path) -> None:
    X, y = rows()
    model = firthshot.fit(X, y)
    model.save(tmp_path / "m.firth")
    for support in (
        {"features": X[:, :3], "labels": np.zeros(24)},
        {"features": X, "labels": np.full(24, 9.0)},
        {"features": X},
    ):
        model.estimator.support_ = support
        model.estimator.save(tmp_path / "bad.firth")
        with pytest.raises(FirthshotError, match="rows that it keeps do not fit"):
            firthshot.load(tmp_path / "bad.firth")


def test_a_model_grows_without_its_old_rows(tmp_path: Path) -> None:
    X, y = rows(noise=1.2)
    firthshot.fit(X[:16], y[:16]).save(tmp_path / "m.firth")
    grown = firthshot.load(tmp_path / "m.firth").update(X[14:], y[14:])
    changes = grown.changes
    assert (changes.added, changes.repeated, changes.new_classes) == (8, 2, ("cat",))
    assert "8 rows added. 2 were there already. 1 new class." in str(changes)
    at_once = firthshot.fit(X, y)
    np.testing.assert_allclose(grown.predict_proba(X), at_once.predict_proba(X), atol=1e-6)
    before = firthshot.fit(X[:16], y[:16])
    flipped = {name for name, _, _ in changes.flipped}
    moved = np.flatnonzero(before.predict(X[:16]) != grown.predict(X[:16]))
    assert flipped == {f"row {i + 1}" for i in moved}


def test_the_command_grows_a_model(photos: Path) -> None:
    run = CliRunner().invoke
    assert run(app, ["fit", str(photos), "--model", "m.firth"]).exit_code == 0
    more = photos.rename("more")
    said = run(app, ["fit", str(more), "--update", "m.firth"])
    assert said.exit_code == 0, said.output
    assert "0 rows added. 15 were there already." in " ".join(said.output.split())
    refused = run(app, ["fit", str(more), "--update", "m.firth", "--lam", "1"])
    assert "keeps the settings" in str(refused.exception)


def test_rows_of_no_class_are_unknown() -> None:
    rng = np.random.default_rng(5)
    model = firthshot.fit(*rows((20, 20, 20)))
    ordinary, y = rows((200, 200, 200), seed=9)
    strange = 3 * np.eye(80)[10] + 0.5 * rng.normal(size=(100, 80))
    called = model.predict(strange, unknown=0.05)
    assert (called == "unknown").mean() > 0.95
    alarms = (model.predict(ordinary, unknown=0.05) == "unknown").mean()
    assert alarms < 0.1
    assert (model.predict(ordinary) == y).all()
    assert model.novelty_score(strange).min() > np.median(model.novelty_score(ordinary))


def test_left_out_novelty_is_that_of_refitting() -> None:
    from firthshot.own_data.novelty import fit_novelty

    X, y = rows((4, 5, 1), noise=2.0)
    labels = np.unique(y, return_inverse=True)[1]
    slow = [
        fit_novelty(np.delete(X, i, 0), np.delete(labels, i)).score(X[i : i + 1])[0]
        for i in range(9)
    ]
    np.testing.assert_allclose(fit_novelty(X, labels).known, np.sort(slow))


def test_the_command_answers_unknown(photos: Path) -> None:
    from PIL import Image

    run = CliRunner().invoke
    run(app, ["fit", str(photos), "--model", "m.firth"])
    Image.new("RGB", (9, 9), (255, 255, 255)).save("white.png")
    said = run(app, ["predict", "m.firth", "white.png", "--unknown", "0.2"])
    assert said.stdout.splitlines()[1].startswith("white.png,unknown,")
    refused = run(app, ["predict", "m.firth", "white.png", "--unknown", "0.001"])
    assert "needs 999 rows" in str(refused.exception)


def test_planted_labels_are_named_by_their_files(photos: Path) -> None:
    """Defect 6: three planted wrong labels were named nowhere."""
    (photos / "red" / "0.png").rename(photos / "blue" / "planted.png")
    said = " ".join(
        CliRunner().invoke(app, ["fit", str(photos), "--model", "m.firth"]).output.split()
    )
    assert "1 looks wrong: planted.png (blue, rather red)" in said


def test_a_table_of_flowers_is_no_table_of_texts(intents: Path) -> None:
    """Defect 7: a model of texts classified the column of labels."""
    firthshot.fit(intents).save("m.firth")
    table = pl.DataFrame({"width": [1.0, 2.0], "label": ["setosa", "virginica"]})
    table.rename({"label": "species"}).vstack(table.rename({"label": "species"})).write_csv("f.csv")
    table.write_csv("g.csv")
    for file in ("f.csv", "g.csv"):
        refused = CliRunner().invoke(app, ["predict", "m.firth", file])
        assert "which held the model's texts" in str(refused.exception)


def test_a_model_of_pictures_says_that_it_takes_pictures(photos: Path) -> None:
    """Defect 9: it spoke of numbers of features."""
    firthshot.fit(photos).save("m.firth")
    pl.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]}).write_csv("t.csv")
    refused = CliRunner().invoke(app, ["predict", "m.firth", "t.csv"])
    assert "this model takes pictures" in str(refused.exception)


def test_a_folder_that_is_not_there() -> None:
    """Defect 8: it could not be "opened as a bank"."""
    refused = CliRunner().invoke(app, ["fit", "nodir/", "--model", "m.firth"])
    assert str(refused.exception) == "There is no folder nodir/: check the path."


def test_a_text_is_classified_from_the_command_line(intents: Path) -> None:
    command("fit", intents, "--model", "m.firth")
    word = WORDS[0]
    said = command("predict", "m.firth", f"{word} number 1", f"{word} " * 200)
    lines = said.stdout.splitlines()
    assert lines[0].startswith("text,prediction,")
    assert [line.split(",")[1] for line in lines[1:]] == [f"about {word}"] * 2
    assert "Note" not in said.stderr
    said = command("predict", "m.firth", word)
    assert f"There is no file '{word}', so that it was taken for a text." in said.stderr
    with pytest.raises(FirthshotError, match=r"There is no file typo\.csv"):
        command("predict", "m.firth", "typo.csv")
    with pytest.raises(FirthshotError, match=r"There is no file typo\.csv"):
        firthshot.load("m.firth").predict("typo.csv")


def test_a_model_without_rows_says_what_is_lost(intents: Path) -> None:
    said = command("fit", intents, "--model", "m.firth", "--no-rows")
    assert "it cannot be updated, nor tell unknown rows." in said.stderr
    assert "The linear head" in said.stdout
    model = firthshot.load("m.firth")
    assert model.examples is None
    assert model.predict(["x"]).shape == (1,)
    with pytest.raises(FirthshotError, match="saved without its rows"):
        command("predict", "m.firth", "x", "--unknown", "0.05")


def test_gaps_of_pandas_are_named_as_those_of_a_csv() -> None:
    pd = pytest.importorskip("pandas")
    texts = pd.DataFrame({"text": ["card", None, np.nan], "label": ["a", "b", "b"]})
    with pytest.raises(FirthshotError, match=r"^The given table has an empty cell in row 2 of"):
        firthshot.fit(texts)
    labels = pd.DataFrame({"x": [1.0, 2.0, 3.0], "label": ["a", "b", np.nan]})
    with pytest.raises(FirthshotError, match="no label in row 3 of column 'label'"):
        firthshot.fit(labels)
    with pytest.raises(FirthshotError, match="y has no label in row 2"):
        firthshot.fit(np.eye(3), ["a", None, "b"])
    mixed = pd.DataFrame({"x": [1.0, 2.0], "label": ["a", 2]})
    with pytest.raises(FirthshotError, match="'label' of the given table holds values of several"):
        firthshot.fit(mixed)


def test_whole_numbers_stay_labels_of_texts() -> None:
    frame = pl.DataFrame({"text": ["card", "card a", "rain", "rain b"], "label": [1, 1, 2, 2]})
    model = firthshot.fit(frame)
    assert model.predict(["card", "rain"]).tolist() == [1, 2]
    assert model.update(frame.with_columns(text=pl.col("text") + " c")).classes_.tolist() == [1, 2]
    strange = model.predict(["card", "card " * 40 + "bread " * 90], unknown=0.2)
    assert strange.tolist() == [1, "unknown"]


def test_another_column_of_texts_is_told(intents: Path) -> None:
    model = firthshot.fit(intents)
    with pytest.warns(UserWarning, match="no column 'text'.*'sentence', its only column of words"):
        model.predict(pl.DataFrame({"sentence": ["card", "rain", "bread"]}))


@pytest.mark.parametrize(
    ("data", "words"), [([], "are empty"), (None, "are None"), (3, "are empty or")]
)
def test_nothing_to_predict_or_fit(data, words) -> None:
    X, y = rows()
    with pytest.raises(FirthshotError, match=f"The data {words}.*: give an array"):
        firthshot.fit(X, y).predict(data)
    with pytest.raises(FirthshotError, match=f"The data {words}"):
        firthshot.fit(data)
