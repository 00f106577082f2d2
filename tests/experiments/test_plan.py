"""Plans: what a bank can hold, what gives way, and cells that are known by their content."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.toy import toy_spec, write_bank
from firthshot.banks import Bank, load_bank, load_version, make_bank
from firthshot.cli.presets import presets
from firthshot.errors import FirthshotError
from firthshot.experiments.plan import layout as plan_module
from firthshot.experiments.plan.cell import condense
from firthshot.experiments.plan.layout import make_plan
from firthshot.experiments.run.compute import draw
from firthshot.experiments.spec.choose import bank_remark, open_banks, settle_banks
from firthshot.experiments.spec.reading import load_spec
from firthshot.experiments.spec.shots import SCHEMES, from_plain, plan_shots


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_bank(tmp_path / "toy.bank")  # 6 val and 8 novel classes of 30 rows


def planned(path: Path, **fields: Any) -> Any:
    return make_plan(toy_spec(path, **fields), [load_bank(path)])


def conditions(plan: Any) -> list[Any]:
    return list(dict.fromkeys(setting.condition for setting in plan.settings))


def test_blocks_cover_every_trial_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "block_size", lambda method, shape, trials: 4)
    plan = planned(path, trials=10)
    for setting in plan.settings:
        blocks = [range(cell.first, cell.stop) for cell in setting.cells(0, 10)]
        assert [list(block) for block in blocks] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        later = [(cell.first, cell.stop) for cell in setting.cells(10, 21)]
        assert later == [(10, 12), (12, 16), (16, 20), (20, 21)]


def test_identities_differ_and_do_not_depend_on_the_process(path: Path) -> None:
    cells = planned(path, trials=6, l2_coefficients=[0, 5], penalties=["firth", "l2"]).cells
    identities = [cell.identity for cell in cells]
    assert len(set(identities)) == len(cells)
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path\n"
        "from toy import toy_spec; from firthshot.banks import load_bank\n"
        "from firthshot.experiments.plan.layout import make_plan\n"
        "spec = toy_spec(Path(sys.argv[1]), trials=6, l2_coefficients=[0, 5],"
        " penalties=['firth', 'l2'])\n"
        "print(*(cell.identity for cell in make_plan(spec, [load_bank(sys.argv[1])]).cells))"
    )
    arguments = [sys.executable, "-c", code, str(path), str(Path(__file__).parent)]
    printed = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    assert printed.split() == identities


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dtype", "float64"),
        ("queries", 6),
        ("first_classes", True),
        ("transform", "l2"),
        ("start", "zero"),
        ("sgd", {"epochs": 4}),
        ("l2", 0.5),
        ("theory", False),
    ],
)
def test_whatever_changes_rows_changes_the_identity(path: Path, field: str, value: Any) -> None:
    plain = {cell.identity for cell in planned(path, heads=["linear"]).cells}
    other = {cell.identity for cell in planned(path, heads=["linear"], **{field: value}).cells}
    assert not plain & other


def test_the_ridge_is_in_the_identity_of_its_reference_alone(path: Path) -> None:
    cells = [planned(path, references=True, ridge=ridge).cells for ridge in (1.0, 2.0)]
    changed = {a.method.head for a, b in zip(*cells, strict=True) if a.identity != b.identity}
    assert changed == {"least-squares"}


def test_the_bank_is_part_of_the_identity(path: Path, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    twin = write_bank(tmp_path / "more" / "toy.bank", d=13)
    plain = {cell.identity for cell in planned(path).cells}
    assert not plain & {cell.identity for cell in planned(twin).cells}


def test_more_ways_than_novel_classes_are_skipped_and_listed(path: Path) -> None:
    plan = planned(path, ways=[3, 9])
    assert {condition.ways for condition in conditions(plan)} == {3}
    assert condense(plan.notes) == [
        "toy, val/novel, 9 ways, 1/2 shots: there are 8 novel classes, so skipped."
    ]


def test_more_ways_than_val_classes_are_tuned_at_fewer(path: Path) -> None:
    plan = planned(path, ways=[7])
    found = {(c.split, c.ways, c.actual_ways) for c in conditions(plan)}
    assert found == {("val", 7, 6), ("novel", 7, 7)}
    (sentence,) = condense(plan.notes)
    assert sentence.startswith("toy, val, 7 ways, 1/2 shots: there are 6 val classes, so coeff")


def test_a_query_rule_that_cannot_be_met_falls_back(path: Path) -> None:
    plan = planned(path, shots=[5, 20], queries=15, fixed_query=True)
    assert {c.shots: c.query_rule for c in conditions(plan)} == {5: "15 fixed", 20: "rest"}
    assert "20 shots: classes are too small for the query rule 15" in condense(plan.notes)[0]


def test_too_few_rows_for_the_shots(path: Path) -> None:
    plan = planned(path, shots=[29, 30])
    assert {condition.shots for condition in conditions(plan)} == {29}
    said = " ".join(condense(plan.notes))
    assert "val/novel, 3 ways, 30 shots: the novel class 'class 8' has 30 rows, too few" in said


def test_one_small_novel_class_is_refused_before_validation_is_trained(tmp_path: Path) -> None:
    labels = np.repeat(np.arange(8), [1, *[30] * 7])
    bank = make_bank(
        np.random.default_rng(0).normal(size=(len(labels), 4)), labels, name="uneven",
        classes=list("abcdefgh"), class_splits=["novel"] * 4 + ["val"] * 4,
    )  # fmt: skip
    spec = toy_spec(tmp_path / "uneven.bank", shots=[1, 2])
    with pytest.raises(FirthshotError) as caught:
        make_plan(spec, [bank])
    assert str(caught.value) == (
        "There is nothing to run (uneven, val/novel, 3 ways, 1/2 shots: the novel class 'a' has 1 "
        "row, too few for these shots and a query, so skipped): import the bank again without "
        "classes of fewer than 2 rows."
    )


def test_nothing_left_is_an_error(path: Path) -> None:
    with pytest.raises(FirthshotError, match=r"There is nothing to run \(toy, val/novel, 50 ways"):
        planned(path, ways=[50])
    with pytest.raises(FirthshotError, match="ask for at most 8 ways") as caught:
        planned(path, ways=[9, 10])
    assert caught.value.arguments == ("set=ways=[8]",)


def test_a_preset_is_shown_for_a_bank_that_it_cannot_run_on(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    presets("logistic-l2", [str(path)])
    shown = capsys.readouterr().out
    assert "fixed_query" in shown
    assert "cells" not in shown
    *_, last = shown.splitlines()
    assert last.startswith("There is nothing to run (toy, val/novel, 16 ways")


def test_a_bank_without_val_classes(tmp_path: Path) -> None:
    """Half of its novel classes take their place, and the plan says so."""
    path = write_bank(tmp_path / "toy.bank", val=0)
    spec = toy_spec(path)
    (bank,) = open_banks(spec)
    plan = make_plan(spec, [bank])
    assert {condition.split for condition in conditions(plan)} == {"val", "novel"}
    assert condense(plan.notes)[0] == (
        "toy has no validation classes: λ is chosen on 4 of its 8 novel classes, drawn by seed 0, "
        "and tested on the other 4."
    )
    whole = load_bank(path)
    assert set(bank.classes("val")) | set(bank.classes("novel")) == set(whole.classes("novel"))
    bank.verify()
    assert load_version(path, bank.meta.sha256).classes("val") == bank.classes("val")
    assert load_version(path, whole.meta.sha256).splits == whole.splits
    assert load_version(path, "0" * 64) is None


@pytest.mark.parametrize("changed", [{"splits": ["novel"]}, {"ways": [5]}])
def test_novel_classes_stay_where_halves_would_not_do(tmp_path: Path, changed: Any) -> None:
    spec = toy_spec(write_bank(tmp_path / "toy.bank", val=0), **changed)
    assert "val" not in open_banks(spec)[0].splits
    assert {c.split for c in conditions(make_plan(spec, open_banks(spec)))} == {"novel"}


def test_banks_of_one_name_are_refused(path: Path) -> None:
    bank = load_bank(path)
    with pytest.raises(FirthshotError, match="Two banks are called 'toy'"):
        make_plan(toy_spec(path), [bank, bank])


def test_the_papers_query_rule(path: Path) -> None:
    plan = planned(path, queries="20 minus shots", shots=[1, 5])
    assert {c.shots: c.queries for c in conditions(plan)} == {1: 19, 5: 15}


@pytest.mark.parametrize(
    ("name", "total", "label"), [("unbalanced-8", 120, 8), ("unbalanced-15", 240, 15)]
)
def test_the_papers_unbalanced_schemes(name: str, total: int, label: int) -> None:
    shots = plan_shots(name, 16)
    assert shots.counts == SCHEMES[name]
    assert (sum(shots.counts), shots.label, shots.scheme) == (total, label, name)


@pytest.mark.parametrize("ways", [2, 5, 15, 20])
@pytest.mark.parametrize("name", SCHEMES)
def test_schemes_for_other_ways_keep_their_spread(name: str, ways: int) -> None:
    counts = plan_shots(name, ways).counts
    pattern = np.array(SCHEMES[name])
    assert isinstance(counts, tuple)
    assert len(counts) == ways
    assert list(counts) == sorted(counts)
    assert set(counts) <= set(pattern)
    assert counts[0] == pattern[0]


def test_drawn_shots_have_their_mean(path: Path) -> None:
    plan = planned(path, shots=["dirichlet-3", "unbalanced-8"], queries="rest", ways=[4])
    bank: Bank = load_bank(path)
    for condition in conditions(plan):
        episodes = draw(condition, bank, range(5))
        assert episodes.support.shape == (5, 12 if condition.scheme == "dirichlet-3" else 30)
    assert from_plain(["dirichlet", 3, 1.0]).mean == 3  # type: ignore[union-attr]


def test_default_banks(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTHSHOT_BANKS", str(tmp_path / "installed"))
    monkeypatch.chdir(tmp_path)
    spec = load_spec("cosine")
    assert settle_banks(spec).banks == ("clinc150-minilm",)
    assert "not on the paper's banks" in bank_remark(settle_banks(spec))
    (tmp_path / "installed").mkdir()
    write_bank(tmp_path / "installed" / "mini-resnet10.bank")
    assert settle_banks(spec).banks == ("mini-resnet10",)  # stands in
    assert "not on the paper's banks" in bank_remark(settle_banks(spec))
    write_bank(tmp_path / "installed" / "mini-wrn28-10-eval.bank")
    write_bank(tmp_path / "installed" / "mini-resnet101.bank")
    settled = settle_banks(spec)
    assert settled.banks == ("mini-wrn28-10-eval",)
    assert "not installed: cifarfs-wrn28-10, tiered-wrn28-10" in bank_remark(settled)
    given = settle_banks(load_spec("cosine", {"banks": ["toy.bank"]}))
    assert given.banks == (str(path.resolve()),)
