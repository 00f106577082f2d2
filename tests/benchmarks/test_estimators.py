"""The estimators bench measures what it says, and its file keeps the contract."""

from __future__ import annotations

import json

import numpy as np
import pytest
from rich.console import Console

from benchmarks import estimators
from benchmarks.common import write_json


@pytest.fixture
def report(monkeypatch):
    monkeypatch.setattr(estimators, "QUICK_CASES", (estimators.FitCase("sentences", 3, 2, 384),))
    monkeypatch.setattr(estimators, "QUICK_LARGE", (estimators.FitCase("raw", 3, 20, 16),))
    return estimators.run(quick=True)


def test_our_objective_is_no_worse_and_every_ratio_is_of_the_times(report, tmp_path):
    (record,), (large,) = report.records, report.extra["large"]
    for r in (record, large):
        assert r["objective_difference"] <= estimators.NO_WORSE
        assert r["ratio"] == pytest.approx(r["sklearn_ms"] / r["firthshot_ms"])
    assert record["path_in_fits"] == pytest.approx(record["path_ms"] / record["firthshot_ms"])
    write_json(tmp_path / "bench.json", report)
    content = json.loads((tmp_path / "bench.json").read_text())
    assert content["geomean_ratio"] == pytest.approx(record["ratio"])
    assert {"machine", "records", "large", "path_geomean"} <= set(content)


def test_the_table_fits_a_terminal(report):
    console = Console(width=80, record=True)
    estimators.show(report, console)
    text = console.export_text()
    assert "sentences 3 x 2, d 384" in text
    assert "…" not in text


@pytest.mark.parametrize("kind", ["sentences", "unit", "raw"])
def test_features_are_as_described(kind):
    X, y = estimators.FitCase(kind, 4, 3, 384).draw()
    assert X.shape == (12, 384)
    assert np.bincount(y).tolist() == [3] * 4
    length = 20.0 if kind == "raw" else 1.0
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), length, rtol=1e-3)
    assert kind != "raw" or (X >= 0).all()
    np.testing.assert_array_equal(X, estimators.FitCase(kind, 4, 3, 384).draw()[0])
