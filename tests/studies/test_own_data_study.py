"""The study of what a fit says runs on a few draws, and its tables are its rows."""

from __future__ import annotations

import numpy as np
import pytest

from firthshot import load_bank
from studies.own_data import coverage, labels, unknowns


def test_a_draw_is_assessed_and_tabled():
    found = coverage.cover(load_bank("clinc150-minilm"), 0)
    assert found.low <= found.estimate <= found.high
    lines = coverage.table([found]).splitlines()
    assert lines[2].startswith("| all | 1 |")
    assert lines[2].endswith("| 100.0 % |" if found.inside else "| 0.0 % |")


def test_finished_draws_are_kept(tmp_path, monkeypatch):
    kept = tmp_path / "coverage.csv"
    monkeypatch.setattr(coverage, "BANKS", ("clinc150-minilm",))
    (first,) = coverage.run(1, kept)
    monkeypatch.setattr(coverage, "cover", None)  # nothing is assessed again
    (again,) = coverage.run(1, kept)
    assert (again.bank, again.trial, again.shots) == (first.bank, coverage.FIRST, first.shots)
    assert again.held_out == pytest.approx(first.held_out, abs=1e-6)


def test_planted_labels_are_wrong_and_tabled():
    given = np.repeat(np.arange(5), 10)
    planted, wrong = labels.plant(given, np.random.default_rng(0))
    assert sorted(np.flatnonzero(planted != given)) == sorted(wrong)
    one = labels.Flagged("mini-resnet10", "firthshot", 10, 4, 3)
    other = labels.Flagged("mini-resnet10", list(labels.METHODS)[1], 10, 5, 1)
    rows = [
        labels.Flagged(name, method, 1, 1, 1)
        for name in labels.BANKS[:2]
        for method in labels.METHODS
    ]
    assert "| mini-resnet10 | firthshot | 30.0 % | 75.0 % |" in labels.table([*rows, one, other])


def test_every_score_tells_far_rows():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 6)
    X = 3 * np.eye(4, 80)[y] + 0.2 * rng.normal(size=(24, 80))
    far = 3 * np.eye(80)[20] + 0.2 * rng.normal(size=(5, 80))
    for score in unknowns.SCORES.values():
        values = score(X, y, np.concatenate([X, far]))
        assert values[24:].min() > np.median(values[:24])
