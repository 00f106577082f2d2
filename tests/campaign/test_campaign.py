"""The campaign in short, and that it goes on where it was stopped and tells what it finds."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from campaign import inputs, kept, table
from campaign.cluster import start_cluster
from campaign.commands import Command
from campaign.formulas import try_formulas
from campaign.kills import SHARES, KillFolder, kill
from experiments.kills import Kills, strays
from experiments.toy import write_bank
from mutations import Counts, try_reader

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def test_the_command_killed_while_it_reports(tmp_path: Path) -> None:
    command = Command(write_bank(tmp_path / "toy.bank"), tmp_path / "whole")
    killed = command.kill(tmp_path / "killed", random.Random(0), 2)
    assert killed.killed


def test_a_worker_of_the_cluster_is_killed_and_comes_back() -> None:
    pytest.importorskip("distributed")
    with start_cluster() as cluster:
        assert cluster.address.startswith("tcp://")
        for number in range(4):
            while not cluster.kill(number):
                time.sleep(0.1)


@pytest.mark.parametrize("name", ["spec toml", "run folder parts", "run folder plan.json"])
def test_specs_and_run_folders_end_in_documented_errors(name: str, tmp_path: Path) -> None:
    count = 100 if name == "spec toml" else 4
    counts = try_reader(name, count, 0, tmp_path)
    assert counts.violations == []
    assert counts.sound + counts.refused == count


def test_formulas_are_counted_and_a_seed_that_fails_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accepted, refused, faults = try_formulas(40, 0)
    assert (accepted + refused, faults) == (40, [])
    monkeypatch.setattr("campaign.formulas.CODE", "raise MemoryError('of seed')")
    assert try_formulas(40, 7) == (0, 0, ["formulas of seed 7: exit 1, MemoryError: of seed"])


class StoppedError(Exception):
    """The campaign itself is killed here."""


@contextmanager
def made_up_kinds(folder: Path, most: int = 10**9) -> Iterator[dict[str, KillFolder]]:
    """Yield kinds that kill three times in each folder; the campaign is stopped after some."""
    opened = 0

    def kill_folder(folder: Path, chance: random.Random, wanted: int) -> Kills:
        nonlocal opened
        opened += 1
        if opened > most:
            raise StoppedError
        folder.mkdir(parents=True)
        if "4-threads" in str(folder) and folder.name == "1":
            raise AssertionError("a row is lost")
        return Kills(killed=min(3, wanted), halfway=1)

    yield dict.fromkeys(SHARES, kill_folder)


def test_kills_go_on_where_they_were_stopped(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        kill(tmp_path, 40, 1, lambda folder: made_up_kinds(folder, 6))
    before = kept.read(tmp_path / "kills.jsonl")
    assert len(before) == 6
    with (tmp_path / "kills.jsonl").open("a") as file:
        file.write('{"kind": "2 thr')  # the last line of a killed campaign
    faults = kill(tmp_path, 40, 1, made_up_kinds)
    records = kept.read(tmp_path / "kills.jsonl")
    assert records[:6] == before
    assert {kind: kept.total(records, kind, "killed") for kind in SHARES} == {
        kind: round(share * 40) for kind, share in SHARES.items()
    }
    assert faults == [f"4 threads: {tmp_path}/4-threads/1: a row is lost"]
    assert [path.name for path in (tmp_path / "4-threads").iterdir()] == ["1"]  # kept to look at
    assert kill(tmp_path, 40, 1, made_up_kinds) == faults  # nothing more is opened


def test_inputs_go_on_where_they_were_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[str, int]] = []

    def made_up_reader(name: str, count: int, seed: int, keep: Path) -> Counts:
        tried.append((name, seed))
        return Counts(name, count - 1, 0, [f"{keep}/file: 11.0 s"])

    monkeypatch.setattr(inputs, "usable", lambda readers: ["bank", "fit parquet"])
    monkeypatch.setattr(inputs, "try_reader", made_up_reader)
    monkeypatch.setattr(inputs, "try_formulas", lambda count, seed: (count, 0, []))
    inputs.attack(tmp_path, 420, 1)
    assert sorted(tried) == [("bank", 1000), ("fit parquet", 1000)]
    faults = inputs.attack(tmp_path, 1050, 1)
    assert sorted(tried) == [("bank", 1000), ("bank", 1001), ("fit parquet", 1000)]
    assert len(faults) == 3
    records = kept.read(tmp_path / "inputs.jsonl")
    assert sum(record["tried"] for record in records) >= 420


def test_strays_are_seen(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / ".rope.svg.0a1b2c3d.tmp").touch()
    assert strays(tmp_path) == ["figures/.rope.svg.0a1b2c3d.tmp"]


def test_the_page_shows_what_is_kept() -> None:
    page = table.PAGE.read_text("utf-8")
    assert table.with_tables(page, kept.read(table.KEPT)) == page


def test_pieces_of_a_kind_are_one_line(tmp_path: Path) -> None:
    for faults in ([], ["a row is lost"]):
        record = {"kind": "1 thread", "killed": 7, "halfway": 6, "folders": 1, "faults": faults}
        kept.append(tmp_path / "kills.jsonl", record)
    (line,) = table.condensed(tmp_path, "kills")
    assert table.tables([line]).splitlines()[-2:] == [
        "| 1 thread | 14 | 12 | 0 | 2 | 1 |",
        "| **all** | 14 | 12 | 0 | 2 | 1 |",
    ]
