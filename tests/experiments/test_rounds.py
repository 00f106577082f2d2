"""More trials until intervals are narrow: by width alone, the same after an interruption."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from experiments.summary_folders import KEY, grid, write
from experiments.toy import assert_same_run, read_tables, toy_spec, write_bank
from firthshot.experiments.rounds import Rounds, half_widths
from firthshot.experiments.runner import run
from listeners import Heard, StopAt

PLACE = (KEY["bank"], KEY["ways"], KEY["shots"], KEY["shots_scheme"])
GAINS = np.random.default_rng(0).normal(0.02, 0.05, 40)


def widest(folder: Path, gains: Any, reached: int = 40, chosen: float = 1.0) -> float:
    """Return the width where coefficient 1 gains so much over 0 in each novel trial."""
    val = {lam: [0.5 + 0.1 * (lam == chosen)] * 5 for lam in (0.0, 1.0)}
    novel = {0.0: [0.5] * len(gains), 1.0: 0.5 + np.asarray(gains)}
    write(folder, [*grid(val, split="val"), *grid(novel, split="novel")])
    return half_widths(folder, {PLACE: reached})[PLACE]


def test_the_width_is_that_of_the_chosen_improvement(tmp_path: Path) -> None:
    expected = 100 * stats.t.ppf(0.975, 29) * GAINS[:30].std(ddof=1) / math.sqrt(30)
    assert widest(tmp_path, GAINS, reached=30) == pytest.approx(expected, rel=1e-5)


def test_the_sign_does_not_matter(tmp_path: Path) -> None:
    up, down = (widest(tmp_path / name, sign * GAINS) for name, sign in (("up", 1), ("down", -1)))
    assert up == pytest.approx(down, rel=1e-5)


def test_a_chosen_zero_counts_as_reached(tmp_path: Path) -> None:
    assert widest(tmp_path, GAINS, chosen=0.0) == 0


def test_one_trial_is_not_narrow(tmp_path: Path) -> None:
    assert widest(tmp_path, GAINS, reached=1) == math.inf


@pytest.fixture
def spec(tmp_path: Path) -> Any:
    path = write_bank(tmp_path / "toy.bank", rows=20, d=4)
    return toy_spec(
        path, trials=20, until_ci=2.0, max_trials=150, heads=["linear", "cosine"],
        coefficients=[0, 1], sgd={"epochs": 20}, references=True, shots=[1, 3],
    )  # fmt: skip


def test_trials_are_added_until_narrow_or_capped(spec: Any, tmp_path: Path) -> None:
    heard = Heard()
    run(spec, tmp_path / "run", listener=heard, summary=False)
    rows = read_tables(tmp_path / "run")["parts"]
    assert rows.filter(pl.col("split") == "val")["trial"].max() == 19
    novel = rows.filter(pl.col("split") == "novel")
    counts = novel.group_by("shots", "head").agg(pl.col("trial").n_unique().alias("n"))
    reached = {}
    for shots in (1, 3):
        (n,) = set(counts.filter(pl.col("shots") == shots)["n"])  # all methods have the same
        reached["toy", 3, shots, "balanced"] = n
    assert max(reached.values()) > 20
    for (_, _, shots, _), width in half_widths(tmp_path / "run", reached).items():
        at_cap = reached["toy", 3, shots, "balanced"] == 150
        assert width <= 2.0 or at_cap
        assert any(f"{shots}-shot stays at" in line for line in heard.lines) == (width > 2.0)


def test_an_interrupted_run_adds_the_same(spec: Any, tmp_path: Path) -> None:
    run(spec, tmp_path / "whole", workers=1, summary=False)
    cells = len(list((tmp_path / "whole/parts").iterdir()))
    for after in (1, 3, 2, 5, 4):
        with pytest.raises(KeyboardInterrupt):
            run(spec, tmp_path / "cut", workers=1, listener=StopAt(after), summary=False)
        if len(list((tmp_path / "cut/parts").iterdir())) >= cells - 6:
            break
    run(spec, tmp_path / "cut", workers=2, summary=False)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_nothing_is_added_without_a_target(spec: Any) -> None:
    import msgspec

    from firthshot.experiments.plan.layout import Plan

    plain = msgspec.structs.replace(spec, until_ci=None)
    assert Rounds(plain, Plan((), (), 20)).next_cells(Path()) == []
