"""Verdicts: the tuning-free λ of the theory."""

from __future__ import annotations

import pytest

from firthshot.report.headline import make_headline
from firthshot.report.wording import points_ci
from report.verdict_lines import said, setting, verdicts

THEORY = "The tuning-free λ of the theory "
SAFE = THEORY + "is safe: its interval leaves no room for a loss of 0.5 points {}."
OPEN = THEORY + "cannot be judged: its interval leaves room for a loss of 0.5 points {}."
COSTS = THEORY + "is not safe: its interval is below zero {}."


def test_the_theory_is_safe_or_not() -> None:
    good = {"theory_improvement": 0.005, "theory_improvement_ci": 0.001}
    bad = {"theory_improvement": -0.02, "theory_improvement_ci": 0.001}
    (verdict,) = verdicts(setting(5, 1, 0.7, **bad), setting(5, 5, 0.7, **good))
    assert said(verdict, "theory") == [
        (
            "The tuning-free λ of the theory is not safe: its interval is below zero at 1 shot "
            "(−2.00 ± 0.10 points). It is derived to remove the first-order bias of the weights, "
            "not to raise accuracy; studies/reproduction compares it with a chosen λ."
        ),
        SAFE.format("at 5 shots (+0.50 ± 0.10 points)"),
    ]
    small = {**bad, "theory_improvement": -0.005}
    (verdict,) = verdicts(setting(5, 1, 0.7, **small), setting(5, 5, 0.7, **good))
    assert said(verdict, "theory") == [
        (
            "The tuning-free λ of the theory is not safe: its interval is below zero at 1 shot "
            "(−0.50 ± 0.10 points)."
        ),
        SAFE.format("at 5 shots (+0.50 ± 0.10 points)"),
    ]
    (verdict,) = verdicts(setting(5, 1, 0.7, **good), setting(5, 5, 0.7, **good))
    assert said(verdict, "theory") == [SAFE.format("in both settings (+0.50 ± 0.10 points)")]


@pytest.mark.parametrize(
    ("mean", "ci", "words"),
    [
        (-0.1, 0.3, SAFE),
        (-0.1, 0.5, OPEN),
        (-3.54, 5.15, OPEN),
        (5.0, 5.6, OPEN),
        (-0.3, 0.1, COSTS),
    ],
)
def test_an_interval_around_zero_is_not_yet_safe(mean: float, ci: float, words: str) -> None:
    theory = {"theory_improvement": mean / 100, "theory_improvement_ci": ci / 100}
    (verdict,) = verdicts(setting(5, 1, 0.7, **theory))
    gain = points_ci(mean / 100, ci / 100)
    assert said(verdict, "theory") == [words.format(f"at 5 ways, 1 shot ({gain} points)")]
    (line,) = (line for line in make_headline([verdict]).lines if "theory" in line)
    assert ("it leaves room for a loss of 0.5 points" in line) == (words is OPEN)


def test_one_trial_has_no_interval_and_says_nothing_of_the_theory() -> None:
    single = {"theory_improvement": -0.02, "theory_improvement_ci": None}
    (verdict,) = verdicts(setting(5, 1, 0.7, **single))
    assert said(verdict, "theory") == []
    assert not any("theory" in line for line in make_headline([verdict]).lines)


def test_a_loss_within_the_noise_is_not_called_none() -> None:
    noisy = {"theory_improvement": -0.005, "theory_improvement_ci": 0.006}
    (verdict,) = verdicts(setting(5, 1, 2.0, **noisy), setting(5, 5, -0.1, p_holm=1.0, **noisy))
    assert said(verdict, "theory") == [OPEN.format("in both settings (−0.50 ± 0.60 points)")]
    lines = make_headline([verdict]).lines
    assert (
        "In 1 setting the effect is not significant; it costs accuracy significantly nowhere."
    ) in lines
    assert (
        "Without tuning (λ from theory) the gain’s interval is below zero in none of 2 settings; "
        "in 2 of 2 settings it leaves room for a loss of 0.5 points."
    ) in lines


def test_the_largest_loss_of_the_theory_names_its_bank() -> None:
    loss = {"theory_improvement": -0.02, "theory_improvement_ci": 0.001}
    more = {"theory_improvement": -0.03, "theory_improvement_ci": 0.001}
    found = verdicts(
        setting(5, 1, 0.7, bank="mini", **loss), setting(5, 1, 0.7, bank="cub", **more)
    )
    (line,) = (line for line in make_headline(found).lines if "theory" in line)
    assert line.endswith("down to −3.00 points (Firth, linear head, cub, 5 ways, 1 shot).")
