"""Names in CSV files are no formulas; numbers stay numbers."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest

from experiments.summary_folders import grid, write
from firthshot.experiments.summary import summarise, summarise_many
from firthshot.experiments.summary.columns import harmless_cell, harmless_csv
from firthshot.report.tables.cells import Table, to_csv

FORMULA = '=HYPERLINK("http://example.org")'


@pytest.mark.parametrize("text", [FORMULA, "+1+cmd|' /C'!A0", "-x", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_formula_gets_an_apostrophe(text: str) -> None:
    assert harmless_cell(text) == "'" + text


@pytest.mark.parametrize("text", ["", "toy", "-1", "+0.5", "-1e-5", "a=b", "x-y", "−1", "'=1"])
def test_other_text_stays(text: str) -> None:
    assert harmless_cell(text) == text


def test_numbers_and_gaps_of_a_table_stay() -> None:
    frame = pl.DataFrame({"bank": [FORMULA, None, "toy"], "gain": [-0.5, 1.0, None]})
    rows = list(csv.reader(harmless_csv(frame).splitlines()))
    assert rows == [["bank", "gain"], [f"'{FORMULA}", "-0.5"], ["", "1.0"], ["toy", ""]]


def test_summaries_hold_no_formula_as_csv_and_the_name_as_parquet(tmp_path: Path) -> None:
    about = {"bank": FORMULA}
    scores = {0: [0.1, 0.2, 0.4], 1: [0.2, 0.4, 0.3]}
    write(tmp_path, grid(scores, split="val", **about), grid(scores, **about))
    summarise(tmp_path)
    for name in ("all", "chosen"):
        lines = csv.DictReader((tmp_path / "summary" / f"{name}.csv").read_text().splitlines())
        assert {line["bank"] for line in lines} == {f"'{FORMULA}"}
    assert set(summarise_many([tmp_path]).chosen["bank"]) == {FORMULA}


def test_tables_of_a_report_hold_no_formula() -> None:
    made = Table("x", "title", ("Bank", "=Gain"), ((FORMULA, -0.25), ("b", 1)))
    rows = list(csv.reader(to_csv(made).splitlines()))
    assert rows == [["Bank", "'=Gain"], [f"'{FORMULA}", "-0.25"], ["b", "1"]]
