"""Every sentence of a report: a changed word breaks a test here and nowhere else."""

from __future__ import annotations

import pytest

from experiments.summary_folders import KEY
from firthshot.experiments.statistics import trials_needed
from firthshot.experiments.summary import Unjudged
from firthshot.experiments.summary.columns import ALL
from firthshot.report.verdict import Condition, Verdict
from firthshot.report.wording import listed, parts, points, points_ci, where
from firthshot.report.wording.cards import card_lead, remarks, tile, title_of
from firthshot.report.wording.headline import make_headline
from firthshot.report.wording.page import folded_words
from report.verdict_lines import REFERENCE, ZERO, contrast, setting, theory, verdicts


def said(verdict: Verdict, topic: str) -> list[str]:
    return [remark.text for remark in remarks(verdict) if remark.topic == topic]


def _conditions(ways: list[int], shots: list[int], schemes: list[str]) -> list[Condition]:
    equal = [Condition(w, False, s, "balanced") for w in ways for s in shots]
    return sorted(equal + [Condition(w, True, 8, name) for w in ways for name in schemes])


def test_parts_cover_and_do_not_overlap() -> None:
    among = _conditions([5, 10, 15], [1, 5], ["unbalanced-8"])
    for number in range(1, 2 ** len(among)):
        some = [one for at, one in enumerate(among) if number >> at & 1]
        found = parts(some, among)
        assert sorted(one for part in found for one in part) == some
        for part in found:
            ways = {one.ways for one in part}
            shots = {(one.shots, one.scheme) for one in part}
            assert len(part) == len(ways) * len(shots)  # a phrase names each and no more


@pytest.mark.parametrize(
    ("ways", "shots", "schemes", "words"),
    [
        ([5, 10], [1, 5], ["unbalanced-8"], "in all 6 settings"),
        ([5, 10], [1, 5], [], "at 1 and 5 shots"),
        ([5, 10], [], ["unbalanced-8"], "at unbalanced-8"),
        ([5], [1], [], "at 5 ways, 1 shot"),
        ([10], [], ["unbalanced-8"], "at 10 ways, unbalanced-8"),
    ],
)
def test_where(ways: list[int], shots: list[int], schemes: list[str], words: str) -> None:
    among = _conditions([5, 10], [1, 5], ["unbalanced-8"])
    assert where(_conditions(ways, shots, schemes), among) == words


def test_numbers_in_words() -> None:
    assert points(0.00001) == "0.00"
    assert points(-0.00001) == "0.00"
    assert points(-0.0123) == "−1.23"
    assert points_ci(0.5, None) == "+50.00"
    assert points_ci(0.007, 0.002) == "+0.70 ± 0.20"
    assert listed([1]) == "1"
    assert listed([1, 2, 3]) == "1, 2 and 3"


# The three sentences of a card.


@pytest.mark.parametrize(
    ("gains", "helps", "much"),
    [
        (
            {1: 0.7, 5: 0.3},
            "Firth helps in both settings.",
            "The largest gain is +0.70 ± 0.20 points, 60.0 → 60.7 % (5 ways, 1 shot).",
        ),
        (
            {1: 0.7},
            "Firth helps at 5 ways, 1 shot.",
            "The largest gain is +0.70 ± 0.20 points, 60.0 → 60.7 % (5 ways, 1 shot).",
        ),
        (
            {1: 0.7, 5: -0.3, 10: 0.0},
            "Firth helps in 1 and costs accuracy in 1 of 3 settings.",
            (
                "The largest gain is +0.70 ± 0.20 points, 60.0 → 60.7 % (5 ways, 1 shot). The "
                "largest loss is −0.30 ± 0.20 points, 60.0 → 59.7 % (5 ways, 5 shots)."
            ),
        ),
        (
            {1: -0.1, 5: 0.0},
            "Firth makes no significant difference.",
            "The largest difference is −0.10 ± 0.20 points (5 ways, 1 shot), which may be chance.",
        ),
    ],
)
def test_does_it_help_and_how_much(gains: dict[int, float], helps: str, much: str) -> None:
    (verdict,) = verdicts(*(setting(5, shots, gain) for shots, gain in gains.items()))
    first, *middle, _ = card_lead(verdict)
    assert (first, " ".join(middle)) == (helps, much)


