"""Runs that are taken together: only what was trained alike, on the same bank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from experiments.summary_folders import grid, write
from experiments.toy import toy_spec, write_bank
from firthshot.errors import FirthshotError
from firthshot.experiments import run
from firthshot.experiments.summary import RunSummary, summarise_many

ONE = {"heads": ["linear"], "shots": [1]}


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    return write_bank(tmp_path / "toy.bank")


def ran(bank: Path, out: Path, **fields: Any) -> Path:
    run(toy_spec(bank, **{**ONE, **fields}), out, workers=1, summary=False)
    return out


def refusal(*folders: Path) -> str:
    with pytest.raises(FirthshotError) as refused:
        summarise_many(folders)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("common", "other", "words"),
    [
        ({}, {"sgd": {"epochs": 5}}, "sgd.epochs is 3 and 5"),
        ({}, {"sgd": {"epochs": 3, "shuffle": False}}, "sgd.shuffle is true and false"),
        ({}, {"start": "zero"}, 'start is "xavier" and "zero"'),
        ({}, {"dtype": "float64"}, 'dtype is "float32" and "float64"'),
        ({}, {"first_classes": True}, "first_classes is false and true"),
        ({"heads": ["cosine"]}, {"scale": 10.0}, "scale is not set and 10.0"),
        ({"heads": ["mlp"]}, {"hidden": [8, 4]}, "hidden is [100, 50] and [8, 4]"),
        (
            {"solver": "converged"},
            {"converged": {"tolerance": 1e-3}},
            "converged.tolerance is 1e-06 and 0.001",
        ),
    ],
)
def test_another_training_of_the_same_setting_is_refused(
    bank: Path, tmp_path: Path, common: dict[str, Any], other: dict[str, Any], words: str
) -> None:
    first = ran(bank, tmp_path / "a", **common)
    second = ran(bank, tmp_path / "b", **{**common, **other}, first_trial=4)
    said = refusal(first, second)
    head = common.get("heads", ["linear"])[0]
    assert said.startswith(f"{first} and {second} trained toy, 3-way 1-shot, {head} (")
    assert f"differently ({words}), so" in said
    assert said.endswith("report them apart, or run one again with the settings of the other.")


def test_another_ridge_of_the_reference_is_refused(bank: Path, tmp_path: Path) -> None:
    first = ran(bank, tmp_path / "a", references=True)
    other = ran(bank, tmp_path / "b", references=True, ridge=2.0, first_trial=4)
    assert "least-squares (closed-form), none differently (ridge is 1.0 and 2.0)" in refusal(
        first, other
    )


def test_another_bank_of_the_same_name_is_refused(bank: Path, tmp_path: Path) -> None:
    (tmp_path / "else").mkdir()
    namesake = write_bank(tmp_path / "else" / "toy.bank", d=10)
    first = ran(bank, tmp_path / "a")
    second = ran(namesake, tmp_path / "b", first_trial=4)
    said = refusal(first, second)
    assert said.startswith(f"{first} and {second} ran on different banks that are both called")
    digests = (json.loads((at / "banks.json").read_text()) for at in (first, second))
    for digest in (banks["toy"]["sha256"] for banks in digests):
        assert digest[:12] in said
    # Nor beside one another: contrasts and reference heads go by the bank's name.
    refusal(first, ran(namesake, tmp_path / "c", penalties=["l2"]))
    renamed = write_bank(tmp_path / "else" / "renamed.bank", d=10)
    together = summarise_many([first, ran(renamed, tmp_path / "d")]).chosen
    assert sorted(together["bank"]) == ["renamed", "toy"]


def test_a_choice_needs_validation_trials_of_the_same_training(bank: Path, tmp_path: Path) -> None:
    val = ran(bank, tmp_path / "val", splits=["val"])
    alike = ran(bank, tmp_path / "novel", splits=["novel"])
    assert len(summarise_many([val, alike]).chosen) == 1
    other = ran(bank, tmp_path / "other", splits=["novel"], sgd={"epochs": 5})
    assert "sgd.epochs is 5 and 3" in refusal(val, other)


def test_what_is_trained_alike_or_is_another_setting_is_taken_together(
    bank: Path, tmp_path: Path
) -> None:
    first = ran(bank, tmp_path / "a", references=True, sgd={})
    published = ran(
        bank, tmp_path / "b", references=True, sgd={"epochs": 400}, first_trial=4, trials=5
    )
    assert set(summarise_many([first, published]).chosen["trials"]) == {9}
    # Other heads have other settings; the reference heads do not read them.
    other = ran(bank, tmp_path / "c", references=True, heads=["cosine"], dtype="float64")
    assert set(summarise_many([first, other]).chosen["head"]) == {
        *("linear", "cosine", "centroid", "least-squares")
    }


def by_hand(folder: Path, spec: str, start: int, **key: Any) -> Path:
    """Write a run folder without the runner; both splits choose coefficient 1."""
    rows = [
        line | {"trial": line["trial"] + start}
        for split in ("val", "novel")
        for line in grid({0: [0.1] * 3, 1: [0.2] * 3}, split=split, **key)
    ]
    write(folder, rows, start=start)
    (folder / "spec.toml").write_text(f'name = "mine"\n{spec}\n')
    (folder / "banks.json").write_text('{"toy": {"sha256": "abc"}}')
    return folder


def test_heads_that_are_not_registered_here(tmp_path: Path) -> None:
    heads = 'heads = ["mine"]'
    first = by_hand(tmp_path / "a", f"{heads}\nsgd = {{epochs = 7}}", 0, head="mine")
    alike = by_hand(tmp_path / "b", f"{heads}\nsgd = {{epochs = 7}}", 3, head="mine")
    other = by_hand(tmp_path / "c", f"{heads}\nsgd = {{epochs = 9}}", 6, head="mine")
    assert summarise_many([first, alike]).chosen["trials"].to_list() == [6]
    assert "sgd.epochs is 7 and 9" in refusal(first, other)


def test_artificial_rows_are_drawn_alike(tmp_path: Path) -> None:
    spec = 'solver = "converged"\ncalibration = {neighbours = %d}'
    key = {"solver": "converged", "source": "toy"}
    for artificial, words in ((750, "calibration.neighbours is 2 and 3"), (0, "")):
        folders = [
            by_hand(tmp_path / f"{artificial}-{n}", spec % n, 3 * n, artificial=artificial, **key)
            for n in (2, 3)
        ]
        if words:
            assert words in refusal(*folders)
        else:  # without artificial rows nobody asks for neighbours
            assert summarise_many(folders).chosen["trials"].to_list() == [6]


def test_a_spec_of_another_version_is_named(tmp_path: Path) -> None:
    first = by_hand(tmp_path / "a", "", 0)
    strange = by_hand(tmp_path / "b", "temperature = 3", 3)
    said = refusal(first, strange)
    assert said.startswith(f"{strange / 'spec.toml'} is no spec of this version")
    assert "temperature" in said


# ---- methods against one another ---------------------------------------------------------------


def contrasts(found: RunSummary) -> list[tuple[Any, ...]]:
    mine = found.contrasts.filter(pl.col("against_penalty") != "none")
    return mine.select("penalty", "prior", "against_penalty", "against_prior").rows()


def test_methods_are_contrasted_only_where_they_were_trained_alike(
    bank: Path, tmp_path: Path
) -> None:
    firth = ran(bank, tmp_path / "firth", shots=[1, 2])
    ridge = {"penalties": ["l2"], "shots": [1, 2]}
    alike = summarise_many([firth, ran(bank, tmp_path / "alike", **ridge)])
    assert contrasts(alike) == [("firth", "uniform", "l2", "uniform")] * 2
    assert not any("not contrasted" in line for line in alike.warnings)
    shorter = ran(bank, tmp_path / "shorter", **ridge, sgd={"epochs": 1})
    found = summarise_many([firth, shorter])
    assert contrasts(found) == []
    assert set(found.chosen["penalty"]) == {"firth", "l2"}
    (said,) = (line for line in found.warnings if "contrasted" in line)
    assert said == (
        "linear (sgd): firth and l2 are not contrasted, as the runs trained them differently "
        "(sgd.epochs is 3 and 1)."
    )


@pytest.mark.parametrize(
    ("firth", "ridge", "same"),
    [
        ({}, {}, True),
        ({}, {"l2_kind": "ridge"}, True),  # of an L2 of 0 there is one kind
        ({"l2": 0.1}, {"l2": 0.1}, True),
        ({"l2": 0.1}, {}, False),
        ({"l2": 0.1}, {"l2": 0.1, "l2_kind": "ridge"}, False),
    ],
)
def test_two_methods_at_coefficient_zero_are_one_classifier(
    tmp_path: Path, firth: dict[str, Any], ridge: dict[str, Any], same: bool
) -> None:
    """Whose scores may differ by rounding: with other coefficients beside it, sums differ."""
    parts = []
    for how, first in (({"penalty": "firth", **firth}, 0.5), ({"penalty": "l2", **ridge}, 0.51)):
        parts.append(grid({0: [0.3, 0.3], 1: [0.1, 0.1]}, split="val", **how))
        parts.append(grid({0: [first, 0.6, 0.7], 1: [0.1] * 3}, **how))
    (line,) = summarise_many([write(tmp_path, *parts)]).contrasts.to_dicts()
    assert line["coefficient"] == line["against_coefficient"] == 0
    scores = ("difference", "difference_ci", "nll_difference", "brier_difference", "share_lost")
    assert [line[name] == 0 for name in scores] == [same] * len(scores)
    assert (line["accuracy"] == line["against_accuracy"]) == same


def test_equal_shots_make_one_method_of_two_priors(bank: Path, tmp_path: Path) -> None:
    priors = {"priors": ["uniform", "class-frequency"], "penalties": ["firth", "l2"]}
    folder = ran(bank, tmp_path / "run", **priors, shots=[1, "unbalanced-8"])
    found = summarise_many([folder])
    itself = found.contrasts.filter(pl.col("against_penalty") == "firth")
    assert itself["shots_scheme"].to_list() == ["unbalanced-8"]
    balanced = found.contrasts.filter(pl.col("shots_scheme") == "balanced")
    assert sorted(balanced["prior"]) == ["class-frequency", "uniform"]  # each against L2
    assert len(found.chosen.filter(pl.col("penalty") == "firth")) == 4  # Holm's family is whole
