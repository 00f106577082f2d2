"""More trials until intervals are narrow: by width alone, the same after an interruption."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from experiments.toy import assert_same_run, read_tables, toy_spec, write_bank
from firthshot.experiments.run.rounds import Rounds, choose, half_widths
from firthshot.experiments.runner import run
from firthshot.experiments.schema import ARTIFICIAL, METHOD, PLACE
from listeners import Heard, StopAt

KEY = ("b", 5, 1, "balanced")


def made_up(gains: dict[str, Any], val_best: float = 1.0) -> pl.DataFrame:
    """Return rows in which coefficient 1 gains so much over 0 in each novel trial."""
    rows = []
    keys = dict(zip(PLACE, KEY, strict=True)) | dict.fromkeys((*METHOD, *ARTIFICIAL), "m")
    for split, values in gains.items():
        for trial, gain in enumerate(values):
            for coefficient, accuracy in ((0.0, 0.5), (1.0, 0.5 + gain)):
                best = 0.1 * (coefficient == val_best) if split == "val" else 0.0
                rows.append(
                    {**keys, "split": split, "coefficient": coefficient, "theory": False,
                     "trial": trial, "accuracy": accuracy + best}
                )  # fmt: skip
    return pl.DataFrame(rows)


def test_the_width_is_that_of_the_chosen_improvement() -> None:
    gains = np.random.default_rng(0).normal(0.02, 0.05, 40)
    rows = made_up({"val": [0.0] * 5, "novel": gains})
    width = half_widths(rows, {KEY: 30}, 5)[KEY]
    expected = 100 * stats.t.ppf(0.975, 29) * gains[:30].std(ddof=1) / math.sqrt(30)
    assert width == pytest.approx(expected)


def test_the_sign_does_not_matter() -> None:
    gains = np.random.default_rng(0).normal(0.02, 0.05, 40)
    up, down = (made_up({"val": [0.0] * 5, "novel": sign * gains}) for sign in (1, -1))
    assert half_widths(up, {KEY: 40}, 5) == pytest.approx(half_widths(down, {KEY: 40}, 5))


def test_a_chosen_zero_counts_as_reached() -> None:
    gains = np.random.default_rng(0).normal(0.02, 0.05, 40)
    rows = made_up({"val": [0.0] * 5, "novel": gains}, val_best=0.0)
    assert half_widths(rows, {KEY: 40}, 5)[KEY] == 0


def test_equal_means_choose_the_smaller_coefficient() -> None:
    rows = made_up({"val": [0.0] * 5}, val_best=-1)
    assert list(choose(rows).values()) == [0.0]
    # Equal to the rounding of the stored accuracies, as in the summary.
    assert list(choose(made_up({"val": [2.0**-25] * 5}, val_best=-1)).values()) == [0.0]
    assert list(choose(made_up({"val": [2.0**-20] * 5}, val_best=-1)).values()) == [1.0]


def test_a_coefficient_that_lacks_a_trial_is_no_candidate() -> None:
    rows = made_up({"val": [0.0] * 5})
    assert list(choose(rows).values()) == [1.0]
    lacking = rows.filter((pl.col("coefficient") == 0) | (pl.col("trial") != 3))
    assert list(choose(lacking).values()) == [0.0]


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
    penalised = rows.filter(pl.col("penalty") != "none")
    reached = {}
    for shots in (1, 3):
        (n,) = set(counts.filter(pl.col("shots") == shots)["n"])  # all methods have the same
        reached["toy", 3, shots, "balanced"] = n
    assert max(reached.values()) > 20
    for (_, _, shots, _), width in half_widths(penalised, reached, 20).items():
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
    assert Rounds(plain, Plan((), (), 20)).next_cells(None) == []  # type: ignore[arg-type]