def test_a_card_without_effect() -> None:
    (verdict,) = verdicts(setting(5, 1, 0.0, 0.0, **ZERO))
    assert card_lead(verdict) == [
        "Firth is not used: the validation classes chose λ = 0.",
        "This report compares it with no other method.",
    ]
    (verdict,) = verdicts(setting(5, 1, 0.1, trials=3))
    assert card_lead(verdict)[:2] == [
        "There are too few trials to tell.",
        "With 3 trials nothing can be significant; at least 6 are needed.",
    ]


@pytest.mark.parametrize(
    ("leads", "words"),
    [
        ((-1.0, -0.5), "L2 is better, by up to 1.00 ± 0.20 points (5 ways, 1 shot)."),
        (
            (1.0, -0.5),
            "Nearest class mean is better, by up to 0.50 ± 0.20 points (5 ways, 1 shot).",
        ),
        ((1.0, 0.0), "Nearest class mean does as well as Firth at 5 ways, 1 shot."),
        ((1.0, 1.0), "No other method of this report is significantly better."),
    ],
)
def test_what_would_be_better(leads: tuple[float, float], words: str) -> None:
    rival, reference = contrast(5, 1, leads[0]), contrast(5, 1, leads[1], **REFERENCE)
    reference["against_accuracy"] = 0.61
    (verdict,) = verdicts(setting(5, 1, 0.7), contrasts=(rival, reference))
    assert card_lead(verdict)[2] == words


# What stands behind "more".


def test_where_it_helps_in_the_words_of_the_grid() -> None:
    gains = {(w, s): 0.7 if w > 10 and s > 1 else 0.0 for w in (5, 10, 15, 20) for s in (1, 5, 10)}
    (verdict,) = verdicts(*(setting(w, s, gain) for (w, s), gain in gains.items()))
    assert said(verdict, "accuracy") == [
        "Firth helps at 15 and 20 ways, 5 and 10 shots (+0.70 ± 0.20 points).",
        (
            "The effect may be chance at 1 shot (0.00 ± 0.20 points); "
            "at 5 and 10 ways, 5 and 10 shots (0.00 ± 0.20 points)."
        ),
    ]


def test_costs_are_said_plainly() -> None:
    (verdict,) = verdicts(setting(5, 1, -1.0), setting(5, 5, -0.5, 0.1))
    assert said(verdict, "accuracy") == [
        "Firth costs accuracy in both settings (−1.00 ± 0.20 to −0.50 ± 0.10 points)."
    ]


def test_quiet_settings() -> None:
    line = dict.fromkeys(ALL) | KEY | {"split": "val", "trials": 100, "theory": False}
    (verdict,) = verdicts(
        setting(5, 1, 0.0, 0.0, **ZERO),
        setting(5, 5, 0.0, 0.0, **ZERO),
        setting(5, 10, 1.0, improvement_ci=None, p_holm=1.0, trials=1),
        lines=(line | {"coefficient": 0.0},),
    )
    assert said(verdict, "accuracy") == [
        (
            "There are too few trials to tell at 10 shots (+1.00 points). With 1 trial nothing "
            "can be significant; at least 7 are needed."
        ),
        "λ = 0 was the only candidate at 1 shot.",
        "The validation classes chose λ = 0 at 5 shots.",
    ]


