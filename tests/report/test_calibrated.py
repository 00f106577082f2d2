"""The report and the terminal on a run of Distribution Calibration with another bank as source."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from experiments.toy import write_bank
from firthshot.cli._results import drawn_overview, show_lines
from firthshot.experiments.summary import RunSummary, summarise_many
from firthshot.experiments.summary.choice import PUBLISHED_WAY
from firthshot.report.gather import Gathered, gather
from firthshot.report.page.provenance import describe_run
from firthshot.report.page.render import render
from firthshot.report.tables import make_tables
from firthshot.report.wording.cards import title_of
from firthshot.report.wording.page import eyebrow
from report.runs_made import toy_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    there = tmp_path_factory.mktemp("calibrated")
    source = write_bank(there / "lender.bank", base=4, dataset="elsewhere")
    return toy_run(
        there, bank={"base": 0}, source=str(source), solver="converged", transform="tukey", l2=1,
        l2_kind="ridge", calibration={"artificial": [0, 20]}, sgd={}, ways=[3], trials=12,
    )  # fmt: skip


@pytest.fixture(scope="module")
def data(folder: Path) -> Gathered:
    return gather([folder])


def test_both_ways_of_choosing_are_a_table_and_told_apart(data: Gathered) -> None:
    first = make_tables(data)[0]
    assert first.name == "artificial-linear-firth"
    lines = [dict(zip(first.columns, row, strict=True)) for row in first.rows]
    ways = ["validation classes", "novel classes, as published"]
    assert [line["Chosen on"] for line in lines] == 2 * ways
    assert "no estimate of what a user would get" in first.note
    assert "Base classes of lender." in first.note
    summary = data.summary.calibration
    for line in lines:
        chosen_on = "val" if line["Chosen on"] == ways[0] else PUBLISHED_WAY
        (row,) = (
            row
            for row in summary.to_dicts()
            if (row["shots"], row["chosen_on"]) == (line["Shot"], chosen_on)
        )
        assert (line["Samples before"], line["Samples after"]) == (
            row["before_artificial"],
            row["artificial"],
        )
        assert float(line["Improvement"]) == pytest.approx(100 * row["improvement"], abs=0.005)


def test_tables_and_verdicts_say_how_many_samples_were_drawn(data: Gathered) -> None:
    titles = [table.title for table in make_tables(data)]
    assert len(set(titles)) == len(titles)
    for words in ("no artificial samples", "20 artificial samples"):
        assert any(title.endswith(words) for title in titles)
        assert any(words in title_of(verdict) for verdict in data.verdicts)


def test_contrasts_say_how_many_samples_were_drawn(data: Gathered) -> None:
    (made,) = (table for table in make_tables(data) if table.name == "contrasts-linear")
    keys = [row[: made.columns.index("Accuracy")] for row in made.rows]
    assert len(set(keys)) == len(keys)
    assert {row[made.columns.index("Method")] for row in made.rows} == {
        "Firth, no artificial samples",
        "Firth, 20 artificial samples",
    }


def test_the_source_is_not_said_to_be_tried(data: Gathered) -> None:
    assert [bank.name for bank in data.runs[0].tried] == ["toy"]
    assert "on toy ·" in eyebrow(data)
    facts = dict(describe_run(data.runs[0])["facts"])
    assert facts["Artificial"] == "0 and 20 samples per class around the support"
    assert facts["Base classes"].startswith("lender.bank; 2 nearest")


def test_the_page_holds_the_choice_as_a_file(data: Gathered) -> None:
    page = render(data, [], make_tables(data))
    assert 'id="file-calibration"' in page
    assert "novel classes, as published" in page


def test_the_terminal_shows_the_choice(folder: Path) -> None:
    out = io.StringIO()
    show_lines(Console(file=out, width=100), drawn_overview(summarise_many([folder])))
    lines = out.getvalue().splitlines()
    assert [PUBLISHED_WAY in line for line in lines[1:]] == [False, False, True, True]
    assert "→" in lines[1]


def test_other_runs_have_no_such_table() -> None:
    empty = pl.DataFrame()
    assert drawn_overview(RunSummary(empty, empty, empty, [])) == []
