"""Verdicts: other penalties and the reference heads."""

from __future__ import annotations

import pytest

from firthshot.report.headline import make_headline
from report.verdict_lines import contrast, said, setting, verdicts


def test_other_penalties_each_from_its_side() -> None:
    against = (contrast(5, 1, 1.0), contrast(5, 5, -0.5), contrast(5, 10, 0.0))
    lines = [setting(5, shots, 0.7) for shots in (1, 5, 10)]
    (verdict,) = verdicts(*lines, contrasts=against)
    assert said(verdict, "rivals") == [
        "Firth beats L2 at 1 shot (+1.00 ± 0.20 points).",
        "L2 beats Firth at 5 shots (+0.50 ± 0.20 points).",
        "Firth and L2 do not differ significantly at 10 shots (0.00 ± 0.20 points).",
    ]


def test_two_penalties_left_out_are_not_compared() -> None:
    zero = {"coefficient": 0.0, "against_coefficient": 0.0}
    against = (
        contrast(5, 1, 1.0),
        contrast(5, 5, 0.0, 0.0, **zero),
        contrast(5, 10, 0.0, 0.0, **zero),
    )
    lines = [setting(5, shots, 0.7) for shots in (1, 5, 10)]
    (verdict,) = verdicts(*lines, contrasts=against)
    assert said(verdict, "rivals") == [
        "Firth beats L2 at 1 shot (+1.00 ± 0.20 points).",
        "Firth and L2 both have λ = 0 at 5 and 10 shots.",
    ]


@pytest.mark.parametrize(
    ("differences", "start", "end"),
    [
        ((0.0, 0.0, 0.0), "In all 3 settings where it helps, ", " does as well or better."),
        ((0.0, -1.0), "In both settings where it helps, ", " does as well or better."),
        ((0.0,), "In the one setting where it helps, ", " does as well or better."),
        ((1.0, 1.0), "In both settings where it helps, ", " is worse."),
        (
            (0.0, 1.0),
            "In 1 of the 2 settings where it helps, ",
            " does as well or better; in 1 it is worse.",
        ),
        ((1.0,), "In the one setting where it helps, ", " is worse."),
    ],
)
def test_how_often_a_reference_head_does_as_well(
    differences: tuple[float, ...], start: str, end: str
) -> None:
    reference = {"against_penalty": "none", "against_head": "centroid"}
    places = list(enumerate(differences, 1))
    found = verdicts(
        *(setting(5, shots, 2.0) for shots, _ in places),
        contrasts=tuple(contrast(5, shots, gain, **reference) for shots, gain in places),
    )
    head = "a reference head without penalty (nearest class mean or least squares)"
    assert f"{start}{head}{end}" in make_headline(found).lines


def test_reference_heads() -> None:
    reference = {"against_penalty": "none", "against_head": "centroid"}
    against = (
        contrast(5, 1, -1.0, **reference, against_accuracy=0.62),
        contrast(5, 5, 0.0, **reference),
        # Beaten by the chosen λ's loss only: better than Firth, worse than without it.
        contrast(5, 10, -1.0, **reference, against_accuracy=0.55),
    )
    lines = [setting(5, 1, 0.7), setting(5, 5, 0.7), setting(5, 10, -6.0)]
    (verdict,) = verdicts(*lines, contrasts=against)
    assert said(verdict, "references") == [
        (
            "Nearest class mean beats this head, with and without Firth, at 1 shot "
            "(+1.00 ± 0.20 points)."
        ),
        "Nearest class mean does as well as Firth at 5 shots.",
    ]


REFERENCE = {"against_penalty": "none", "against_head": "centroid"}


def test_a_lead_that_is_not_significant_is_not_equality() -> None:
    wide = contrast(5, 1, 38.0, 40.0, **REFERENCE)
    (verdict,) = verdicts(setting(5, 1, 2.0), contrasts=(wide,))
    assert said(verdict, "references") == [
        (
            "Whether nearest class mean does as well as Firth cannot be told at 5 ways, 1 shot "
            "(+38.00 ± 40.00 points)."
        )
    ]
    assert (
        "In the one setting where it helps, it cannot be told whether a reference head without "
        "penalty (nearest class mean or least squares) does as well."
    ) in make_headline([verdict]).lines


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


def test_too_few_trials_for_a_contrast() -> None:
    """Six trials may judge one setting, but not two contrasts: 2 · 2/2⁶ is above 0.05."""
    reference = contrast(5, 1, 38.0, p_holm=0.06, trials=6, **REFERENCE)
    rival = contrast(5, 1, 1.0, p_holm=0.06, trials=6)
    (verdict,) = verdicts(setting(5, 1, 2.0, trials=6), contrasts=(reference, rival))
    why = "with 6 trials nothing can be significant, at least 7 are needed"
    place = "at 5 ways, 1 shot"
    assert said(verdict, "references") == [
        (
            f"Too few trials to tell Firth from nearest class mean {place} "
            f"(+38.00 ± 0.20 points): {why}."
        )
    ]
    assert said(verdict, "rivals") == [
        f"Too few trials to tell Firth from L2 {place} (+1.00 ± 0.20 points): {why}."
    ]
    assert (
        "In the one setting where it helps, it cannot be told whether a reference head without "
        f"penalty (nearest class mean or least squares) does as well ({why})."
    ) in make_headline([verdict]).lines
    level = contrast(5, 1, 0.0, 0.0, trials=6, **REFERENCE)  # equal in all of six trials
    (verdict,) = verdicts(setting(5, 1, 2.0, trials=6), contrasts=(level, rival))
    assert list(verdict.reference_standings.values()) == ["open"]


def test_a_head_at_zero_is_not_compared_with_the_penalty() -> None:
    zero = setting(5, 1, 0.0, 0.0, coefficient=0.0, p_holm=1.0)
    lost = contrast(5, 1, -1.0, coefficient=0.0, against_accuracy=0.62, **REFERENCE)
    (verdict,) = verdicts(zero, contrasts=(lost,))
    assert said(verdict, "references") == [
        (
            "Nearest class mean beats this head, which has λ = 0, at 5 ways, 1 shot "
            "(+1.00 ± 0.20 points)."
        )
    ]


def test_the_headline_does_not_hide_a_head_that_needs_no_penalty() -> None:
    centroid = {"against_penalty": "none", "against_head": "centroid"}
    squares = {"against_penalty": "none", "against_head": "least-squares"}
    lines = [setting(5, 1, 2.0), setting(5, 5, 2.0), setting(5, 10, 2.0)]
    against = (
        contrast(5, 1, 0.0, **centroid),  # as good
        contrast(5, 1, 1.0, **squares),
        contrast(5, 5, 1.0, **centroid),  # both worse
        contrast(5, 5, 1.0, **squares),
        contrast(5, 10, 1.0, **centroid),
        contrast(5, 10, -1.0, **squares),  # better
    )
    (verdict,) = verdicts(*lines, contrasts=against)
    standings = {place.shots: how for place, how in verdict.reference_standings.items()}
    assert standings == {1: "matched", 5: "worse", 10: "matched"}
    assert (
        "In 2 of the 3 settings where it helps, a reference head without penalty (nearest class "
        "mean or least squares) does as well or better; in 1 it is worse."
    ) in make_headline([verdict]).lines
    assert not any("reference" in line for line in make_headline(verdicts(*lines)).lines)
