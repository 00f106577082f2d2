"""The summary against hand-worked examples, and its choice against a plain reading of the rows."""

from __future__ import annotations

import math
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from experiments.summary_folders import KEY, failed, grid, row, write
from firthshot.errors import FirthshotError
from firthshot.experiments.summary import summarise, summarise_many
from oracles.wilcoxon import normal_wilcoxon

VAL = {"split": "val"}
T3 = 3.182446305284263  # tables of Student's t: 3 degrees of freedom, 97.5 %


def one(frame: pl.DataFrame, **where):
    """Return the only line that fits."""
    found = frame.filter(pl.all_horizontal(pl.col(k) == v for k, v in where.items()))
    return found.row(0, named=True) if len(found) == 1 else pytest.fail(f"{len(found)} lines")


# ---- one example, by hand ----------------------------------------------------------------------


@pytest.fixture
def by_hand(tmp_path):
    """Four trials; on val coefficient 1 is best, and 10 only where it must not be looked at."""
    val = grid({0: [0.4, 0.6], 1: [0.7, 0.7], 10: [0.5, 0.5]}, **VAL)
    novel = grid({0: [0.5, 0.5, 0.5, 0.5], 1: [0.7, 0.5, 0.4, 0.8], 10: [1, 1, 1, 1]})
    theory = [row(2.5, t, 0.6, theory=True, theory_exact=True) for t in range(4)]
    return summarise(write(tmp_path, val, novel + theory))


