"""Two versions are compared on the same trials; equal ones do not differ."""

from __future__ import annotations

import pytest

from studies.defaults import versions


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(versions, "BANKS", ("clinc150-minilm",))
    monkeypatch.setattr(versions, "SIZES", ((3, 2),))
    monkeypatch.setattr(versions, "TRIALS", 2)


def test_a_version_is_no_different_from_itself(tmp_path, capsys):
    versions.score(tmp_path / "a.csv")
    versions.compare(tmp_path / "a.csv", tmp_path / "a.csv")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(versions.HEADS)
    assert lines[-1].count("+0.0000 ± 0.0000") == len(versions.SCORES)


def test_a_looser_tolerance_changes_more(capsys):
    versions.tolerance()
    lines = capsys.readouterr().out.splitlines()[2:]
    changes = [float(line.split("|")[4]) for line in lines]
    assert changes == sorted(changes, reverse=True)
    assert changes[-1] < 1e-4
