"""The reproduction: specs come from the plan, kept tables from the specs, the page from them."""

import hashlib
import shutil

import numpy as np
import polars as pl
import pytest

from firthshot.banks import list_banks, load_bank
from firthshot.experiments.plan import make_plan
from firthshot.experiments.spec.choose import open_banks, settle_banks
from firthshot.experiments.spec.fields import Spec
from firthshot.experiments.spec.reading import load_any, load_spec, preset_names
from studies import words
from studies.pages import marks
from studies.reproduction import __main__ as command
from studies.reproduction import (
    agreement,
    budget,
    compared,
    keep,
    overview,
    pairs,
    plan,
    questions,
    run,
)
from studies.reproduction.kept import Kept
from studies.reproduction.page import PAGES, fill, makers
from studies.reproduction.plan import FOLDER

SPECS = sorted((FOLDER / "specs").rglob("*.toml"))
KEPT = FOLDER / "kept"
INSTALLED = {entry.name for entry in list_banks() if entry.bank}
COMMITTED = pytest.mark.skipif(not KEPT.is_dir(), reason="nothing is kept yet")
WITH_BANKS = pytest.mark.skipif(
    "mini-resnet10" not in INSTALLED, reason="The banks of the repository are not here."
)

TINY_PLAN = """
last = []
[[study]]
name = "quickstart"
banks = ["clinc150-minilm"]
trials = 4
[study.set]
heads = ["linear"]
penalties = ["firth", "l2"]
coefficients = [0, 1, 10]
ways = [3]
shots = [1, 2]
queries = 5
sgd = { epochs = 3 }
[[study]]
name = "zero-start"
preset = "quickstart"
question = "Why?"
banks = ["clinc150-minilm", "no-such-bank"]
trials = 4
[study.set]
heads = ["linear"]
start = "zero"
coefficients = [0, 1, 10]
ways = [3]
shots = [1, 2]
queries = 5
sgd = { epochs = 3 }
[[pair]]
one = "zero-start"
other = "quickstart"
"""


def test_spec_files_are_those_that_the_plan_makes():
    made = dict(plan.spec_texts())
    assert {path: path.read_text("utf-8") for path in SPECS} == made


def test_every_preset_is_rerun():
    presets = {*preset_names(), *preset_names("geometric")} - {"quickstart", "rivals"}
    assert presets == {study.source for study in plan.read_plan()}


