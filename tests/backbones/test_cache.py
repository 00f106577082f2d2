from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from firthshot.backbones import cache
from firthshot.cli import app
from firthshot.errors import FirthshotError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTHSHOT_CACHE", str(tmp_path / "cache"))


def rows(first: int, count: int) -> dict[str, np.ndarray]:
    return {str(n): np.full(1000, n, np.float32) for n in range(first, first + count)}


def test_the_rows_that_were_not_used_for_longest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTHSHOT_CACHE_MB", "1")
    clock = iter(range(100))
    monkeypatch.setattr(cache.time, "time", lambda: next(clock))
    cache.remember("e", rows(0, 100))
    assert len(cache.recall("e", ["7"], 1000)) == 1  # used after the others
    cache.remember("e", rows(100, 150))
    held = cache.recall("e", list(map(str, range(250))), 1000)
    assert "7" in held
    assert "8" not in held
    assert set(map(str, range(100, 250))) <= set(held)
    size = sum(own.nbytes for own in held.values())
    assert size < 1e6
    assert cache.cache_file().stat().st_size < 3e6


def test_a_bound_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTHSHOT_CACHE_MB", "much")
    with pytest.raises(FirthshotError, match="FIRTHSHOT_CACHE_MB is 'much'"):
        cache.cache_limit()


def test_the_command_shows_and_clears() -> None:
    cache.remember_note("hf:tiny/bert", {}, "f1")
    cache.remember("f1", rows(0, 3))
    cache.remember("f2", rows(0, 1))
    shown = CliRunner().invoke(app, ["cache"]).output
    assert "hf:tiny/bert" in shown
    assert "fingerprint f2" in shown
    assert "of at most 2,000 MB" in shown
    cleared = CliRunner().invoke(app, ["cache", "--clear"]).output
    assert cleared.startswith("Removed 4 embeddings from ")
    assert not cache.cache_file().exists()
    assert "0.0 of at most" in CliRunner().invoke(app, ["cache"]).output


def test_a_cache_of_the_first_version_is_emptied() -> None:
    cache.cache_file().parent.mkdir()
    with sqlite3.connect(cache.cache_file()) as connection:
        connection.execute("CREATE TABLE embeddings (encoder TEXT, content TEXT, features BLOB)")
    connection.close()
    cache.remember("e", rows(0, 1))
    assert len(cache.recall("e", ["0"], 1000)) == 1
