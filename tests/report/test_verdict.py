"""Verdicts: the right words for known numbers."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from experiments.summary_folders import KEY
from firthshot.experiments.summary import RunSummary, Unjudged
from firthshot.experiments.summary.columns import ALL, CHOSEN, CONTRASTS
from firthshot.report.headline import make_headline
from firthshot.report.outcomes import kind_of
from firthshot.report.verdict import Verdict, make_verdicts
from report.verdict_lines import Fixed, said, setting, verdicts


def test_where_it_helps_in_the_words_of_the_grid() -> None:
    gains = {(w, s): 0.7 if w > 10 and s > 1 else 0.0 for w in (5, 10, 15, 20) for s in (1, 5, 10)}
    (verdict,) = verdicts(*(setting(w, s, gain) for (w, s), gain in gains.items()))
    assert said(verdict, "accuracy") == [
        "Firth helps at 5 and 10 shots from 15 ways up (+0.70 ± 0.20 points).",
        (
            "No significant effect at 1 shot (0.00 ± 0.20 points); "
            "at 5 and 10 shots up to 10 ways (0.00 ± 0.20 points)."
        ),
    ]
    assert verdict.count("helps") == 4
    headline = make_headline([verdict])
    assert headline.question == "Does Firth help here?"
    assert headline.answer == "Only in 4 of 12 settings."


def test_costs_are_said_plainly() -> None:
    (verdict,) = verdicts(setting(5, 1, -1.0), setting(5, 5, -0.5, 0.1))
    assert said(verdict, "accuracy") == [
        "Firth costs accuracy in both settings (−1.00 ± 0.20 to −0.50 ± 0.10 points)."
    ]
    headline = make_headline([verdict])
    assert headline.answer == "No: it costs accuracy in 2 of 2 settings."
    assert headline.tone == "bad"
    assert "Largest loss: −1.00 ± 0.20 points (Firth, linear head, 5 ways, 1 shot)." in (
        headline.lines
    )


def test_a_mixed_answer_depends() -> None:
    found = verdicts(setting(5, 1, -1.0), setting(5, 5, 1.0))
    assert make_headline(found).answer == (
        "It depends: it helps in 1 and costs accuracy in 1 of 2 settings."
    )


def test_no_effect_and_nothing_chosen() -> None:
    unchanged = setting(5, 5, 0.0, 0.0, coefficient=0.0, p_holm=1.0)
    (verdict,) = verdicts(setting(5, 1, 0.1), unchanged)
    assert [outcome.kind for outcome in verdict.outcomes] == ["unclear", "unchanged"]
    assert said(verdict, "accuracy")[1] == (
        "The validation classes chose λ = 0 at 5 shots: there it is left out."
    )
    assert make_headline([verdict]).answer == (
        "No effect that can be told from chance in 1 of 2 settings; in the other the validation "
        "classes chose λ = 0."
    )
    assert make_headline([verdict]).tone == "plain"


@pytest.mark.parametrize(
    ("unclear", "unchanged", "answer"),
    [
        (0, 1, "Not in use: the validation classes chose λ = 0."),
        (0, 2, "Not in use: the validation classes chose λ = 0 in both settings."),
        (0, 3, "Not in use: the validation classes chose λ = 0 in all 3 settings."),
        (1, 0, "No effect that can be told from chance in 1 setting."),
        (2, 0, "No effect that can be told from chance in 2 settings."),
        (
            1,
            2,
            (
                "No effect that can be told from chance in 1 of 3 settings; in the other 2 the "
                "validation classes chose λ = 0."
            ),
        ),
    ],
)
def test_a_chosen_zero_is_no_null_result(unclear: int, unchanged: int, answer: str) -> None:
    zero = {"coefficient": 0.0, "p_holm": 1.0}
    found = verdicts(
        *(setting(5, 1 + i, 0.1) for i in range(unclear)),
        *(setting(10, 1 + i, 0.0, 0.0, **zero) for i in range(unchanged)),
    )
    assert make_headline(found).answer == answer


def test_small_gains_are_called_small() -> None:
    found = verdicts(setting(5, 1, 0.05, 0.01), setting(5, 5, 3.0))
    headline = make_headline(found)
    assert headline.answer == "Yes, in both settings."
    assert headline.lines[0] == (
        "Largest gain in accuracy: +3.00 ± 0.20 points (Firth, linear head, 5 ways, 5 shots). "
        "1 of the 2 gains is below 0.1 points."
    )


def test_a_gain_that_is_printed_as_a_tenth_is_not_called_less() -> None:
    """Every table prints a gain of 0.096 points as +0.10."""
    line = make_headline(verdicts(setting(5, 1, 0.096, 0.01))).lines[0]
    assert "+0.10 ± 0.01 points" in line
    assert "below" not in line
    line = make_headline(verdicts(setting(5, 1, 0.094, 0.01))).lines[0]
    assert "+0.09 ± 0.01 points" in line
    assert line.endswith("It is below 0.1 points.")


def test_one_trial_has_no_interval() -> None:
    line = setting(5, 1, 1.0, improvement_ci=None, p_holm=1.0, trials=1)
    (verdict,) = verdicts(line)
    assert said(verdict, "accuracy") == [
        (
            "Too few trials to tell at 5 ways, 1 shot (+1.00 points): with 1 trial nothing can be "
            "significant, at least 6 are needed."
        )
    ]


@pytest.mark.parametrize(
    ("trials", "settings", "answer"),
    [
        (
            5,
            1,
            (
                "Too few trials to tell in 1 setting: with 5 trials nothing can be significant, "
                "at least 6 are needed."
            ),
        ),
        (6, 1, "No effect that can be told from chance in 1 setting."),
        (
            6,
            2,
            (
                "Too few trials to tell in 2 settings: with 6 trials nothing can be significant, "
                "at least 7 are needed."
            ),
        ),
        (7, 2, "No effect that can be told from chance in 2 settings."),
    ],
)
def test_too_few_trials_are_no_null_result(trials: int, settings: int, answer: str) -> None:
    found = verdicts(*(setting(5, 1 + i, 0.1, trials=trials) for i in range(settings)))
    assert make_headline(found).answer == answer
    kinds = dict.fromkeys(word for _, _, word in make_headline(found).counts)
    assert ("too few trials" in kinds) == (answer.startswith("Too few") and settings > 1)


def test_few_trials_beside_other_settings() -> None:
    zero = setting(5, 10, 0.0, 0.0, coefficient=0.0, p_holm=1.0)
    few, enough = setting(5, 1, 0.1, trials=3), setting(5, 5, 0.1)
    why = "with 3 trials nothing can be significant, at least 7 are needed."
    assert make_headline(verdicts(few, zero)).answer == (
        f"Too few trials to tell in 1 of 2 settings; in the other the validation classes chose "
        f"λ = 0: {why}"
    )
    assert make_headline(verdicts(few, enough)).answer == (
        "No effect that can be told from chance in 1 of 2 settings; in the other there are too "
        f"few trials to tell: {why}"
    )
    helped = make_headline(verdicts(few, setting(5, 5, 1.0)))
    assert helped.lines[1] == (
        "In 1 setting there are too few trials to tell (with 3 trials nothing can be significant, "
        "at least 7 are needed); it costs accuracy significantly nowhere."
    )


def test_intervals_over_classes() -> None:
    loose = {"improvement_classes_low": -0.001, "improvement_classes_high": 0.015}
    sure = {"improvement_classes_low": 0.002, "improvement_classes_high": 0.012}
    (verdict,) = verdicts(setting(5, 1, 0.7, **loose), setting(5, 5, 0.7, **sure))
    assert said(verdict, "classes") == [
        (
            "Other classes could tell otherwise at 1 shot: the interval that also resamples "
            "classes includes zero there."
        ),
        (
            "Intervals over classes are about 4.0 times as wide as those over trials: more trials "
            "will not settle what other classes would do."
        ),
    ]
    narrow = {"improvement_classes_low": 0.005, "improvement_classes_high": 0.009}
    assert said(verdicts(setting(5, 1, 0.7, **narrow))[0], "classes") == []


def test_probabilities() -> None:
    worse = {"nll": 1.5, "ece_pooled": 0.5}
    (verdict,) = verdicts(setting(5, 1, 0.7, **worse), setting(5, 5, 0.7, **worse))
    assert said(verdict, "calibration") == [
        (
            "Its probabilities are worse: nll rises in 2 of 2, calibration error (ECE) rises in "
            "2 of 2, the largest move is from 0.20 to 0.50 at 5 ways, 1 shot."
        )
    ]
    better = {"nll": 0.5, "ece_pooled": 0.1}
    (verdict,) = verdicts(setting(5, 1, 0.7, **better))
    assert said(verdict, "calibration")[0].startswith("Its probabilities are better: nll falls,")
    (verdict,) = verdicts(setting(5, 1, 0.7, **worse), setting(5, 5, 0.7, **better))
    assert "neither better nor worse" in said(verdict, "calibration")[0]


@pytest.mark.parametrize(
    ("moves", "words"),
    [
        ((0.3, 0.3, -0.1), "worse calibrated in 2, better in 1 of 3 settings"),
        ((0.3, -0.1, 0.0), "worse calibrated in 1, better in 1 of 3 settings"),
        ((0.3, 0.3, 0.0), "worse calibrated in 2 of 3 settings"),
        ((-0.1, -0.1), "better calibrated in 2 of 2 settings"),
        ((-0.1,), "better calibrated in the one setting"),
    ],
)
def test_the_headline_counts_worse_and_better_probabilities(
    moves: tuple[float, ...], words: str
) -> None:
    found = verdicts(*(setting(5, at, 0.7, ece_pooled=0.2 + m) for at, m in enumerate(moves, 1)))
    assert f"Probabilities get {words} where it is in use." in make_headline(found).lines


def test_the_only_candidate_is_not_chosen() -> None:
    zero = {"coefficient": 0.0, "p_holm": 1.0}
    line = dict.fromkeys(ALL) | KEY | {"split": "val", "trials": 100}
    lines = [line | {"coefficient": lam, "theory": lam > 0} for lam in (0.0, 2.5)]

    def found(*chosen: dict[str, Any]) -> Verdict:
        summary = RunSummary(
            pl.DataFrame(lines, schema=ALL),
            pl.DataFrame(list(chosen), schema=CHOSEN),
            pl.DataFrame(schema=CONTRASTS),
            [],
        )
        (verdict,) = make_verdicts(Fixed(summary, ()))
        return verdict

    verdict = found(setting(5, 1, 0.0, 0.0, **zero))
    assert said(verdict, "accuracy") == [
        "No λ but 0 was a candidate at 5 ways, 1 shot: there it is left out."
    ]
    assert make_headline([verdict]).answer == "Not in use: no λ but 0 was a candidate."
    both = found(setting(5, 1, 0.0, 0.0, **zero), setting(5, 5, 0.0, 0.0, **zero))
    assert make_headline([both]).answer == (
        "Not in use: no λ but 0 was a candidate in 1 setting; the validation classes chose "
        "λ = 0 in 1 setting."
    )
    helped = make_headline([found(setting(5, 1, 0.0, 0.0, **zero), setting(5, 5, 1.0))])
    assert helped.lines[1] == (
        "In 1 setting no λ but 0 was a candidate; it costs accuracy significantly nowhere."
    )


def test_the_edge_of_the_grid() -> None:
    (verdict,) = verdicts(setting(5, 1, 0.7, at_edge=True), setting(5, 5, 0.7))
    assert said(verdict, "edge") == [
        "The chosen λ is the largest of the grid at 1 shot: a larger one might do better."
    ]


def confident(binned: dict[tuple[int, int], tuple[float, float]], *chosen: dict[str, Any]) -> str:
    """Return the remark on probabilities where (ways, shots) have a confidence and an accuracy."""
    row = {**KEY, "coefficient": 0.0, "theory": False, "bin": 3, "count": 100}
    lines = [
        {**row, "ways": ways, "shots": shots, "confidence_sum": sure, "correct_sum": right}
        for (ways, shots), (sure, right) in binned.items()
    ]

    class Binned(Fixed):
        bins = pl.DataFrame(lines, schema=Fixed.bins.schema)

    table = pl.DataFrame(list(chosen), schema=CHOSEN)
    summary = RunSummary(pl.DataFrame(schema=ALL), table, pl.DataFrame(schema=CONTRASTS), [])
    (verdict,) = make_verdicts(Binned(summary, ()))
    return said(verdict, "calibration")[0]


def test_confidence_without_penalty() -> None:
    assert confident({(5, 1): (40.0, 80.0)}, setting(5, 1, 0.7, nll=1.5)).endswith(
        "Without penalty the head is under-confident: 40% mean confidence at 80% accuracy."
    )
    assert "confident" not in confident({(5, 1): (79.0, 80.0)}, setting(5, 1, 0.7, nll=1.5))


def test_confidence_is_that_of_the_settings_in_use() -> None:
    zero = setting(5, 1, 0.0, 0.0, coefficient=0.0, p_holm=1.0)
    binned = {(5, 1): (10.0, 80.0), (5, 5): (44.0, 26.0)}
    assert confident(binned, zero, setting(5, 5, 0.7, nll=0.5)).endswith(
        "Without penalty the head is over-confident: 44% mean confidence at 26% accuracy."
    )


def test_confidence_is_not_pooled_over_ways() -> None:
    binned = {(5, 1): (70.0, 60.0), (10, 1): (20.0, 50.0), (20, 1): (30.0, 31.0)}
    lines = [setting(ways, 1, 0.7, nll=0.5) for ways, _ in binned]
    assert confident(binned, *lines).endswith(
        "Without penalty the head is over-confident in 1 and under-confident in 1 of 3, most at "
        "10 ways, 1 shot: 20% mean confidence at 50% accuracy."
    )


def test_titles_tell_methods_apart() -> None:
    found = verdicts(
        setting(5, 1, 0.7, bank="mini"),
        setting(5, 1, 0.7, bank="cub"),
        setting(5, 1, 0.7, bank="cub", penalty="l2", l2_kind="ridge"),
        setting(5, 1, 0.7, bank="cub", prior="class-frequency"),
    )
    assert [verdict.title for verdict in found] == [
        "Firth, linear head, mini",
        "Firth, linear head, cub",
        "Firth (class-frequency prior), linear head",
        "L2, linear head",
    ]
    assert make_headline(found).answer == "Yes, in both settings."
    assert make_headline(found[3:]).question == "Does L2 help here?"


def test_settings_that_could_not_be_judged_are_counted() -> None:
    why = "no trial ended well at λ = 0"
    lost = [Unjudged("toy", "firth", "uniform", why), Unjudged("toy", "l2", "uniform", why)]
    words = f"1 setting could not be judged: {why}."
    assert make_headline(verdicts(setting(5, 1, 1.0)), lost).lines[-1] == words
    assert make_headline([], lost[:1]).answer == words


def test_nothing_finished_on_novel_classes() -> None:
    assert verdicts() == []
    assert make_headline([]).answer == "No setting is finished on novel classes."


def test_the_same_numbers_in_any_order() -> None:
    lines = [setting(w, s, 0.3 * w - s) for w in (5, 10) for s in (1, 5)]
    forward, backward = verdicts(*lines), verdicts(*lines[::-1])
    assert forward[0].remarks == backward[0].remarks


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
