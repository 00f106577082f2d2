"""A damaged table is found before polars sees it, whatever byte is wrong."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import polars as pl
import pytest

from firthshot.errors import FirthshotError
from firthshot.experiments.run.store import damaged_tables, sealed_parquet

FRAME = pl.DataFrame({"bank": ["firthshot.checksum", "toy"], "accuracy": [0.25, 0.5]})
MARKS = {"firthshot.cell": "abc"}


def unsealed() -> bytes:
    """Return a table as earlier versions wrote it."""
    buffer = io.BytesIO()
    pl.DataFrame({"accuracy": [0.25, 0.5]}).write_parquet(buffer, metadata=MARKS)
    return buffer.getvalue()


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the checksum alone decide."""

    def refuse(*_args: object, **_more: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "run", refuse)


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


def test_tables_of_earlier_versions_are_tried_elsewhere(tmp_path: Path) -> None:
    names = ("bad 1", "good", "bad 2", "[*] \n")
    paths = [tmp_path / f"{name}.parquet" for name in names]
    for path in paths:
        path.write_bytes(b"PAR1" + bytes(90) + b"PAR1" if "bad" in path.name else unsealed())
    assert damaged_tables(paths) == {paths[0], paths[2]}


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").mkdir()
    with pytest.raises(FirthshotError, match=r"a\.parquet cannot be read \(it is no file\)"):
        damaged_tables([tmp_path / "a.parquet"])
