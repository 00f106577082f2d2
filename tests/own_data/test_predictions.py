"""Predictions as files that read back, and rows that must fit the model."""

from __future__ import annotations

import io
import json

import numpy as np
import polars as pl
import pytest

from firthshot.errors import FirthshotError
from firthshot.estimators import FirthClassifier
from firthshot.own_data import Examples, predict, render, write

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
    assert again.equals(predictions.table())


def test_json_lines_read_back(predictions):
    lines = [json.loads(line) for line in render(predictions, ".jsonl").splitlines()]
    assert [line["who"] for line in lines] == list("pqrs")
    assert set(lines[0]["probabilities"]) == {"left", "up"}


def test_an_unwritable_place_is_named(predictions, tmp_path):
    with pytest.raises(FirthshotError, match="cannot be written"):
        write(predictions, tmp_path / "missing" / "p.csv")
    assert not list(tmp_path.iterdir())


def test_another_number_of_features_is_refused():
    model = FirthClassifier().fit(X, Y)
    with pytest.raises(FirthshotError, match=r"new has 3 features.*fitted to 2"):
        predict(model, Examples("new", np.ones((1, 3))))