def test_other_classes() -> None:
    loose = {"improvement_classes_low": -0.001, "improvement_classes_high": 0.015}
    (verdict,) = verdicts(setting(5, 1, 0.7, **loose), setting(5, 5, 0.7))
    assert said(verdict, "classes") == [
        (
            "Other classes may give another result at 1 shot. The interval that also resamples "
            "classes includes zero."
        ),
        (
            "Intervals over classes are about 4.0 times as wide as those over trials. More trials "
            "will not make them narrower."
        ),
    ]


def test_the_tuning_free_coefficient() -> None:
    (verdict,) = verdicts(
        setting(5, 1, 0.7, **theory(-2, 0.1)),
        setting(5, 5, 0.7, **theory(0.5, 0.1)),
        setting(5, 10, 0.7, **theory(-0.5, 0.6)),
    )
    assert said(verdict, "theory") == [
        (
            "The tuning-free λ of the theory costs accuracy at 1 shot (−2.00 ± 0.10 points). It "
            "removes the first-order bias of the weights and does not aim at accuracy."
        ),
        (
            "The tuning-free λ of the theory may cost 0.5 points or more at 10 shots "
            "(−0.50 ± 0.60 points)."
        ),
        (
            "The tuning-free λ of the theory is safe at 5 shots (+0.50 ± 0.10 points): it loses "
            "less than 0.5 points."
        ),
    ]


def test_probabilities() -> None:
    worse = {"nll": 1.5, "ece_pooled": 0.5}
    (verdict,) = verdicts(setting(5, 1, 0.7, **worse), setting(5, 5, 0.7, **worse))
    assert said(verdict, "calibration") == [
        (
            "Probabilities get worse: nll rises in 2 of 2, calibration error (ECE) rises in 2 of "
            "2, the largest change is from 0.20 to 0.50 at 5 ways, 1 shot."
        )
    ]
    (verdict,) = verdicts(setting(5, 1, 0.7, nll=0.5, ece_pooled=0.1), bins={(5, 1): (40.0, 80.0)})
    assert said(verdict, "calibration") == [
        (
            "Probabilities get better: nll falls in 1 of 1, calibration error (ECE) falls in 1 of "
            "1, the largest change is from 0.20 to 0.10 at 5 ways, 1 shot. Without penalty the "
            "head is under-confident in 1 of 1 setting (40% mean confidence, 80% accuracy "
            "at 5 ways, 1 shot)."
        )
    ]
    (verdict,) = verdicts(setting(5, 1, 0.7, nll=1.5), bins={(5, 1): (79.0, 80.0)})
    assert "confident" not in said(verdict, "calibration")[0]
    binned = {(5, 1): (70.0, 60.0), (10, 1): (20.0, 50.0), (20, 1): (30.0, 31.0)}
    (verdict,) = verdicts(*(setting(w, 1, 0.7, nll=0.5) for w, _ in binned), bins=binned)
    assert said(verdict, "calibration")[0].endswith(
        "Without penalty the head is over-confident in 1 and under-confident in 1 of 3 settings "
        "(20% mean confidence, 50% accuracy at 10 ways, 1 shot)."
    )


def test_other_penalties() -> None:
    zero = {"coefficient": 0.0, "against_coefficient": 0.0}
    against = (
        contrast(5, 1, 1.0),
        contrast(5, 5, -0.5),
        contrast(5, 10, 0.0),
        contrast(5, 15, 0.0, 0.0, **zero),
        contrast(5, 20, 1.0, p_holm=0.06, trials=6),
    )
    (verdict,) = verdicts(
        *(setting(5, shots, 0.7) for shots in (1, 5, 10, 15, 20)), contrasts=against
    )
    assert said(verdict, "rivals") == [
        "Firth beats L2 at 1 shot (+1.00 ± 0.20 points).",
        "L2 beats Firth at 5 shots (+0.50 ± 0.20 points).",
        "The difference between Firth and L2 may be chance at 10 shots (0.00 ± 0.20 points).",
        (
            "There are too few trials to compare Firth with L2 at 20 shots (+1.00 ± 0.20 points). "
            "With 6 trials nothing can be significant; at least 8 are needed."
        ),
        "Firth and L2 both have λ = 0 at 15 shots.",
    ]


