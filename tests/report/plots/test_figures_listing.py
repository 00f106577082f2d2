"""A later report leaves nothing of an earlier one behind, and touches nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from firthshot.report.listing import LISTING, write_listing
from firthshot.report.tables import write_tables
from firthshot.report.tables.cells import Table


def test_files_of_an_earlier_report_go_and_others_stay(tmp_path: Path) -> None:
    one = Table("one", "One", ("A",), ((1,),), "note")
    two = Table("two", "Two", ("A",), ((2,),))
    write_tables([one, two], tmp_path)
    (tmp_path / "mine.csv").write_text("kept")
    write_tables([two], tmp_path)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == sorted([LISTING, "mine.csv", "two.csv", "two.md", "two.tex"])
    assert json.loads((tmp_path / LISTING).read_text())["captions"] == {"Two": ""}


def test_a_record_cannot_reach_out_of_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("kept")
    folder = tmp_path / "figures"
    folder.mkdir()
    (folder / LISTING).write_text(json.dumps({"files": ["../outside.txt", 5, str(outside)]}))
    write_listing(folder, {}, ["a.svg"])
    assert outside.read_text() == "kept"
    (folder / LISTING).write_text("damaged")
    write_listing(folder, {}, ["a.svg"])
    assert json.loads((folder / LISTING).read_text())["files"] == ["a.svg"]


def test_nothing_written_leaves_no_record(tmp_path: Path) -> None:
    write_listing(tmp_path / "none", {}, [])
    assert not (tmp_path / "none").exists()
