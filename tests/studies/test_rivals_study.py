"""The study of losses: runs on one small bank, and a page that counts."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from experiments.toy import write_bank
from firthshot.report.verdict import Condition, Effect
from studies.rivals import results
from studies.rivals.losses import Charge, charges_of, page

PLACE = Condition(16, False, 5, "balanced")


def charge(standing: str, optimum: tuple[float, float], charged: float | None = None) -> Charge:
    own = None if charged is None else Effect(PLACE, charged, 0.01)
    return Charge("5", "theory", 8.0, standing, Effect(PLACE, -0.05, 0.01), optimum, own)


def test_a_loss_is_wrongly_charged_where_the_optimum_may_gain() -> None:
    right, wrong = charge("costs", (-0.02, 0.01), -0.02), charge("costs", (-0.005, 0.01), -0.05)
    training, unstable = charge("training", (0.01, 0.01)), charge("unstable", (-0.02, 0.01))
    assert [one.charged for one in (right, wrong, training)] == [True, True, False]
    assert [one.wrongly for one in (right, wrong, training)] == [False, True, False]
    assert [one.exaggerated for one in (right, wrong, training)] == [False, True, False]
    assert [one.excused for one in (right, training, unstable)] == [False, False, True]
    made = page({"a bank": [right, wrong, training, unstable]}, 20)
    assert "charge Firth with 2 losses. The optimum shows no loss in 1 of them" in made
    assert "| a bank | 4 | 2 | 1 | 1 | 1 | 1 | 1 |" in made
    assert "| theory 8 | loss | -5.00 ± 1.00 | -2.00 ± 1.00 | -2.00 ± 1.00 |" in made


def test_a_bank_is_run_both_ways(tmp_path: Path) -> None:
    path = write_bank(tmp_path / "toy.bank")
    small = {"ways": [3], "shots": [1], "coefficients": [0, 1], "queries": 5}
    found = charges_of(str(path), tmp_path / "runs", 4, {**small, "references": False})
    assert {one.which for one in found} <= {"chosen", "theory"}
    (theory,) = [one for one in found if one.which == "theory"]
    assert theory.coefficient == 1.5


def test_runs_with_more_trials_take_the_place_of_kept_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {
        "bank": ["a", "a"], "ways": [5, 5], "shot": ["1", "unbalanced-8"], "head": ["tim", "tim"],
        "penalty": ["firth"] * 2, "coefficient": [0.1] * 2, "trials": [30, 30],
        "base_accuracy": [0.5] * 2, "accuracy": [0.51, 0.49], "accuracy_ci": [0.1] * 2,
        "improvement": [0.01, -0.01], "improvement_ci": [0.02] * 2, "p_holm": [1.0, 0.01],
    }  # fmt: skip
    pl.DataFrame(kept).write_csv(tmp_path / "results.csv")
    marks = [f"{ways} ways {shot}" for ways in (5, 20) for shot in results.SHOTS]
    page = [f"<!-- {m} -->\n<!-- end of {m} -->" for m in [*marks, "Firth in TIM"]]
    (tmp_path / "README.md").write_text("\n".join(page), "utf-8")
    (tmp_path / "summary").mkdir()
    shown = {"shots": [1, 8], "shots_scheme": ["balanced", "unbalanced-8"], "trials": [200, 20]}
    new = {name: values for name, values in kept.items() if name != "shot"} | shown
    pl.DataFrame(new | {"accuracy": [0.6, 0.7]}).write_csv(tmp_path / "summary" / "chosen.csv")
    monkeypatch.setattr(results, "HERE", tmp_path)
    results.main([tmp_path], 100)
    made = (tmp_path / "README.md").read_text("utf-8")
    for trials, accuracy in ((200, "60.0"), (30, "49.0")):
        line = f"| TIM (transductive) + Firth | {accuracy} ± 10.0 |"
        assert f"| method | a ({trials}) |\n| --- | ---: |\n{line}" in made
    assert "| 5 | unbalanced-8 | tim | -1.00 | 0 of 1 | 0 | 1 |" in made
