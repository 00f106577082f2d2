"""What is gathered from run folders, and the sentence for each folder that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from experiments.summary_folders import KEY, grid
from experiments.summary_folders import write as write_parts
from experiments.toy import read_tables
from firthshot.errors import FirthshotError
from firthshot.experiments.plan.cell import FORMAT
from firthshot.experiments.run.record import FILE, read_sessions
from firthshot.experiments.schema import KEYS, SPLITLESS
from firthshot.report import gather as gathering
from firthshot.report.gather import HISTOGRAM_BINS, gather
from firthshot.report.wording.page import bank_facts
from report.runs_made import toy_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_run(tmp_path_factory.mktemp("gather"))


def test_a_run_is_described(folder: Path) -> None:
    (run,) = gather([folder]).runs
    assert (run.name, run.kind) == ("toy", "trials")
    assert run.spec["trials"] == 30
    assert run.status.complete
    assert run.status.finished == run.status.cells > 0
    assert run.banks[0].bank is not None
    held = dict(bank_facts(run.banks[0]))["Holds"]
    assert held == "510 rows × 12, classes: 2 base, 6 val, 9 novel"
    (session,) = run.status.sessions
    assert session.classifiers > 0
    assert session.seconds > 0
    assert {"python", "numpy", "numba"} <= set(session.versions)


def test_bins_are_the_sums_over_parts(folder: Path) -> None:
    found = gather([folder]).bins
    tables = read_tables(folder)["bins"]
    assert found["count"].sum() == tables["count"].sum()
    assert found["correct_sum"].sum() == pytest.approx(tables["correct_sum"].sum())
    one = found.filter(
        pl.col("coefficient") == 1,
        ~pl.col("theory"),
        pl.col("split") == "novel",
        pl.col("ways") == 5,
        pl.col("shots") == 4,
    )
    assert len(one) == one["bin"].n_unique()
    # Every query of every trial is in one bin: 30 trials of 5 classes with 5 queries each.
    assert one["count"].sum() == 30 * 5 * 5


def test_differences_are_counted_from_the_rows(folder: Path) -> None:
    gathered = gather([folder])
    rows = read_tables(folder)["parts"].filter(pl.col("split") == "novel")
    for line in gathered.summary.chosen.filter(pl.col("penalty") != "none").to_dicts():
        same = [pl.col(name) == line[name] for name in SPLITLESS]
        own = rows.filter(*same, ~pl.col("theory")).sort("trial")
        base = own.filter(pl.col("coefficient") == 0)["accuracy"].to_numpy()
        ours = own.filter(pl.col("coefficient") == line["coefficient"])["accuracy"].to_numpy()
        histogram = gathered.differences.filter(*same, ~pl.col("theory"))
        assert histogram["count"].sum() == len(base) == line["trials"]
        for low, high, count in histogram.select("low", "high", "count").iter_rows():
            inside = (ours - base >= low) & (ours - base < high)
            assert count == inside.sum()
        width = histogram["high"] - histogram["low"]
        assert np.allclose(width, width[0])
    assert gathered.differences.filter("theory").height > 0


def test_histograms_hold_every_difference() -> None:
    edges = gathering._edges([np.array([-0.5, 0.25, np.nan]), np.array([0.1])])
    assert len(edges) == HISTOGRAM_BINS + 1
    assert edges[0] < -0.5
    assert edges[-1] > 0.5
    assert np.allclose(edges, -edges[::-1])
    zero = gathering._edges([np.zeros(3)])
    assert (zero[:-1] < zero[1:]).all()


def test_an_old_summary_is_made_again(folder: Path) -> None:
    table = folder / "summary" / "chosen.parquet"
    whole = table.read_bytes()
    table.write_bytes(b"of another version")
    gather([folder])
    assert table.read_bytes() == whole


def test_a_folder_named_twice_counts_once(folder: Path) -> None:
    twice = gather([folder, folder / "." / ".." / folder.name])
    assert len(twice.runs) == 1


def test_several_runs_are_contrasted(folder: Path, tmp_path: Path) -> None:
    other = toy_run(tmp_path, penalties=["l2"])
    together = gather([folder, other])
    assert [run.path for run in together.runs] == [folder, other]
    pairs = together.summary.contrasts.select("penalty", "against_penalty").unique().rows()
    assert ("firth", "l2") in pairs
    assert {"firth", "l2"} <= set(together.differences["penalty"])


def test_runs_that_share_some_trials_are_refused(tmp_path: Path) -> None:
    same = {"ways": [3], "shots": [1], "trials": 6, "bank": {"name": "toy"}}
    first = toy_run(tmp_path / "a", **same)
    sharing = toy_run(tmp_path / "b", **same, first_trial=4)
    with pytest.raises(FirthshotError) as refused:
        gather([first, sharing])
    assert f"{first} and {sharing} both hold trials from 4 to 5 of toy, 3-way 1-shot" in str(
        refused.value
    )
    one = toy_run(tmp_path / "c", **same, first_trial=5)
    with pytest.raises(FirthshotError, match="both hold trial 5 of toy"):
        gather([first, one])
    next_one = toy_run(tmp_path / "d", **same, first_trial=6)
    together = gather([first, next_one]).summary.chosen
    assert set(together["trials"]) == {12}


def test_runs_of_other_banks_or_trainings_are_refused(tmp_path: Path) -> None:
    """Before shared trials are: another first_trial would not make them one experiment."""
    same = {"ways": [3], "shots": [1], "trials": 6, "first_trial": 4}
    first = toy_run(tmp_path / "a", **same | {"first_trial": 0})
    namesake = toy_run(tmp_path / "b", **same, bank={"d": 10})
    with pytest.raises(FirthshotError, match="different banks that are both called 'toy'"):
        gather([first, namesake])
    longer = toy_run(tmp_path / "c", **same, sgd={"epochs": 30})
    with pytest.raises(FirthshotError, match=r"differently \(sgd\.epochs is 20 and 30\)"):
        gather([first, longer])


def test_the_same_trials_with_other_coefficients_are_taken_together(tmp_path: Path) -> None:
    same = {"ways": [3], "shots": [1], "trials": 6, "bank": {"name": "toy"}}
    first = toy_run(tmp_path / "a", **same, coefficients=[0, 0.1])
    other = toy_run(tmp_path / "b", **same, coefficients=[0, 1])
    alone, both = gather([first]).summary.all, gather([first, other]).summary.all
    own = {"penalty": "firth", "coefficient": 0.0, "split": "novel"}
    assert both.row(by_predicate=_same(own)) == alone.row(by_predicate=_same(own))


def _same(values: dict[str, object]) -> pl.Expr:
    return pl.all_horizontal(pl.col(name) == value for name, value in values.items())


def test_a_partial_run_says_what_is_missing(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, trials=8)
    keys = {
        path: pl.read_parquet(path, columns=list(KEYS)).row(0, named=True)
        for path in (folder / "parts").glob("*.parquet")
    }
    for path, key in keys.items():
        if (key["ways"], key["shots"], key["head"]) == (5, 4, "linear"):
            path.unlink()
    run = gather([folder]).runs[0]
    assert not run.status.complete
    assert run.status.cells - run.status.finished == 2
    assert run.missing == (
        "toy, val, 5-way, 4-shot, linear, firth",
        "toy, novel, 5-way, 4-shot, linear, firth",
    )


def test_missing_cells_are_counted_where_the_bank_is_gone(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, trials=4)
    (tmp_path / "toy.bank").unlink()
    next((folder / "parts").glob("*.parquet")).unlink()
    run = gather([folder]).runs[0]
    assert run.missing == ()
    assert run.status.cells - run.status.finished == 1
    assert run.banks[0].bank is None
    assert run.banks[0].findings == ()


def test_folders_that_cannot_be_reported(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("hello")
    unknown = tmp_path / "unknown"
    unknown.mkdir()
    (unknown / "spec.toml").write_text('kind = "tea"\nname = "x"\n')
    begun = tmp_path / "begun"
    (begun / "parts").mkdir(parents=True)
    (begun / "spec.toml").write_text('name = "x"\nbanks = ["toy"]\n')
    (begun / "banks.json").write_text("{}")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "spec.toml").write_text("name = ")
    for path, words in (
        (tmp_path / "nowhere", "is no folder"),
        (empty, "is empty: run an experiment into it first"),
        (foreign, "is not a run folder: it has no spec.toml"),
        (unknown, "holds a run of the kind 'tea'"),
        (begun, "holds no finished cells"),
        (broken, "is not valid TOML"),
    ):
        with pytest.raises(FirthshotError, match=words) as caught:
            gather([path])
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(FirthshotError, match="nothing to report"):
        gather([])


@pytest.mark.parametrize(("shift", "words"), [(-1, "an older version"), (1, "upgrade firthshot")])
def test_runs_of_other_versions(tmp_path: Path, shift: int, words: str) -> None:
    folder = toy_run(tmp_path, trials=2, ways=[3], shots=[1])
    record = json.loads((folder / FILE).read_text())
    record[0]["format"] = FORMAT + shift
    (folder / FILE).write_text(json.dumps(record))
    with pytest.raises(FirthshotError, match=words):
        gather([folder])


def test_parts_of_another_version(tmp_path: Path) -> None:
    """Where the record of sessions is gone, only the columns tell."""
    folder = toy_run(tmp_path, trials=2, ways=[3], shots=[1])
    (folder / FILE).unlink()
    part = next((folder / "parts").glob("*.parquet"))
    pl.read_parquet(part).drop("theory_exact").write_parquet(part)
    with pytest.raises(FirthshotError, match="other columns or types"):
        gather([folder])


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[{")
    with pytest.raises(FirthshotError, match=r"sessions\.json is damaged"):
        read_sessions(tmp_path)


@pytest.mark.parametrize(
    "plan", ['{"cells": 3}', "[]", '{"cells": 3, "notes": [{"x": 1}]}', '{"cells": 2']
)
def test_a_damaged_plan_is_named(tmp_path: Path, plan: str) -> None:
    folder = toy_run(tmp_path, trials=2, ways=[3], shots=[1])
    (folder / "plan.json").write_text(plan)
    with pytest.raises(FirthshotError, match=r"plan\.json is damaged"):
        gather([folder])


def test_resuming_adds_a_session_only_where_something_was_computed(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, trials=4, ways=[3])
    toy_run(tmp_path, trials=4, ways=[3])
    assert len(read_sessions(folder)) == 1
    next((folder / "parts").glob("*.parquet")).unlink()
    first = read_sessions(folder)[0]
    record = json.loads((folder / FILE).read_text())
    record[0]["started"] = "2026-01-01T00:00:00+00:00"  # the clock has seconds
    (folder / FILE).write_text(json.dumps(record))
    toy_run(tmp_path, trials=4, ways=[3])
    sessions = read_sessions(folder)
    assert len(sessions) == 2
    assert sessions[0].cells == first.cells
    assert sessions[1].cells == 1


def test_a_folder_without_bins_has_none(tmp_path: Path) -> None:
    write_parts(tmp_path, grid({0: [0.5, 0.6], 1: [0.6, 0.7]}))
    index = gathering.read_index([tmp_path])
    gathered = gathering.Gathered(gathering.summarise_many([tmp_path]), (), index)
    assert gathered.bins.is_empty()
    assert set(KEY) <= set(gathered.bins.columns)
