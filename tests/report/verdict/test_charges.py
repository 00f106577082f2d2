"""A loss is the penalty's as far as the optimum shows it, and the rest is the training's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firthshot.experiments.checks import Check
from firthshot.report.verdict import Condition, Effect, Verdict
from firthshot.report.verdict.outcomes import Again
from firthshot.report.wording.cards import card_lead, remarks
from firthshot.report.wording.headline import make_headline
from report.verdict_lines import setting, theory, verdicts

PLACE = Condition(5, False, 5, "balanced")


def effect(mean: float, width: float = 0.01) -> Effect:
    return Effect(PLACE, mean, width)


@pytest.mark.parametrize(
    ("zero", "optimum", "charged"),
    [
        (None, None, -0.10),  # trained once: nothing contradicts it
        (-0.08, None, -0.10),  # the start is a small part
        (-0.001, None, None),  # the start's noise
        (None, -0.03, -0.03),  # the rest is the training's
        (-0.001, -0.03, -0.03),  # the optimum decides
        (None, -0.20, -0.10),  # training stopped short of it
        (None, -0.005, None),  # the optimum may gain
        (-0.08, 0.02, None),
    ],
)
def test_the_smaller_loss_is_charged(
    zero: float | None, optimum: float | None, charged: float | None
) -> None:
    again = Again(*(None if mean is None else effect(mean) for mean in (zero, optimum)))
    found = again.charge(effect(-0.10))
    assert (None if found is None else found.mean) == charged


def judged(mean: float, trained: float = -10.0) -> Verdict:
    """Return a verdict whose chosen and tuning-free λ gain or lose so much at the optimum."""
    (verdict,) = verdicts(setting(5, 5, trained, **theory(trained, 0.5)))
    (outcome,) = verdict.outcomes
    again = Again(None, effect(mean))
    return replace(verdict, outcomes=(replace(outcome, again=again, theory_again=again),))


def test_a_verdict_charges_what_the_optimum_shows_and_tells_the_rest() -> None:
    verdict = judged(-0.02)
    texts = {one.topic: one.text for one in remarks(verdict)}
    for topic in ("accuracy", "theory"):
        assert "costs accuracy at 5 ways, 5 shots (−10.00" in texts[topic]
        told = "as trained; at the optimum: at 5 ways, 5 shots (−2.00 ± 1.00 points)."
        assert told in texts[topic]
    both = "as trained, −2.00 ± 1.00 at the optimum (5 ways, 5 shots)"
    lost = "largest loss is −10.00 ± 0.20 points, 60.0 → 50.0 %"
    assert f"{lost} {both}" in " ".join(card_lead(verdict))
    headline = make_headline([verdict])
    assert "50.0 % as trained, −2.00 ± 1.00 at the optimum (" in headline.lines[0]
    down = "Its largest loss is −10.00 ± 0.50 points as trained, −2.00 ± 1.00 at the optimum ("
    assert down in " ".join(headline.more)


def test_a_loss_that_the_optimum_does_not_show_is_not_charged() -> None:
    verdict = judged(0.0)
    assert [outcome.standing for outcome in verdict.outcomes] == ["training"]
    texts = [one.text for one in remarks(verdict) if one.topic in ("accuracy", "theory")]
    assert len(texts) == 2
    assert all(
        "by its training alone. That is as trained; at the optimum" in text for text in texts
    )
    assert "costs" not in make_headline([verdict]).answer.replace("the training costs", "")
    assert card_lead(verdict)[0] == "Firth loses accuracy by its training alone."
    blame = "accuracy falls by the training alone in 1 of 1 setting."
    assert blame in " ".join(make_headline([verdict]).more)


def test_an_unstable_tuning_free_value_is_charged_with_the_optimums_loss() -> None:
    (verdict,) = verdicts(setting(5, 5, 1.0, theory_coefficient=8.0))
    (outcome,) = verdict.outcomes
    lost = {**outcome.row, "theory_improvement": None, "theory_improvement_ci": None}
    unstable = replace(outcome, row=lost, theory_again=Again(None, effect(-0.02)))
    assert (unstable.theory_standing, unstable.theory_charge) == ("costs", effect(-0.02))
    calm = replace(outcome, row=lost, theory_again=Again(None, effect(0.0)))
    assert calm.theory_standing is None


def test_nothing_is_left_to_blame_on_the_training_where_the_optimum_is_as_trained() -> None:
    verdict = judged(-0.10 + 1e-9)
    texts = [one.text for one in remarks(verdict)]
    assert [outcome.standing for outcome in verdict.outcomes] == ["costs"]
    assert not [text for text in texts if "training" in text]
    assert "as trained" not in make_headline([verdict]).lines[0]


def test_a_gain_is_told_with_what_the_optimum_shows_of_it() -> None:
    verdict = judged(0.002, trained=1.7)
    texts = {one.topic: one.text for one in remarks(verdict)}
    told = "at the optimum: at 5 ways, 5 shots (+0.20 ± 1.00 points)."
    assert told in texts["accuracy"]
    assert "61.7 % as trained, +0.20 ± 1.00 at the optimum" in make_headline([verdict]).lines[0]
    assert "the gain is clear there in none." in make_headline([verdict]).lines[1]
    assert "the gain is clear there in 1." in make_headline([judged(0.02, 1.7)]).lines[1]


def test_separable_trials_alone_are_told() -> None:
    (verdict,) = verdicts(setting(5, 5, 1.0))
    key = {"ways": 5, "shots": 5, "shots_scheme": "balanced"}
    verdict = replace(verdict, checks=(Check(key=key, coefficient=0.0, separable=3),))
    (said,) = (one.text for one in remarks(verdict) if one.topic == "training")
    assert said.startswith("Without penalty there is no optimum where the support is separable at")


def test_the_largest_loss_is_told_apart_from_those_of_the_training() -> None:
    """One setting loses more, but by its training alone: the sentence says that it is not meant."""
    more = [judged(0.0, trained=-20.0), judged(-0.02)]
    said = " ".join(make_headline(more).more)
    assert "Its largest loss that training alone does not explain is −10.00 ± 0.50 points" in said