def test_reference_heads() -> None:
    against = (
        contrast(5, 1, -1.0, **REFERENCE, against_accuracy=0.62),
        contrast(5, 5, 0.0, **REFERENCE),
        contrast(5, 10, 38.0, 40.0, **REFERENCE),
        contrast(5, 15, -1.0, **REFERENCE, against_accuracy=0.62, coefficient=0.0),
    )
    lines = [setting(5, 1, 0.7), setting(5, 5, 0.7), setting(5, 10, 2.0)]
    (verdict,) = verdicts(*lines, setting(5, 15, 0.0, 0.0, **ZERO), contrasts=against)
    assert said(verdict, "references") == [
        (
            "Nearest class mean beats this head with and without Firth at 1 shot "
            "(+1.00 ± 0.20 points)."
        ),
        ("Nearest class mean beats this head, which has λ = 0, at 15 shots (+1.00 ± 0.20 points)."),
        "Nearest class mean does as well as Firth at 5 shots.",
        "Nearest class mean may do as well as Firth at 10 shots (+38.00 ± 40.00 points).",
    ]


def test_the_edge_of_the_grid() -> None:
    (verdict,) = verdicts(setting(5, 1, 0.7, at_edge=True), setting(5, 5, 0.7))
    assert said(verdict, "edge") == [
        "The chosen λ is the largest of the grid at 1 shot. A larger λ might do better."
    ]


def test_titles_tell_methods_apart() -> None:
    found = verdicts(
        setting(5, 1, 0.7, bank="mini"),
        setting(5, 1, 0.7, bank="cub"),
        setting(5, 1, 0.7, bank="cub", penalty="l2", l2_kind="ridge"),
        setting(5, 1, 0.7, bank="cub", prior="class-frequency"),
    )
    assert [title_of(verdict) for verdict in found] == [
        "Firth, linear head, mini",
        "Firth, linear head, cub",
        "Firth (class-frequency prior), linear head",
        "L2, linear head",
    ]


def test_tiles() -> None:
    (verdict,) = verdicts(setting(5, 1, 0.7), setting(5, 5, 0.0, 0.0, **ZERO))
    shown = [tile(outcome) for outcome in verdict.outcomes]
    assert [(one["sign"], one["gain"], one["width"]) for one in shown] == [
        ("▲", "+0.70", "± 0.20"),
        ("–", "λ = 0", ""),
    ]
    assert shown[0]["hint"] == (
        "helps; λ = 1, accuracy 60.00 % without, 60.70 % with; 100 trials, p (Holm) 0.001"
    )


# The answer at the top.


@pytest.mark.parametrize(
    ("gains", "answer", "tone"),
    [
        ((1.0,), "Yes.", "good"),
        ((1.0, 1.0), "Yes, in both settings.", "good"),
        ((1.0, 0.0), "Yes, in 1 of 2 settings.", "good"),
        ((1.0, 0.0, 0.0), "It helps in 1 of 3 settings.", "mixed"),
        ((-1.0, -0.5), "It costs accuracy in both settings.", "bad"),
        (
            (-1.0, 1.0),
            "It depends: it helps in 1 and costs accuracy in 1 of 2 settings.",
            "mixed",
        ),
        ((0.1,), "No gain found: the effect may be chance.", "plain"),
        ((0.1, 0.1), "No gain found: the effect may be chance in both settings.", "plain"),
        (
            (0.1, None),
            (
                "No gain found: the effect may be chance in 1 of 2 settings and the validation "
                "classes chose λ = 0 in 1 of 2 settings."
            ),
            "plain",
        ),
        ((None,), "No gain found: the validation classes chose λ = 0.", "plain"),
        (
            (None,) * 3,
            "No gain found: the validation classes chose λ = 0 in all 3 settings.",
            "plain",
        ),
    ],
)
def test_answers(gains: tuple[float | None, ...], answer: str, tone: str) -> None:
    lines = [
        setting(5, at, 0.0, 0.0, **ZERO) if gain is None else setting(5, at, gain)
        for at, gain in enumerate(gains, 1)
    ]
    headline = make_headline(verdicts(*lines))
    assert (headline.question, headline.answer) == ("Does Firth help here?", answer)
    assert headline.tone == tone


