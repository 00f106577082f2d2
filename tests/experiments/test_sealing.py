"""A damaged table is found before polars sees it, whatever byte is wrong."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import polars as pl
import pytest

from firthshot.errors import FirthshotError
from firthshot.experiments import sealing
from firthshot.experiments.sealing import damaged_tables, sealed_parquet

FRAME = pl.DataFrame({"bank": ["firthshot.checksum", "toy"], "accuracy": [0.25, 0.5]})
MARKS = {"firthshot.cell": "abc"}


def unsealed(frame: pl.DataFrame = FRAME) -> bytes:
    """Return a table as earlier versions wrote it."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata=MARKS)
    return buffer.getvalue()


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the checksum alone decide."""

    def refuse(*_args: object, **_more: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)


def test_a_sealed_table_is_plain_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(sealed_parquet(FRAME, MARKS))
    assert pl.read_parquet(path).equals(FRAME)
    assert pl.read_parquet_metadata(path)["firthshot.cell"] == "abc"
    assert pl.read_parquet_metadata(path)["firthshot.checksum"].startswith("firthshot-sha256:")


@pytest.mark.usefixtures("no_process")
def test_every_wrong_byte_is_found(tmp_path: Path) -> None:
    whole, path = sealed_parquet(FRAME, MARKS), tmp_path / "a.parquet"
    path.write_bytes(whole)
    assert damaged_tables([path]) == set()
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= 1 << place % 8
        path.write_bytes(content)
        assert damaged_tables([path]) == {path}, place


@pytest.mark.usefixtures("no_process")
@pytest.mark.parametrize("damage", [slice(0, 0), slice(0, 9), slice(0, -1), slice(7, None)])
def test_a_table_that_lacks_a_piece_is_found(tmp_path: Path, damage: slice) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(sealed_parquet(FRAME)[damage])
    assert damaged_tables([path]) == {path}


def test_tables_of_earlier_versions_are_tried_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad, strange = (tmp_path / f"{name}.parquet" for name in ("good", "bad", "[*] \n"))
    for path in (good, strange):
        path.write_bytes(unsealed())
    bad.write_bytes(b"PAR1" + bytes(200) + b"PAR1")
    assert damaged_tables([good, bad, strange]) == {bad}
    monkeypatch.setattr(sealing, "_TRY", "raise SystemExit")
    assert damaged_tables([good, strange]) == set()  # once is enough


KILLER = """
import os, sys
print(end="!")
for path in sys.stdin.buffer.read().split(b"\\0"):
    if b"killer" in path:
        sys.stdout.flush()
        os.abort()
    print(end="-" if b"bad" in path else "+")
"""


def test_a_table_that_kills_its_reader_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("a", "killer 1", "b", "bad", "killer 2", "c")
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.write_bytes(unsealed())
    monkeypatch.setattr(sealing, "_TRY", KILLER)
    assert damaged_tables(paths) == {paths[1], paths[3], paths[4]}


def test_a_table_that_its_reader_never_ends_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(unsealed())
    monkeypatch.setattr(sealing, "_TRY", "print(end='!', flush=True)\nwhile True: pass")
    monkeypatch.setattr(sealing, "_PATIENCE", 3.0)
    assert damaged_tables([path]) == {path}


def test_no_table_is_blamed_where_no_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(unsealed())
    monkeypatch.setattr(sealing, "_TRY", "import no_such_module")
    with pytest.raises(FirthshotError, match="no process could be started"):
        damaged_tables([path])


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").mkdir()
    with pytest.raises(FirthshotError, match=r"a\.parquet cannot be read \(it is no file\)"):
        damaged_tables([tmp_path / "a.parquet"])


def test_the_reader_takes_no_module_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "polars.py").write_text("raise SystemExit")
    (tmp_path / "a.parquet").write_bytes(unsealed())
    monkeypatch.chdir(tmp_path)
    assert damaged_tables([tmp_path / "a.parquet"]) == set()
