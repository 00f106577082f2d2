"""Predictions as files that read back, and rows that must fit the model."""

from __future__ import annotations

import io
import json

import numpy as np
import polars as pl
import pytest

from firthshot.errors import FirthshotError
from firthshot.estimators import FirthClassifier
from firthshot.own_data import Examples, Predictions, join_examples, predict, render, write

X = np.array([[2.0, 0], [1.5, 0.2], [0, 2], [0.1, 1.7]])
Y = np.array(["left", "left", "up", "up"])


@pytest.fixture(scope="module")
def predictions():
    model = FirthClassifier().fit(X, Y)
    return predict(model, Examples("new", X, Y, ids=np.array(list("pqrs")), id_name="who"))


def test_probabilities_belong_to_their_classes(predictions):
    table = predictions.table()
    assert table.columns == ["who", "prediction", "confidence", "p_left", "p_up"]
    assert table["prediction"].to_list() == Y.tolist()
    np.testing.assert_allclose(table["p_left"] + table["p_up"], 1, atol=2e-6)
    assert predictions.accuracy == 1.0


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".parquet"])
def test_tables_read_back(predictions, kind):
    content = io.BytesIO(render(predictions, kind))
    if kind == ".parquet":
        again = pl.read_parquet(content)
    else:
        again = pl.read_csv(content, separator="\t" if kind == ".tsv" else ",")
    assert again.columns == predictions.table().columns
    wanted = predictions.table().select(pl.selectors.float()).to_numpy()
    np.testing.assert_allclose(again.select(pl.selectors.float()).to_numpy(), wanted, rtol=1e-5)


def test_json_lines_read_back(predictions):
    lines = [json.loads(line) for line in render(predictions, ".jsonl").splitlines()]
    assert [line["who"] for line in lines] == list("pqrs")
    assert set(lines[0]["probabilities"]) == {"left", "up"}


def sure() -> Predictions:
    """Three rows of which the model is more and more sure."""
    p = np.array([[0.75, 0.25], [1 - 1.2e-5, 1.2e-5], [1 - 3e-9, 3e-9]])
    names = np.array(["a", "b"])
    return Predictions(np.array([1.5, 2.0, 1e-7]), "who", names, p, names[[0, 0, 0]])


def test_probabilities_are_written_plainly():
    """Six digits each, never 1.2e-05, and never zero; ids keep their own look."""
    assert render(sure(), ".csv").decode().splitlines() == [
        "who,prediction,confidence,p_a,p_b",
        "1.5,a,0.75,0.75,0.25",
        "2.0,a,0.999988,0.999988,0.000012",
        "1e-7,a,1,1,0.000000003",
    ]
    assert render(sure(), ".jsonl").decode().splitlines()[1] == (
        '{"who": 2.0, "prediction": "a", "confidence": 0.999988, '
        '"probabilities": {"a": 0.999988, "b": 0.000012}}'
    )


def test_rows_of_several_files_name_their_file():
    model = FirthClassifier().fit(X, Y)
    both = join_examples([Examples("a.csv", X[:2]), Examples("b.csv", X[2:])])
    told = predict(model, both)
    assert told.table()["file"].to_list() == ["a.csv", "a.csv", "b.csv", "b.csv"]
    assert told.table()["row"].to_list() == [1, 2, 1, 2]
    line = json.loads(render(told, ".jsonl").splitlines()[2])
    assert (line["file"], line["row"]) == ("b.csv", 1)
    assert "file" not in predict(model, join_examples([Examples("a.csv", X)])).table().columns


def test_names_survive_json_lines():
    names = np.array(['say "hi"', "naïve\\", "new\nline"])
    told = Predictions(names, 'a "b"', names, np.full((3, 3), 1 / 3), names)
    lines = [json.loads(line) for line in render(told, ".jsonl").splitlines()]
    assert [line['a "b"'] for line in lines] == names.tolist()
    assert list(lines[0]["probabilities"]) == names.tolist()


def test_an_unwritable_place_is_named(predictions, tmp_path):
    with pytest.raises(FirthshotError, match="cannot be written"):
        write(predictions, tmp_path / "missing" / "p.csv")
    assert not list(tmp_path.iterdir())


def test_another_number_of_features_is_refused():
    model = FirthClassifier().fit(X, Y)
    with pytest.raises(FirthshotError, match=r"new has 3 features.*fitted to 2"):
        predict(model, Examples("new", np.ones((1, 3))))