def test_too_few_trials_are_no_null_result() -> None:
    why = "With 5 trials nothing can be significant; at least 7 are needed."
    headline = make_headline(verdicts(*(setting(5, 1 + i, 0.1, trials=5) for i in range(2))))
    assert headline.answer == f"There are too few trials to tell in both settings. {why}"
    assert headline.counts == (("unclear", 2, "too few trials"),)
    few, enough = setting(5, 1, 0.1, trials=5), setting(5, 5, 0.1)
    assert make_headline(verdicts(few, enough)).answer == (
        "The effect may be chance in 1 of 2 settings and there are too few trials to tell in 1 of "
        f"2 settings. {why}"
    )
    assert make_headline(verdicts(few, setting(5, 5, 1.0))).more == (
        (
            "There are too few trials to tell in 1 setting and no setting loses accuracy "
            f"significantly. {why}"
        ),
    )


def test_gains_that_nobody_would_act_on_are_no_yes() -> None:
    small = make_headline(verdicts(setting(5, 1, 0.05, 0.01), setting(5, 5, 0.09, 0.01)))
    assert (small.answer, small.tone) == ("No practical difference in both settings.", "plain")
    assert small.counts == (("unclear", 2, "below 0.1 points"),)
    mixed = make_headline(verdicts(setting(5, 1, 0.3), setting(5, 5, -0.05, 0.01)))
    assert (mixed.answer, mixed.tone) == ("Yes, in 1 of 2 settings.", "good")
    more = make_headline(verdicts(setting(5, 1, 0.3), setting(5, 5, 0.05, 0.01)))
    assert more.answer == "Yes, in 1 of 2 settings, and by less than 0.1 points in 1 more."


def test_a_tile_has_the_accuracy_beside_the_gain() -> None:
    (verdict,) = verdicts(setting(5, 1, 0.7), setting(5, 5, 0.0, 0.0, **ZERO))
    bases = [tile(outcome)["base"] for outcome in verdict.outcomes]
    assert bases == ["60.0 → 60.7\u00a0%", "60.0\u00a0%"]


def test_the_headline_says_how_much() -> None:
    headline = make_headline(verdicts(setting(5, 1, 0.05, 0.01), setting(5, 5, 3.0)))
    assert headline.lines == (
        (
            "The largest gain is +3.00 ± 0.20 points, 60.0 → 63.0 % (Firth, linear head, 5 ways, "
            "5 shots)."
        ),
    )
    headline = make_headline(verdicts(setting(5, 1, -1.0), setting(5, 5, -0.5, 0.1)))
    assert headline.lines == (
        (
            "The largest loss is −1.00 ± 0.20 points, 60.0 → 59.0 % (Firth, linear head, 5 ways, "
            "1 shot)."
        ),
    )


def test_a_gain_that_is_printed_as_a_tenth_is_not_called_less() -> None:
    """Every table prints a gain of 0.096 points as +0.10."""
    headline = make_headline(verdicts(setting(5, 1, 0.096, 0.01)))
    assert "+0.10 ± 0.01 points" in headline.lines[0]
    assert headline.answer == "Yes."
    assert make_headline(verdicts(setting(5, 1, 0.094, 0.01))).answer == "No practical difference."


HEAD = "Nearest class mean, without a penalty,"
TRIED = "where the penalty helps"


