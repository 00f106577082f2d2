"""Verdicts as data: which comparison, estimate, interval and standing."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.summary_folders import KEY
from firthshot.experiments.summary.columns import ALL
from firthshot.report.verdict import Claim, Verdict, kind_of, main_verdicts
from report.verdict_lines import REFERENCE, ZERO, contrast, setting, theory, verdicts


def found(verdict: Verdict, topic: str) -> dict[str, list[tuple[int, int, float]]]:
    """Return standing → (ways, shots, points) of a topic."""
    return {
        each.standing: [(e.condition.ways, e.condition.shots, 100 * e.mean) for e in each.effects]
        for each in verdict.findings
        if each.topic == topic
    }


def finding(verdict: Verdict, topic: str) -> Claim:
    (one,) = (each for each in verdict.findings if each.topic == topic)
    return one


@pytest.mark.parametrize(
    ("mean", "p", "coefficient", "kind"),
    [
        (0.01, 0.049, 1.0, "helps"),
        (-0.01, 0.049, 1.0, "costs"),
        (0.01, 0.05, 1.0, "unclear"),
        (0.0, 0.0, 1.0, "unclear"),
        (0.0, 1.0, 0.0, "unchanged"),
    ],
)
def test_kinds(mean: float, p: float, coefficient: float, kind: str) -> None:
    assert kind_of(mean, p, coefficient) == kind


def test_settings_by_what_the_penalty_does() -> None:
    (verdict,) = verdicts(
        setting(5, 1, 0.7),
        setting(5, 5, -0.5),
        setting(5, 10, 0.1),
        setting(5, 15, 0.1, trials=3),
        setting(5, 20, 0.0, 0.0, **ZERO),
    )
    assert found(verdict, "accuracy") == {
        "helps": [(5, 1, pytest.approx(0.7))],
        "costs": [(5, 5, pytest.approx(-0.5))],
        "unclear": [(5, 10, pytest.approx(0.1))],
        "few": [(5, 15, pytest.approx(0.1))],
        "chose zero": [(5, 20, 0.0)],
    }
    assert [outcome.kind for outcome in verdict.outcomes] == [
        "helps",
        "costs",
        "unclear",
        "unclear",
        "unchanged",
    ]
    assert verdict.count("helps") == 1
    assert all(len(each.among) == 5 for each in verdict.findings if each.topic == "accuracy")


@pytest.mark.parametrize(
    ("trials", "settings", "few"),
    [(5, 1, (5, 6)), (6, 1, None), (6, 2, (6, 7)), (7, 2, None)],
)
def test_too_few_trials_are_no_null_result(
    trials: int, settings: int, few: tuple[int, int] | None
) -> None:
    (verdict,) = verdicts(*(setting(5, 1 + i, 0.1, trials=trials) for i in range(settings)))
    assert finding(verdict, "accuracy").trials == few


def test_one_trial_has_no_interval() -> None:
    line = setting(5, 1, 1.0, improvement_ci=None, p_holm=1.0, trials=1, **theory(-2, None))
    (verdict,) = verdicts(line)
    ((_, mean, width),) = finding(verdict, "accuracy").effects
    assert (mean, width) == (0.01, None)
    assert found(verdict, "theory") == {}


def test_the_only_candidate_is_not_chosen() -> None:
    line = dict.fromkeys(ALL) | KEY | {"split": "val", "trials": 100}
    lines = tuple(line | {"coefficient": lam, "theory": lam > 0} for lam in (0.0, 2.5))
    zeros = [setting(5, shots, 0.0, 0.0, **ZERO) for shots in (1, 5)]
    (verdict,) = verdicts(*zeros, lines=lines)
    assert list(found(verdict, "accuracy")) == ["only zero", "chose zero"]


def test_intervals_over_classes() -> None:
    loose = {"improvement_classes_low": -0.001, "improvement_classes_high": 0.015}
    sure = {"improvement_classes_low": 0.002, "improvement_classes_high": 0.012}
    narrow = {"improvement_classes_low": 0.005, "improvement_classes_high": 0.009}
    (verdict,) = verdicts(setting(5, 1, 0.7, **loose), setting(5, 5, 0.7, **sure))
    assert found(verdict, "classes") == {"loose": [(5, 1, pytest.approx(0.7))], "wider": []}
    assert verdict.findings[2].numbers == {"ratio": pytest.approx(3.25)}  # the median of two
    assert found(verdicts(setting(5, 1, 0.7, **narrow))[0], "classes") == {}


@pytest.mark.parametrize(
    ("mean", "ci", "standing"),
    [
        (0.5, 0.1, "safe"),
        (-0.1, 0.3, "safe"),
        (-0.1, 0.5, "open"),
        (-3.54, 5.15, "open"),
        (5.0, 5.6, "open"),
        (-0.3, 0.1, "costs"),
    ],
)
def test_an_interval_around_zero_is_not_yet_safe(mean: float, ci: float, standing: str) -> None:
    (verdict,) = verdicts(setting(5, 1, 0.7, **theory(mean, ci)))
    assert found(verdict, "theory") == {standing: [(5, 1, pytest.approx(mean))]}


@pytest.mark.parametrize(
    ("moves", "standing", "nll"),
    [
        (({"nll": 1.5, "ece_pooled": 0.5},) * 2, "worse", (2, 0)),
        (({"nll": 0.5, "ece_pooled": 0.1},), "better", (0, 1)),
        (({"nll": 1.5, "ece_pooled": 0.5}, {"nll": 0.5, "ece_pooled": 0.1}), "same", (1, 1)),
        (({"nll": 1.5, "ece_pooled": 0.5}, {"nll": 0.5}), "mostly worse", (1, 1)),
    ],
)
def test_probabilities(
    moves: tuple[dict[str, float], ...], standing: str, nll: tuple[int, int]
) -> None:
    (verdict,) = verdicts(*(setting(5, at, 0.7, **move) for at, move in enumerate(moves, 1)))
    one = finding(verdict, "calibration")
    assert one.standing == standing
    assert one.numbers is not None
    assert one.numbers["nll"] == nll


def test_confidence_is_that_of_the_settings_in_use() -> None:
    (verdict,) = verdicts(
        setting(5, 1, 0.0, 0.0, **ZERO),
        setting(5, 5, 0.7, nll=0.5),
        bins={(5, 1): (10.0, 80.0), (5, 5): (44.0, 26.0)},
    )
    leans = (finding(verdict, "calibration").numbers or {})["leans"]
    assert [(place.shots, lean.confidence, lean.accuracy) for place, lean in leans.items()] == [
        (5, 0.44, 0.26)
    ]


def test_other_penalties_each_from_its_side() -> None:
    zero = {"coefficient": 0.0, "against_coefficient": 0.0}
    against = (
        contrast(5, 1, 1.0),
        contrast(5, 5, -0.5),
        contrast(5, 10, 0.0),
        contrast(5, 15, 0.0, 0.0, **zero),
    )
    lines = [setting(5, shots, 0.7) for shots in (1, 5, 10, 15)]
    (verdict,) = verdicts(*lines, contrasts=against)
    assert found(verdict, "rivals") == {
        "helps": [(5, 1, pytest.approx(1.0))],
        "costs": [(5, 5, pytest.approx(0.5))],
        "unclear": [(5, 10, 0.0)],
        "both zero": [(5, 15, 0.0)],
    }
    assert {each.opponent for each in verdict.findings if each.topic == "rivals"} == {
        ("linear", "l2", "uniform")
    }


def test_reference_heads() -> None:
    against = (
        contrast(5, 1, -1.0, **REFERENCE, against_accuracy=0.62),
        contrast(5, 5, 0.0, **REFERENCE),
        # Beaten by the chosen λ's loss only: better than Firth, worse than without it.
        contrast(5, 10, -1.0, **REFERENCE, against_accuracy=0.55),
        contrast(5, 15, -1.0, **REFERENCE, against_accuracy=0.62, coefficient=0.0),
        contrast(5, 20, 38.0, 40.0, **REFERENCE),
    )
    lines = [setting(5, 1, 0.7), setting(5, 5, 0.7), setting(5, 10, -6.0)]
    lines += [setting(5, 15, 0.0, 0.0, **ZERO), setting(5, 20, 2.0)]
    (verdict,) = verdicts(*lines, contrasts=against)
    assert {standing: [at[1] for at in where] for standing, where in _references(verdict)} == {
        "beaten": [1],
        "beaten at zero": [15],
        "as well": [5],
        "open": [20],
    }


def _references(verdict: Verdict) -> Any:
    return found(verdict, "references").items()


@pytest.mark.parametrize(
    ("lead", "ci", "standing"),
    [
        (0.2, 0.3, "matched"),
        (0.2, 0.31, "open"),
        (-0.5, 1.01, "open"),
        (0.4, 0.1, "worse"),  # significant, however small
        (-0.4, 0.1, "matched"),
    ],
)
def test_as_well_means_within_half_a_point(lead: float, ci: float, standing: str) -> None:
    against = contrast(5, 1, lead, ci, **REFERENCE)
    (verdict,) = verdicts(setting(5, 1, 2.0), contrasts=(against,))
    assert list(verdict.reference_standings.values()) == [standing]


def test_the_best_reference_head_counts() -> None:
    squares = {"against_penalty": "none", "against_head": "least-squares"}
    lines = [setting(5, 1, 2.0), setting(5, 5, 2.0), setting(5, 10, 2.0)]
    against = (
        contrast(5, 1, 0.0, **REFERENCE),  # as good
        contrast(5, 1, 1.0, **squares),
        contrast(5, 5, 1.0, **REFERENCE),  # both worse
        contrast(5, 5, 1.0, **squares),
        contrast(5, 10, 1.0, **REFERENCE),
        contrast(5, 10, -1.0, **squares),  # better
    )
    (verdict,) = verdicts(*lines, contrasts=against)
    standings = {place.shots: how for place, how in verdict.reference_standings.items()}
    assert standings == {1: "matched", 5: "worse", 10: "matched"}


def test_too_few_trials_for_a_contrast() -> None:
    """Six trials may judge one setting, but not two contrasts: 2 · 2/2⁶ is above 0.05."""
    rival = contrast(5, 1, 1.0, p_holm=0.06, trials=6)
    reference = contrast(5, 1, 38.0, p_holm=0.06, trials=6, **REFERENCE)
    (verdict,) = verdicts(setting(5, 1, 2.0, trials=6), contrasts=(reference, rival))
    assert list(found(verdict, "references")) == ["few"]
    assert finding(verdict, "rivals").trials == (6, 7)
    level = contrast(5, 1, 0.0, 0.0, trials=6, **REFERENCE)  # equal in all of six trials
    (verdict,) = verdicts(setting(5, 1, 2.0, trials=6), contrasts=(level, rival))
    assert list(verdict.reference_standings.values()) == ["open"]


def test_the_edge_of_the_grid() -> None:
    (verdict,) = verdicts(setting(5, 1, 0.7, at_edge=True), setting(5, 5, 0.7))
    assert found(verdict, "edge") == {"edge": [(5, 1, pytest.approx(0.7))]}


def test_what_tells_methods_apart() -> None:
    mine = verdicts(
        setting(5, 1, 0.7, bank="mini"),
        setting(5, 1, 0.7, bank="cub"),
        setting(5, 1, 0.7, bank="cub", penalty="l2", l2_kind="ridge"),
        setting(5, 1, 0.7, bank="cub", prior="class-frequency"),
    )
    assert [verdict.telling for verdict in mine] == [("bank",), ("bank",), (), ()]
    assert main_verdicts(mine) == mine[:2]
    assert main_verdicts(mine[2:]) == mine[2:3]  # Firth with another prior, before L2
    assert main_verdicts(mine[3:]) == mine[3:]


def test_the_same_numbers_in_any_order() -> None:
    lines = [setting(w, s, 0.3 * w - s) for w in (5, 10) for s in (1, 5)]
    assert verdicts(*lines)[0].findings == verdicts(*lines[::-1])[0].findings
