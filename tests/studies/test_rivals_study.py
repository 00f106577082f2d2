"""The study of losses: runs on one small bank, and a page that counts."""

from __future__ import annotations

from pathlib import Path

from experiments.toy import write_bank
from firthshot.report.verdict import Condition, Effect
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