@pytest.mark.parametrize("path", SPECS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_spec_plans_on_its_bank(path):
    spec = load_any(path)
    if not isinstance(spec, Spec):
        return
    if not set(spec.banks) <= INSTALLED:
        pytest.skip(f"{spec.banks[0]} is not installed")
    spec = settle_banks(spec)
    assert make_plan(spec, open_banks(spec)).settings


def test_a_spec_is_its_preset_but_for_bank_trials_and_what_the_plan_sets():
    told = {"banks", "trials", "name", "reproduces", "remark"}
    for task in plan.read_tasks():
        if task.geometric:
            continue
        ours, preset = task.spec().as_dict(), load_spec(task.study.source).as_dict()
        differing = {key for key in {**ours, **preset} if ours.get(key) != preset.get(key)}
        assert differing <= told | set(task.study.set), task.place


def test_banks_to_come_are_run_last():
    banks = [task.bank for task in plan.read_tasks()]
    late = [bank == "cifarfs-wrn16-2" for bank in banks]
    assert late == sorted(late)
    assert any(late)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A plan of two studies at half its trials, run to its end."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "plan.toml").write_text(TINY_PLAN, "utf-8")
    where = run.Where(folder / "runs", folder / "kept", folder)
    assert run.run_tasks(plan.read_tasks(folder), where, True, 1) == 0
    return where


def test_a_missing_bank_is_left_out_with_a_sentence(tiny, capsys):
    tasks = [task for task in plan.read_tasks(tiny.plan) if task.bank == "no-such-bank"]
    assert run.run_tasks(tasks, tiny, True, 1) == 0
    assert "left out, there is no bank 'no-such-bank'" in capsys.readouterr().out


def test_a_second_run_trains_nothing_and_keeps_the_same(tiny):
    def contents():
        return {path.name: path.read_bytes() for path in tiny.kept.iterdir()}

    before = contents()
    clock = (tiny.runs / "quickstart" / "clinc150-minilm" / run.CLOCK).read_bytes()
    assert run.run_tasks(plan.read_tasks(tiny.plan), tiny, True, 1) == 0
    assert (tiny.runs / "quickstart" / "clinc150-minilm" / run.CLOCK).read_bytes() == clock
    assert contents() == before


def test_what_is_kept_of_a_study_stays_when_another_is_run_again(tiny, tmp_path, monkeypatch):
    """Rows of single trials are not committed: a clone has the kept tables and no runs."""
    full_hash = keep.spec_hash
    monkeypatch.setattr(keep, "spec_hash", lambda task: full_hash(task, tenth=True))
    kept, runs = tmp_path / "kept", tmp_path / "runs"
    shutil.copytree(tiny.kept, kept)
    shutil.copytree(tiny.runs / "zero-start", runs / "zero-start")
    keep.collect(runs, kept, tiny.plan)
    assert [record.study for record in keep.read_records(kept)] == ["quickstart", "zero-start"]
    for path in tiny.kept.glob("*.parquet"):
        assert pl.read_parquet(kept / path.name).equals(pl.read_parquet(path)), path.name
    monkeypatch.setattr(keep, "spec_hash", lambda task: "of another plan")
    keep.collect(runs, kept, tiny.plan)
    assert set(pl.read_parquet(kept / "chosen.parquet")["study"]) == {"zero-start"}
    assert pl.read_parquet(kept / "pairs.parquet").is_empty()


def test_records_tell_spec_bank_and_time(tiny):
    records = keep.read_records(tiny.kept)
    assert [record.study for record in records] == ["quickstart", "zero-start"]
    task = plan.read_tasks(tiny.plan)[0]
    assert records[0].spec == keep.spec_hash(task, tenth=True) != keep.spec_hash(task)
    assert records[0].trials == 2
    assert records[0].banks == {"clinc150-minilm": load_bank("clinc150-minilm").meta.sha256}
    assert records[0].processor_seconds >= 0


def test_a_clock_that_was_cut_short_still_counts(tmp_path):
    clock = tmp_path / run.CLOCK
    clock.write_text('{"seconds": 1.5}\n{"seconds": 2}\n{"seco')
    assert run.processor_seconds(tmp_path) == 3.5
    with clock.open("a") as lines:  # the next session's first line joins what is left
        lines.write('{"seconds": 4}\n{"seconds": 8}\n')
    assert run.processor_seconds(tmp_path) == 11.5


def test_a_tenth_keeps_its_tables_among_its_runs():
    tenth = command.where_to(command.parse(["run", "--tenth"]))
    full = command.where_to(command.parse(["run"]))
    assert tenth.kept.is_relative_to(tenth.runs)
    assert full.kept == KEPT
    assert full.runs != tenth.runs


def _rows(where, study, split="novel", penalty="firth"):
    parts = (where.runs / study / "clinc150-minilm" / "parts").glob("*.parquet")
    rows = pl.concat([pl.read_parquet(part) for part in parts])
    return rows.filter(pl.col("split") == split, pl.col("penalty") == penalty).sort("trial")


def test_chosen_against_theory_is_the_mean_of_matched_differences(tiny):
    found = pairs.against_theory(tiny.runs / "quickstart" / "clinc150-minilm")
    rows = _rows(tiny, "quickstart")
    assert set(found["penalty"]) == {"firth"}
    for line in found.iter_rows(named=True):
        place = rows.filter(pl.col("shots") == line["shots"])
        ours = place.filter(~pl.col("theory"), pl.col("coefficient") == line["coefficient"])
        theirs = place.filter(pl.col("theory"))
        expected = np.mean(ours["accuracy"].to_numpy() - theirs["accuracy"].to_numpy())
        assert line["difference"] == pytest.approx(expected, abs=1e-6)
        assert line["against"] == theirs["coefficient"][0]


def test_study_against_study_is_paired_by_trial(tiny):
    found = pl.read_parquet(tiny.kept / "pairs.parquet").filter(pl.col("at") == "0")
    assert set(found["against_study"]) == {"quickstart"}
    for line in found.iter_rows(named=True):
        at = (pl.col("shots") == line["shots"]) & (pl.col("coefficient") == 0) & ~pl.col("theory")
        ours, theirs = (_rows(tiny, name).filter(at) for name in ("zero-start", "quickstart"))
        differences = (ours["accuracy"] - theirs["accuracy"]).to_numpy().astype(float)
        assert line["trials"] == len(differences) == 2
        assert line["difference"] == pytest.approx(differences.mean(), abs=1e-6)
        assert line["difference_sd"] == pytest.approx(differences.std(ddof=1), abs=1e-6)


def test_all_tests_of_a_table_are_corrected_together(tiny):
    kept = Kept(tiny.kept)
    assert (kept.chosen["p_family"] >= kept.chosen["p_holm"] - 1e-12).all()
    assert kept.chosen["study"].n_unique() == 2
    assert "none" not in set(kept.chosen["penalty"])


def test_every_table_of_the_page_can_be_made_of_few_studies(tiny):
    kept = Kept(tiny.kept)
    for name, make in makers().items():
        if name != "budget" and not name.startswith("picture"):
            assert make(kept), name
    assert any("zero − random" in line for line in questions.start(kept))


def test_the_page_refuses_a_mark_that_nothing_makes(tiny):
    with pytest.raises(ValueError, match="'nonsense', for which there is no table"):
        fill("<!-- nonsense -->\n<!-- end of nonsense -->", Kept(tiny.kept))


def test_growth_is_last_minus_first_with_both_widths():
    def entry(shots, improvement, ci):
        return compared.Entry("bank", "", 16, shots, improvement, ci, 0.5, 1.0, True)

    some = [entry("25", 0.05, 0.004), entry("1", 0.01, 0.003), entry("5", 0.9, 0.1)]
    assert compared.growth(some, "shots") == pytest.approx((0.04, 0.005))
    assert compared.growth(some[:1], "shots") is None
    schemes = [entry("unbalanced-8", 0.1, 0.1), entry("unbalanced-15", 0.2, 0.1)]
    assert compared.growth(schemes, "shots") is None


def test_one_list_of_published_numbers_serves_every_table():
    """Table A4 is quoted as printed, with Firth; Table 1 without its lines of the better choice."""
    printed = compared.published_entries("confidence")
    assert {entry.source for entry in printed} == {"table"}
    assert {entry.penalty for entry in printed} == {"firth", "confidence"}
    assert (
        overview.published_counts("confidence", "confidence", "uniform") == "2 better, 0 worse of 3"
    )
    assert len(compared.published_entries("calibration-cross")) == 16


@COMMITTED
def test_the_agreement_counts_what_the_counts_count():
    """Where the tables show all backbones, both count the same gains of the paper."""
    line = next(line for line in agreement.agreement(Kept(KEPT)) if "confidence penalty" in line)
    assert "+, 2 of 3" in line


@WITH_BANKS
def test_the_projection_scales_the_published_plan_by_what_was_measured():
    task = next(t for t in plan.read_tasks() if t.place == "logistic-firth/mini-resnet10")
    spec = settle_banks(task.spec())
    banks = open_banks(spec)
    own = budget.model_seconds(make_plan(spec, banks))
    facts = {"banks": {}, "trials": spec.trials, "classifiers": 1, "machine": "", "firthshot": ""}
    once, twice = (
        next(
            budget.study_costs(
                [
                    keep.Record(
                        study="logistic-firth", bank="mini-resnet10", spec="",
                        processor_seconds=factor * own, **facts,
                    )
                ]
            )
        ).published
        for factor in (1, 2)
    )  # fmt: skip
    # Figure 2: five backbones, two splits, six shots, eight coefficients, 1000 trials.
    assert once.classifiers == 5 * 2 * 6 * 8 * 1000
    assert twice.seconds == pytest.approx(2 * once.seconds)
    assert once.seconds > own * 1000 / spec.trials


def test_markdown_tables_align_numbers_to_the_right():
    lines = words.table([{"a": "x", "b": 1}, {"a": None, "b": 2}])
    assert lines == ["| a | b |", "|---|---:|", "| x | 1 |", "|  | 2 |"]
    assert words.gain(-0.0123, 0.001, significant=True) == "**−1.23 ± 0.10**"
    assert words.gain(0.0, 0.0) == "0"


# What is committed


@COMMITTED
def test_kept_summaries_are_of_the_committed_specs_and_banks():
    records = keep.read_records(KEPT)
    assert records
    for record in records:
        place = f"{record.study}/{record.bank or plan.NO_BANK}"
        spec = FOLDER / "specs" / f"{place}.toml"
        assert record.spec == hashlib.sha256(spec.read_bytes()).hexdigest(), place
        for name, digest in record.banks.items():
            if name in INSTALLED:
                assert load_bank(name).meta.sha256 == digest, place


@COMMITTED
def test_kept_tables_hold_every_record_and_nothing_else():
    kept = Kept(KEPT)
    expected = {(record.study, record.bank) for record in kept.records if record.bank}
    for frame in (kept.all, kept.chosen):
        assert set(frame.select("study", "bank").unique().rows()) == expected
    trials = {(record.study, record.bank): record.trials for record in kept.records}
    for study, bank, count in kept.chosen.select("study", "bank", "trials").rows():
        assert 0 < count <= trials[study, bank]


@COMMITTED
@WITH_BANKS
def test_the_page_has_the_tables_that_the_kept_summaries_make():
    kept, found = Kept(KEPT), []
    for page in PAGES:
        text = page.read_text("utf-8")
        found += marks(text)
        assert fill(text, kept) == text
    assert sorted(found) == sorted(makers())