@pytest.mark.parametrize(
    ("leads", "line"),
    [
        (
            (0.0, 0.0, 0.0),
            f"{HEAD} does as well or better in 3 of 3 compared settings {TRIED}.",
        ),
        ((0.0, -1.0), f"{HEAD} does as well or better in 2 of 2 compared settings {TRIED}."),
        ((1.0,), f"{HEAD} is worse in 1 of 1 compared setting {TRIED}."),
        (
            (0.0, 1.0),
            f"{HEAD} does as well or better in 1 and is worse in 1 of 2 compared settings {TRIED}.",
        ),
        (
            (None, 1.0),
            f"{HEAD} is worse in 1 of 1 compared setting {TRIED}.",
        ),
    ],
)
def test_how_often_a_reference_head_does_as_well(
    leads: tuple[float | None, ...], line: str
) -> None:
    places = list(enumerate(leads, 1))
    against = (contrast(5, shots, lead, **REFERENCE) for shots, lead in places if lead is not None)
    found = verdicts(*(setting(5, at, 2.0) for at, _ in places), contrasts=tuple(against))
    assert make_headline(found).lines[1] == line


def test_the_headline_on_the_theory() -> None:
    bad = setting(5, 1, 0.7, bank="mini", **theory(-2, 0.1))
    worse = setting(5, 1, 0.7, bank="cub", **theory(-3, 0.1))
    noisy = setting(5, 5, 0.7, bank="cub", **theory(-0.5, 0.6))
    assert make_headline(verdicts(bad, worse, noisy)).more[1:3] == (
        "Without tuning (λ from theory), accuracy falls in 2 and may fall in 1 of 3 settings.",
        "Its largest loss is −3.00 ± 0.10 points (Firth, linear head, cub, 5 ways, 1 shot).",
    )
    assert make_headline(verdicts(setting(5, 1, 0.7, **theory(1, 0.1)))).more[1] == (
        "Without tuning (λ from theory), accuracy is safe in 1 of 1 setting."
    )


@pytest.mark.parametrize(
    ("moves", "words"),
    [
        ((0.3, 0.3, -0.1), "worse in 2 and better in 1 of 3 settings"),
        ((0.3, 0.3, 0.0), "worse in 2 of 3 settings"),
        ((-0.1,), "better in 1 of 1 setting"),
    ],
)
def test_the_headline_counts_worse_and_better_probabilities(
    moves: tuple[float, ...], words: str
) -> None:
    found = verdicts(*(setting(5, at, 0.7, ece_pooled=0.2 + m) for at, m in enumerate(moves, 1)))
    assert make_headline(found).more[-1] == f"Calibration gets {words} where λ > 0."


def test_settings_that_could_not_be_judged_are_counted() -> None:
    why = "no trial succeeded at λ = 0"
    lost = [Unjudged("toy", "firth", "uniform", why), Unjudged("toy", "l2", "uniform", why)]
    words = f"1 setting could not be judged: {why}."
    assert make_headline(verdicts(setting(5, 1, 1.0)), lost).lines[-1] == words
    assert make_headline([], lost[:1]).answer == words


def test_nothing_finished_on_novel_classes() -> None:
    assert verdicts() == []
    assert make_headline([]).answer == "No setting is finished on novel classes."


def test_figures_are_counted_with_those_elsewhere() -> None:
    assert folded_words(19, 5, 14) == "14 figures, 5 more above"
    assert folded_words(30, 1, 14) == "14 figures, 1 more above, 15 more in figures/"
    assert folded_words(1, 0, 1) == "1 figure"


def test_a_report_names_one_number_of_trials_that_are_needed() -> None:
    others = (contrast(5, shots, 0.1) for shots in range(2, 12))
    few, against = setting(5, 1, 0.1, trials=4), contrast(5, 1, 0.1, trials=4)
    (found,) = verdicts(few, contrasts=(against, *others))
    told = {finding.trials for finding in found.findings if finding.trials}
    assert told == {(4, trials_needed(11))}
    assert trials_needed(11) > trials_needed(1)