def test_chosen_line_by_hand(by_hand):
    line = one(by_hand.chosen, head="linear")
    assert (line["coefficient"], line["at_edge"], line["trials"]) == (1.0, False, 4)
    expected = {
        "base_accuracy": 0.5,
        "accuracy": 0.6,
        "improvement": 0.1,
        "improvement_ci": T3 * math.sqrt(0.1 / 3) / 2,  # differences .2, 0, -.1, .3
        "relative_improvement": 0.2,
        "share_won": 0.5,
        "share_lost": 0.25,
        "p_wilcoxon": 0.5,
        "p_holm": 0.5,
        "base_nll": 0.5,
        "nll": 0.4,
        "base_brier": 0.25,
        "brier": 0.3,
        "base_ece": 0.1,
        "ece": 0.1,
        "theory_coefficient": 2.5,
        "theory_improvement": 0.1,
        "theory_improvement_ci": 0.0,
    }
    assert {name: line[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert line["theory_exact"] is True
    assert line["theory_trials"] == 4


def test_all_lines_by_hand(by_hand):
    line = one(by_hand.all, split="novel", coefficient=1.0)
    assert line["trials"] == 4
    expected = {"accuracy": 0.6, "accuracy_ci": T3 * math.sqrt(0.1 / 3) / 2, "improvement": 0.1}
    assert {name: line[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    zero = one(by_hand.all, split="novel", coefficient=0.0)
    assert (zero["improvement"], zero["improvement_ci"]) == (0.0, 0.0)
    assert one(by_hand.all, theory=True)["improvement"] == pytest.approx(0.1)
    assert len(by_hand.all) == 3 + 3 + 1


def test_the_files_hold_the_same_tables(by_hand, tmp_path):
    again = summarise_many([tmp_path])
    for name in ("all", "chosen", "contrasts"):
        assert getattr(again, name).equals(getattr(by_hand, name))
        assert pl.read_parquet(tmp_path / "summary" / f"{name}.parquet").equals(
            getattr(again, name)
        )
        text = pl.read_csv(tmp_path / "summary" / f"{name}.csv")
        assert text.columns == getattr(by_hand, name).columns
        assert len(text) == len(getattr(by_hand, name))
    assert again.warnings == by_hand.warnings
    assert sorted(path.name for path in (tmp_path / "summary").iterdir()) == sorted(
        [f"{n}.{e}" for n in ("all", "chosen", "contrasts") for e in ("csv", "parquet")]
        + ["warnings.json"]
    )


def test_a_chosen_zero_tests_nothing(tmp_path):
    rows = grid({0: [0.6, 0.7], 1: [0.5, 0.5]}, **VAL), grid({0: [0.1, 0.9], 1: [0.9, 0.9]})
    line = one(summarise(write(tmp_path, *rows)).chosen, bank="toy")
    wanted = ("coefficient", "improvement", "improvement_ci", "p_wilcoxon", "p_holm", "share_won")
    assert [line[name] for name in wanted] == [0.0, 0.0, 0.0, 1.0, 1.0, 0.0]


def test_theory_counts_only_trials_that_have_it(tmp_path):
    novel = grid({0: [0.1, 0.2, 0.3], 1: [0.2, 0.2, 0.2]})
    novel += [row(2.5, 1, 0.4, theory=True, theory_exact=True)]
    novel += [failed(2.5, 2, theory=True, theory_exact=False)]
    val = grid({0: [0.1], 1: [0.2]}, **VAL)
    line = one(summarise(write(tmp_path, val, novel)).chosen, bank="toy")
    assert (line["theory_trials"], line["theory_exact"]) == (1, False)
    assert line["theory_improvement"] == pytest.approx(0.2)
    assert line["theory_improvement_ci"] is None
    assert line["trials"] == 3


# ---- the choice, against a plain reading of the rows -------------------------------------------


def plain_choice(rows):
    """Read the rule aloud: matched trials, whole coefficients, best mean, smallest of equals."""
    ok = {
        (r["coefficient"], r["trial"]): r for r in rows if r["status"] == "ok" and not r["theory"]
    }
    trials = [t for c, t in ok if c == 0]
    best = None
    for c in sorted({r["coefficient"] for r in rows if not r["theory"]}):
        if trials and all((c, t) in ok for t in trials):
            total = sum(Fraction(ok[c, t]["accuracy"]).limit_denominator(100) for t in trials)
            if best is None or total > best[0]:
                best = (total, c)
    return None if best is None else best[1]


@st.composite
def val_rows(draw):
    """Few trials with few queries (thirds: float32 cannot hold them), holes, failures, theory."""
    trials = draw(st.integers(1, 5))
    rows = [row(0.7, t, 1.0, theory=True, **VAL) for t in range(trials)]
    for coefficient in (0.0, 0.3, 1.0, 3.0):
        for trial in range(trials):
            fate = draw(st.sampled_from(["ok"] * 14 + ["missing", "diverged", "not-converged"]))
            if fate == "ok":
                accuracy = draw(st.integers(0, 3)) / 3
                rows.append(row(coefficient, trial, accuracy, **VAL))
            elif fate == "diverged":
                rows.append(failed(coefficient, trial, **VAL))
            elif fate == "not-converged":  # it has scores, which are not to be used
                rows.append(row(coefficient, trial, 1.0, status=fate, **VAL))
    return draw(st.permutations(rows))


@given(val_rows())
@settings(max_examples=150)
def test_choice_is_that_of_a_plain_reading(rows):
    novel = grid({c: [0.5, 0.6] for c in (0.0, 0.3, 0.7, 1.0, 3.0)})
    with tempfile.TemporaryDirectory() as folder:
        half = len(rows) // 2  # two parts of one setting, in any order
        found = summarise_many([write(Path(folder), novel, rows[:half] or rows, rows[half:])])
    expected = plain_choice(rows)
    assert found.chosen["coefficient"].to_list() == ([] if expected is None else [expected])
    if expected is None:
        assert any("no usable val rows" in sentence for sentence in found.warnings)


def test_ties_go_to_the_smaller_even_where_float32_rounds(tmp_path):
    """1/3 + 2/3 is more than 0 + 1 in float32; both means are one half."""
    val = grid({0: [0, 0.5], 1: [0, 1], 3: [1 / 3, 2 / 3]}, **VAL)
    found = summarise(write(tmp_path, val, grid({0: [0.5], 1: [0.5], 3: [0.5]})))
    assert found.chosen["coefficient"].to_list() == [1.0]


# ---- what a reader must know -------------------------------------------------------------------


def warned(summary, *words):
    return any(all(word in sentence for word in words) for sentence in summary.warnings)


def test_edge_of_the_grid(tmp_path):
    rows = grid({0: [0.1, 0.2], 1: [0.2, 0.3]}, **VAL), grid({0: [0.1, 0.2], 1: [0.2, 0.3]})
    found = summarise(write(tmp_path, *rows))
    assert found.chosen["at_edge"].to_list() == [True]
    assert warned(found, "chosen coefficient 1 is the largest of the grid")


def test_failures_are_counted_named_and_no_candidates(tmp_path):
    val = [*grid({0: [0.1, 0.1], 1: [0.2, 0.2]}, **VAL), row(3, 0, 1.0, **VAL), failed(3, 1, **VAL)]
    novel = [*grid({0: [0.1, 0.3, 0.5]}), row(1, 0, 0.2), row(1, 1, 0.5), failed(1, 2)]
    found = summarise(write(tmp_path, val, novel))
    line = one(found.chosen, bank="toy")
    assert (line["coefficient"], line["trials"]) == (1.0, 2)
    assert line["base_accuracy"] == pytest.approx(0.2)
    assert line["improvement"] == pytest.approx(0.15)
    assert warned(found, "no candidate", ": 3.")
    assert warned(found, "novel", "trials ended as diverged: 1 at coefficient 1.")


@pytest.mark.parametrize("split", ["val", "novel"])
def test_a_setting_without_a_trial_that_ended_well_is_remembered(tmp_path, split):
    good = "novel" if split == "val" else "val"
    lost = [failed(0.0, t, split=split, status="no-optimum") for t in range(3)]
    lost += [row(1.0, t, 0.8, split=split) for t in range(3)]
    rows = grid({0.0: [0.5, 0.6, 0.7], 1.0: [0.6, 0.7, 0.8]}, split=good)
    summarise(write(tmp_path, lost, rows))
    found = summarise_many([tmp_path])
    assert found.chosen.is_empty()
    (one,) = found.unjudged
    told = (one.penalty, one.prior, one.reason)
    assert told == ("firth", "uniform", "no trial succeeded at λ = 0")


def test_trials_without_a_zero_are_left_out_and_counted(tmp_path):
    val = grid({0: [0.1, 0.1], 1: [0.2, 0.2]}, **VAL)
    novel = [row(0, 0, 0.5), row(1, 0, 0.6), row(1, 1, 0.9), failed(0, 2), row(1, 2, 0.9)]
    found = summarise(write(tmp_path, val, novel))
    assert one(found.chosen, bank="toy")["improvement"] == pytest.approx(0.1)
    assert warned(found, "novel", "2 trials are left out")


def test_settings_left_out_for_one_reason_are_told_once(tmp_path):
    parts = [grid({0: [0.5], 1: [0.6]}, shots=shots) for shots in ("1", "5", "10")]
    said = [one for one in summarise(write(tmp_path, *parts)).warnings if "left out" in one]
    assert len(said) == 1
    assert " and 2 more settings: left out, there are no usable val rows to choose on." in said[0]


def test_a_choice_on_few_trials_is_told_once(tmp_path):
    few = {0: [0.1] * 19, 1: [0.2] * 19}
    rows = [grid(few, **VAL, ways=ways) + grid(few, ways=ways) for ways in (5, 10)]
    found = summarise(write(tmp_path, *rows))
    (said,) = (line for line in found.warnings if "was chosen on" in line)
    assert "and 1 more setting: the coefficient was chosen on 19 val trials" in said


def test_twenty_trials_are_enough_unless_most_are_lost(tmp_path):
    val = grid({0: [0.1] * 20, 1: [0.2] * 20}, **VAL)
    novel = grid({0: [0.1], 1: [0.2]})
    assert not warned(summarise(write(tmp_path / "enough", val, novel)), "was chosen on")
    lost = [failed(lam, 20 + t, status="invalid", **VAL) for lam in (0, 1) for t in range(21)]
    found = summarise(write(tmp_path / "lost", [*val, *lost], novel))
    assert warned(found, "chosen on 20 of 41 val trials")
    # One sentence for all coefficients, without the method: it is the features.
    (said,) = (line for line in found.warnings if "NaN" in line)
    assert said == (
        "toy, 5-way 1-shot, val: 21 trials are left out, with features that are NaN or infinite."
    )


def test_failures_are_told_once_for_all_coefficients(tmp_path):
    val = grid({0: [0.1] * 20, 1: [0.2] * 20}, **VAL)
    bad = [failed(lam, t) for lam, n in ((1, 2), (3, 2), (10, 3)) for t in range(n)]
    novel = [*grid({0: [0.1] * 4}), row(1, 3, 0.2), *bad]
    found = summarise(write(tmp_path, val, novel))
    assert warned(found, "trials ended as diverged: 2 at coefficient 1, 3; 3 at coefficient 10.")


def test_fewer_ways_on_val_are_told(tmp_path):
    val = grid({0: [0.1, 0.1], 1: [0.2, 0.2]}, **VAL, ways=20, actual_ways=16)
    found = summarise(write(tmp_path, val, grid({0: [0.1], 1: [0.2]}, ways=20, actual_ways=20)))
    assert len(found.chosen) == 1
    assert warned(found, "16 ways instead of 20")


@pytest.mark.parametrize("split", ["val", "novel"])
def test_half_a_setting_is_left_out_and_told(tmp_path, split):
    found = summarise(write(tmp_path, grid({0: [0.1], 1: [0.2]}, split=split)))
    assert len(found.chosen) == 0
    assert len(found.all) == 2
    assert warned(found, "left out", "no usable " + ("novel" if split == "val" else "val"))


def test_query_rule_may_differ_between_splits_but_not_be_ambiguous(tmp_path):
    val = grid({0: [0.1], 1: [0.2]}, **VAL, query_rule="15")
    novel = grid({0: [0.1], 1: [0.2]}, query_rule="rest")
    assert len(summarise(write(tmp_path / "a", val, novel)).chosen) == 1
    other = grid({0: [0.3], 1: [0.2]}, **VAL, query_rule="60 fixed")
    found = summarise(write(tmp_path / "b", val, other, novel))
    assert len(found.chosen) == 0
    assert warned(found, "several val settings fit")
    fixed = grid({0: [0.1], 1: [0.2]}, query_rule="60 fixed")
    found = summarise(write(tmp_path / "b", fixed, start=3))
    assert found.chosen.select("query_rule", "coefficient").rows() == [("60 fixed", 0.0)]


def test_interval_over_classes_and_where_there_is_none(tmp_path):
    random = np.random.default_rng(0)
    draws = np.argsort(random.random((60, 8)), axis=1)[:, :5]
    accuracy = {0: [0.5] * 60, 1: (0.5 + draws.mean(axis=1) / 50).tolist()}
    parts = grid({0: [0.1], 1: [0.2]}, **VAL), grid(accuracy)
    classes = dict(enumerate(draws.tolist()))
    line = one(summarise(write(tmp_path / "a", *parts, classes=classes)).chosen, bank="toy")
    low, high = line["improvement_classes_low"], line["improvement_classes_high"]
    assert low < line["improvement"] - 3 * line["improvement_ci"]
    assert high > line["improvement"] + 3 * line["improvement_ci"]
    same = {trial: list(range(5)) for trial in range(60)}
    found = summarise(write(tmp_path / "b", *parts, classes=same))
    assert one(found.chosen, bank="toy")["improvement_classes_low"] is None
    assert warned(found, "every trial uses the same classes")
    assert warned(summarise(write(tmp_path / "c", *parts)), "classes is missing")


def test_pooled_ece_pools_the_bins_of_all_parts(tmp_path):
    """Gaps of +2 and -1 in the same bin leave 1, of 30 queries with the third's 0."""
    base = {"coefficient": 0.0, "theory": False, "bin": 3}
    write(tmp_path, grid({0: [0.1]}), bins=[base | _bin(10, 5, 3)])
    write(tmp_path, [row(0, 1, 0.1)], bins=[base | _bin(10, 4, 5)], start=1)
    beside = [row(1, 2, 0.1, theory=True), row(0, 2, 0.1)]
    theory = {"coefficient": 1.0, "theory": True, "bin": 3}
    write(tmp_path, beside, bins=[base | _bin(10, 4, 4), theory | _bin(10, 9, 4)], start=2)
    found = summarise(tmp_path).all
    assert one(found, theory=False)["ece_pooled"] == pytest.approx(1 / 30)
    assert one(found, theory=True)["ece_pooled"] == pytest.approx(1 / 2)


def test_summaries_of_the_same_parts_are_the_same_bytes(tmp_path):
    """Whatever order the bins come in: sums of floats would depend on it."""
    values = np.random.default_rng(0).uniform(0, 100, (2000, 2))
    bins = [
        {"coefficient": 0.0, "theory": False, "bin": i % 15, **_bin(100, *pair)}
        for i, pair in enumerate(values.tolist())
    ]
    tables = set()
    for name, order in (("a", bins), ("b", bins[::-1]), ("c", bins[1000:] + bins[:1000])):
        write(tmp_path / name, grid({0: [0.1, 0.2]}), bins=order[:700])
        write(tmp_path / name, [row(0, 2, 0.1)], bins=order[700:], start=1)
        for _ in range(3):
            summarise(tmp_path / name)
            tables.add((tmp_path / name / "summary" / "all.csv").read_bytes())
    assert len(tables) == 1


def _bin(count, confidence, correct):
    return {"count": count, "confidence_sum": float(confidence), "correct_sum": float(correct)}


# ---- methods against one another ---------------------------------------------------------------


@pytest.fixture
def methods(tmp_path):
    """Firth with two priors, L2 and two reference heads; 60 trials, each choosing 1.

    Shots are unequal: else the priors would be one.
    """
    unequal = {"shots_scheme": "unbalanced-8"}
    random = np.random.default_rng(1)
    parts, accuracy = [], {}
    base = random.integers(0, 10, 60) / 30
    for number, (penalty, prior) in enumerate(
        [("l2", "uniform"), ("firth", "class-frequency"), ("firth", "uniform")]
    ):
        how = {"penalty": penalty, "prior": prior, **unequal}
        accuracy[penalty, prior] = base + random.integers(0, 5 + 4 * number, 60) / 30
        parts.append(grid({0: [0.1], 1: [0.2], 3: [0.1]}, **VAL, **how))
        parts.append(grid({0: base, 1: accuracy[penalty, prior]}, **how))
    for head in ("centroid", "least-squares"):
        accuracy[head] = random.integers(0, 30, 60) / 30
        how = {"head": head, "penalty": "none", "solver": "closed-form", **unequal}
        parts.append(grid({0: accuracy[head]}, **how))
    return summarise(write(tmp_path, *parts)), accuracy


def test_every_pair_is_contrasted_on_its_trials(methods):
    summary, accuracy = methods
    assert len(summary.contrasts) == 3 + 3 * 2 + 1  # the two reference heads too
    line = one(summary.contrasts, penalty="firth", prior="uniform", against_penalty="l2")
    differences = np.float32(accuracy["firth", "uniform"]) - np.float32(accuracy["l2", "uniform"])
    theirs = normal_wilcoxon(np.round(differences.astype(float), 6))
    assert line["trials"] == 60
    assert line["difference"] == pytest.approx(differences.mean(), abs=1e-6)
    assert line["difference_ci"] == pytest.approx(
        stats.t.ppf(0.975, 59) * differences.std(ddof=1) / 60**0.5, rel=1e-5
    )
    assert line["p_wilcoxon"] == pytest.approx(theirs, rel=1e-6)
    assert line["share_won"] == pytest.approx((differences > 1e-6).mean())
    against = one(summary.contrasts, against_head="centroid", penalty="l2")
    expected = accuracy["l2", "uniform"].mean() - accuracy["centroid"].mean()
    assert against["difference"] == pytest.approx(expected, abs=1e-6)
    assert against["against_coefficient"] == 0.0


def test_firth_comes_first_and_each_table_is_a_family(methods):
    summary, _ = methods
    pairs = summary.contrasts.select("penalty", "prior", "against_penalty", "against_prior").rows()
    assert ("firth", "uniform", "firth", "class-frequency") in pairs
    assert ("firth", "class-frequency", "l2", "uniform") in pairs
    smallest = summary.contrasts.sort("p_wilcoxon").row(0, named=True)
    assert smallest["p_holm"] == pytest.approx(min(1, 10 * smallest["p_wilcoxon"]))
    smallest = summary.chosen.sort("p_wilcoxon").row(0, named=True)
    assert smallest["p_holm"] == pytest.approx(min(1, 3 * smallest["p_wilcoxon"]))


def test_reference_heads_are_there_and_test_nothing(methods):
    line = one(methods[0].chosen, head="least-squares")
    assert (line["coefficient"], line["improvement"], line["p_holm"]) == (0.0, 0.0, 1.0)
    assert not warned(methods[0], "least-squares")


def test_contrasts_use_the_trials_that_both_have(tmp_path):
    how = {"penalty": "l2"}
    parts = [grid({0: [0.1], 1: [0.2]}, **VAL), grid({0: [0.1], 1: [0.2]}, **VAL, **how)]
    parts += [grid({0: [0.1] * 3, 1: [0.2, 0.3, 0.4]})]
    parts += [[row(c, t, 0.1 + 0.1 * c, **how) for c in (0, 1) for t in (1, 2, 7)]]
    line = one(summarise(write(tmp_path, *parts)).contrasts, against_penalty="l2")
    assert line["trials"] == 2
    assert line["difference"] == pytest.approx(0.35 - 0.2, abs=1e-6)


# ---- several folders, and folders that are none ------------------------------------------------


def test_several_folders_are_one_table(tmp_path):
    firth = [grid({0: [0.1], 1: [0.2]}, **VAL), grid({0: [0.1, 0.2], 1: [0.3, 0.3]})]
    ridge = [[r | {"penalty": "l2"} for r in rows] for rows in firth]
    write(tmp_path / "a", *firth)
    write(tmp_path / "b", *ridge, start=7)
    found = summarise_many([tmp_path / "a", tmp_path / "b"])
    assert found.chosen["penalty"].to_list() == ["firth", "l2"]
    assert found.contrasts["difference"].to_list() == [0.0]
    assert found.contrasts["p_holm"].to_list() == [1.0]
    assert not (tmp_path / "a" / "summary").exists()


def test_the_same_cell_twice_counts_once_and_must_agree(tmp_path):
    parts = [grid({0: [0.1], 1: [0.2]}, **VAL), grid({0: [0.1, 0.2], 1: [0.3, 0.3]})]
    write(tmp_path / "a", *parts)
    write(tmp_path / "b", *parts, start=7)
    both = summarise_many([tmp_path / "a", tmp_path / "b"])
    alone = summarise_many([tmp_path / "a"])
    assert both.all.equals(alone.all)
    assert both.chosen.equals(alone.chosen)
    rounded = [[r | {"nll": r["nll"] + 1e-6} for r in rows] for rows in parts]
    write(tmp_path / "d", *rounded, start=11)  # as on another kind of CPU
    assert summarise_many([tmp_path / "a", tmp_path / "d"]).chosen.height == alone.chosen.height
    write(tmp_path / "c", grid({0: [0.1, 0.2], 1: [0.3, 0.4]}), start=9)
    with pytest.raises(FirthshotError, match="different scores"):
        summarise_many([tmp_path / "a", tmp_path / "c"])


def test_trials_of_other_classes_are_refused(tmp_path):
    parts = [grid({0: [0.1], 1: [0.2]}, **VAL), grid({0: [0.1], 1: [0.2]})]
    other = [[r | {"penalty": "l2"} for r in rows] for rows in parts]
    write(tmp_path, *parts, classes={0: [0, 1, 2, 3, 4]})
    write(tmp_path, *other, classes={0: [5, 1, 2, 3, 4]}, start=5)
    with pytest.raises(FirthshotError, match="drew different classes"):
        summarise(tmp_path)


def test_a_part_may_hold_several_settings(tmp_path):
    rows = [*grid({0: [0.1], 1: [0.2]}, **VAL), *grid({0: [0.1, 0.4], 1: [0.3, 0.5]})]
    more = [r | {"shots": 5} for r in rows]
    found = summarise(write(tmp_path, rows + more))
    assert found.chosen["shots"].to_list() == [1, 5]
    assert found.chosen["trials"].to_list() == [2, 2]


def test_names_of_folders_are_no_patterns(tmp_path):
    parts = grid({0: [0.1], 1: [0.2]}, **VAL), grid({0: [0.1], 1: [0.2]})
    bins = [{"coefficient": 0.0, "theory": False, "bin": 0} | _bin(10, 5, 3)]
    found = summarise(write(tmp_path / "run [1] *?", *parts, bins=bins, classes={0: [0, 1]}))
    assert len(found.chosen) == 1
    assert found.chosen["base_ece_pooled"].to_list() == [pytest.approx(0.2)]


def test_folders_that_are_none(tmp_path):
    with pytest.raises(FirthshotError, match="holds no finished cells"):
        summarise(tmp_path)
    with pytest.raises(FirthshotError, match="nothing to summarise"):
        summarise_many([])


def test_foreign_and_damaged_files_are_refused(tmp_path):
    write(tmp_path, grid({0: [0.1]}))
    foreign = tmp_path / "parts" / "foreign.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(foreign)
    with pytest.raises(FirthshotError, match=r"foreign.parquet is not a table of a run"):
        summarise(tmp_path)
    foreign.write_bytes(b"PAR1 and no more")
    with pytest.raises(FirthshotError, match=r"foreign\.parquet is damaged"):
        summarise(tmp_path)


def test_published_numbers_stand_beside_ours(tmp_path):
    paper = {"dataset": "mini-ImageNet", "ways": 16, "actual_ways": 16, "shots": 25}
    parts = grid({0: [0.1], 1: [0.2]}, **VAL, **paper), grid({0: [0.1], 1: [0.2]}, **paper)
    line = one(summarise(write(tmp_path, *parts)).chosen, bank="toy")
    assert (line["published_table"], line["published_table_after"]) == ("Table A9", 0.1071)
    assert line["published_csv"] == "Fig 2 (left): code_firth/summary_val2test.csv@3942a09"
    assert line["published_csv_after"] == pytest.approx(0.1118, abs=5e-5)
    assert KEY["backbone"] == "ResNet-50"
