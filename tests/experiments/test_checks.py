"""The optimiser's failures are seen, named, and not the penalty's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from experiments.summary_folders import grid, write
from firthshot.engine import Converged, Linear, Penalty, Sgd, Status, train
from firthshot.episodes import sample_episodes
from firthshot.experiments.checks import read_checks
from firthshot.experiments.summary import read_summary, summarise
from firthshot.report.gather import gather
from firthshot.report.page.render import headline_of
from firthshot.report.tables import make_tables
from firthshot.report.wording.cards import remarks
from report.runs_made import toy_run


def test_steps_too_long_for_the_penalised_loss_are_unstable(bank):
    """λ = 8 makes the loss nine times as steep; a shorter step or the optimum shows the truth."""
    episodes = sample_episodes(bank, "novel", ways=5, shots=4, trials=6, queries=10)
    penalty = Penalty("firth", (0.0, 0.1, 8.0))
    features = 8 * bank.features.astype(np.float32)
    results = train(features, episodes, Linear(), Sgd(0.01, epochs=60), penalty)
    assert (results.status[:, :2] == Status.OK).all()
    assert (results.status[:, 2] == Status.UNSTABLE).all()
    assert "with coefficient 8 is unstable" in results.problems()[0]
    for better in (Sgd(0.0002, epochs=400), Converged()):
        calm = train(features, episodes, Linear(start="zero"), better, penalty)
        assert (calm.status[:, 1:] == Status.OK).all()
        assert calm.accuracy[:, 2].mean() > results.accuracy[:, 2].mean() + 0.1


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    from experiments.toy import write_bank
    from firthshot import load_bank

    return load_bank(write_bank(tmp_path_factory.mktemp("checks") / "toy.bank"))


def test_an_unstable_coefficient_is_no_loss_of_firth(tmp_path: Path) -> None:
    run = toy_run(tmp_path, ways=[5], shots=[4], coefficients=[0, 0.1, 30],
                  sgd={"epochs": 60, "learning_rate": 0.3})  # fmt: skip
    rows = pl.concat([pl.read_parquet(part) for part in (run / "parts").glob("*.parquet")])
    assert set(rows.filter(pl.col("coefficient") == 30)["status"]) == {"unstable"}
    (check,) = (one for one in read_checks(run) if one.coefficient == 30)
    assert check.unstable == 30
    assert check.optimum is not None
    assert check.optimum > 0.7
    (verdict,) = gather([run]).verdicts
    (said,) = (one.text for one in remarks(verdict) if one.topic == "training")
    assert "30 is unstable at this learning rate at 5 ways, 4 shots (" in said
    assert "% at the optimum). Those trials are left out" in said
    assert "costs" not in headline_of(gather([run])).answer


def test_a_random_start_is_told_from_the_penalty(tmp_path: Path) -> None:
    """Many directions that one row per class does not span keep the noise of the start."""
    run = toy_run(tmp_path, bank={"d": 200}, ways=[5], shots=[1], coefficients=[0, 0.1],
                  sgd={"epochs": 60, "learning_rate": 0.005})  # fmt: skip
    (check,) = (one for one in read_checks(run) if one.theory)
    assert check.trained is not None
    assert check.zero is not None
    assert check.trained < -0.1 < check.zero
    (verdict,) = gather([run]).verdicts
    assert check.optimum_gain is not None
    assert check.optimum_gain > -0.02
    (outcome,) = verdict.outcomes
    assert (outcome.theory_standing, outcome.theory_charge) == ("training", None)
    (said,) = (one.text for one in remarks(verdict) if one.topic == "theory")
    assert "by the random start of its training: from zero weights it does not." in said


def test_gains_are_solved_too_and_closed_forms_never(tmp_path: Path) -> None:
    run = toy_run(tmp_path, heads=["linear", "tim-gd"], ways=[5], shots=[4])
    checks = [one for one in read_checks(run) if one.coefficient]
    solved = {one.key["head"]: one.optimum_gain for one in checks}
    assert solved["tim-gd"] is None
    assert all(one.optimum_gain is not None for one in checks if one.key["head"] == "linear")
    (made,) = (t for t in make_tables(gather([run])) if t.name.startswith("improvement-linear"))
    (row,) = (dict(zip(made.columns, cells, strict=True)) for cells in made.rows)
    (theory,) = (one for one in checks if one.theory and one.key["head"] == "linear")
    assert theory.optimum_gain is not None
    assert row["Theory at the optimum"] == round(100 * theory.optimum_gain, 2)
    assert "At the optimum: the improvement on at most 50 trials" in made.note


def test_separable_data_at_the_optimum_have_a_verdict(tmp_path: Path) -> None:
    run = toy_run(tmp_path, ways=[3], shots=[1], solver="converged")
    rows = pl.concat([pl.read_parquet(part) for part in (run / "parts").glob("*.parquet")])
    assert "separable" in set(rows.filter(pl.col("coefficient") == 0)["status"])
    (verdict,) = gather([run]).verdicts
    (said,) = (one.text for one in remarks(verdict) if one.topic == "training")
    assert said == (
        "Without penalty there is no optimum where the support is separable at 3 ways, 1 shot. "
        "λ = 0 stands for a ridge of 0.0001, close to the maximum margin."
    )
    (note,) = (line for line in read_summary(run).warnings if "λ = 0 has no optimum" in line)
    assert "novel and 1 more setting: λ = 0 has no optimum" in note


def test_a_head_that_no_coefficient_changes_has_no_coefficient(tmp_path: Path) -> None:
    """It counts as a head without penalty, once, not as one that chose λ = 0."""
    same = {0: [0.5, 0.6, 0.7], 1: [0.5, 0.6, 0.7]}
    parts = [
        grid(same, head="mine", penalty=penalty, split=split)
        for penalty in ("firth", "l2")
        for split in ("val", "novel")
    ]
    found = summarise(write(tmp_path, *parts))
    assert found.chosen.select("head", "penalty").rows() == [("mine", "none")]
    assert "mine: no λ changes this head, so it counts as one without penalty." in found.warnings


def test_every_head_is_contrasted_with_every_other(tmp_path: Path) -> None:
    parts = [
        grid(
            {0: [0.1, 0.2, 0.3], 1: [0.4, 0.2 + at / 50, 0.3]},
            head=head,
            penalty=penalty,
            split=split,
        )
        for at, (head, penalty) in enumerate(
            [("linear", "firth"), ("linear", "l2"), ("cosine", "firth"), ("ridge", "l2")]
        )
        for split in ("val", "novel")
    ]  # fmt: skip
    parts += [grid({0: [0.2, 0.2, 0.2]}, head=head, penalty="none") for head in ("mine", "other")]
    names = ("head", "penalty", "against_head", "against_penalty")
    lines = summarise(write(tmp_path, *parts)).contrasts.select(names).rows()
    found = {frozenset((line[:2], line[2:])) for line in lines}
    firth, l2, cosine, ridge = (
        ("linear", "firth"), ("linear", "l2"), ("cosine", "firth"), ("ridge", "l2")
    )  # fmt: skip
    mine, other = ("mine", "none"), ("other", "none")
    expected = {frozenset(pair) for pair in [
        (firth, l2), (firth, cosine), (l2, ridge), (cosine, ridge), (mine, other),
        *((one, head) for one in (firth, l2, cosine, ridge) for head in (mine, other)),
    ]}  # fmt: skip
    assert found == expected
