"""The bench of classifiers as shipped measures what it says, and its file keeps the contract."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from rich.console import Console

from benchmarks import shipped
from benchmarks.common import write_json


@pytest.fixture
def report(monkeypatch):
    monkeypatch.setattr(shipped, "SIZES", ((3, 5),))
    monkeypatch.setattr(shipped, "FIRST", {shipped.BASE: ("sklearn.linear_model", 4, 2)})
    monkeypatch.setattr(shipped, "COMMANDS", {"bank": ("bank", "ls")})
    return shipped.run(quick=True, say=lambda line: None)


def test_ratios_are_of_the_times_and_the_file_keeps_the_contract(report, tmp_path):
    (record,) = report.records
    for name, ratio in record["ratios"].items():
        assert ratio == pytest.approx(record["ms"][shipped.BASE] / record["ms"][name])
    assert set(record["ms"]) == set(shipped.contestants())
    for first in report.extra["first_answers"]:
        assert first["empty"] > 0
        assert first["full"] > 0
    assert [first["case"] for first in report.extra["first_answers"]] == [shipped.BASE, "bank"]
    write_json(tmp_path / "bench.json", report)
    content = json.loads((tmp_path / "bench.json").read_text())
    assert content["geomean_ratio"] == pytest.approx(record["ratio"])
    assert content["summary"]["FirthClassifier"]["lowest"] == pytest.approx(record["ratio"])


def test_commands_are_asked_of_tables_that_they_can_read(tmp_path):
    for table, features, classes in (("fit.csv", 64, 5), ("regress.csv", 3, 2)):
        shipped._write_table(str(tmp_path / table), features=features, classes=classes)
    commands = dict(shipped._fresh_commands(str(tmp_path)))
    assert shipped._fresh(commands["firthshot regress"], str(tmp_path)) > 0


def test_the_tables_fit_a_terminal(report):
    report.records[0]["stopped"] = ["LDA"]
    report.records[0]["ms"] |= dict.fromkeys(shipped.OURS, 98765.4)
    console = Console(width=80, record=True)
    shipped.show(report, console)
    text = console.export_text()
    assert "3 x 5" in text
    assert "> 30 s" in text
    assert "98,800" in text
    assert "…" not in text


def test_what_takes_too_long_is_stopped_and_marked():
    assert shipped._clock_within(1, lambda: time.sleep(5)) is None
    assert shipped._clock_within(5, lambda: None) < 1


def test_one_row_per_class_leaves_out_what_needs_more():
    record = shipped._measure(shipped.Case("clinc150-minilm", 3, 1), 0.01)
    assert "LDA" not in record["ms"]
    assert "FirthClassifier" in record["ms"]


def test_the_summary_has_classifiers_that_the_first_size_left_out():
    first = {"bank": shipped.BANK, "ways": 5, "shots": 1, "ratios": {shipped.BASE: 1.0}}
    second = {**first, "shots": 5, "ratios": {shipped.BASE: 1.0, "LDA": 2.0}}
    assert shipped._summary([first, second])["LDA"] == {"geomean": 2.0, "lowest": 2.0}


def test_support_and_queries_are_different_rows():
    X, y, query = shipped.Case("clinc150-minilm", 4, 3).draw()
    assert X.shape == (12, 384)
    assert query.shape == (40, 384)
    assert np.bincount(y).tolist() == [3] * 4
    assert not (X[:, None] == query).all(axis=2).any()
