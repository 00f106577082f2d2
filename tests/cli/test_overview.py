"""The table that a run prints: what is cut, marked and said of each setting."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from experiments.summary_folders import row, write
from firthshot.cli import _results
from firthshot.experiments.summary import summarise
from firthshot.report.gather import Gathered

LINE = {
    **dict.fromkeys(("source", "theory_coefficient"), None), "bank": "x" * 200,
    "shots_scheme": "balanced", "head": "linear", "penalty": "firth", "prior": "uniform",
    "ways": 5, "shots": 1, "artificial": 0, "base_accuracy": 0.5, "coefficient": 1.0,
    "improvement": 0.01, "improvement_ci": 0.002, "p_holm": 0.2,
}  # fmt: skip


def printed(*lines: dict[str, Any], width: int = 80, terminal: bool = False) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=terminal, color_system=None)
    _results.show_lines(console, [_results._words({**LINE, **line}) for line in lines])
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("terminal", [False, True])
def test_a_long_name_leaves_room_for_the_numbers(terminal: bool) -> None:
    said = printed({}, {"bank": "y"}, terminal=terminal)
    assert len(said) == 3
    assert all("+1.00 ± 0.20" in line and "50.00" in line for line in said[1:])
    assert max(map(len, said)) <= 80


def test_names_give_way_to_numbers_on_a_terminal_and_nothing_does_in_a_file() -> None:
    theory = {"theory_coefficient": 2.5, "theory_improvement": -0.12}
    theory |= {"theory_improvement_ci": 0.01, "shots_scheme": "unbalanced-15"}
    lines = [theory, theory | {"bank": "z", "penalty": "label-smoothing"}]
    whole = ("+1.00 ± 0.20", "-12.00 ± 1.00", "unbalanced-15", "50.00")
    in_file, shown = printed(*lines), printed(*lines, width=100, terminal=True)
    for line in (*in_file[1:], *shown[1:]):
        assert all(word in line for word in whole)
    assert max(map(len, shown)) <= 100 < max(map(len, in_file))
    narrow = " ".join(" ".join(printed(*lines, width=80, terminal=True)).split())
    assert "-12.00" in narrow  # on two lines
    assert "…" in narrow  # the name alone is cut


def test_a_mark_on_every_line_is_shown() -> None:
    said = printed({"p_holm": 0.001}, {"p_holm": 0.001, "shots": 5})
    assert [line.count("*") for line in said] == [0, 1, 1]
    assert not any("*" in line for line in printed({}, {"shots": 5}))


def test_methods_with_the_same_prior_are_told_apart() -> None:
    said = printed(
        *({"penalty": p, "prior": "class-frequency"} for p in ("firth", "label-smoothing"))
    )
    assert "firth (frequency)" in said[1]
    assert "label-smoothing (frequency)" in said[2]


def test_the_table_marks_what_is_significant_and_the_page_s_answer_follows(tmp_path: Path) -> None:
    gains = np.random.default_rng(0).normal(0.05, 0.02, 30).clip(-0.5, 0.5)
    rows = [
        row(lam, trial, 0.5 + lam * gain, split=split, shots=shots)
        for shots, sign in ((1, 1), (5, 0))
        for split in ("val", "novel")
        for trial, gain in enumerate(np.where(sign, gains, gains - gains.mean()))
        for lam in (0.0, 1.0)
    ]
    folder = write(tmp_path / "made", rows)
    summary = summarise(folder)
    console = Console(width=80, file=io.StringIO())
    _results.show_results(Gathered(summary, ()), console)
    said = console.file.getvalue()
    marks = {int(shots): "*" in line for line in said.splitlines() if (shots := shots_of(line))}
    chosen = {line["shots"]: line["p_holm"] < 0.05 for line in summary.chosen.to_dicts()}
    assert marks == chosen == {1: True, 5: False}
    assert "* significant: Wilcoxon, Holm-corrected over the table, p < 0.05." in said
    assert "Does Firth help here? Yes, in 1 of 2 settings." in said
    assert "- The largest gain is +" in said


def shots_of(line: str) -> str:
    """Return the shots of a line of the table, "" of another line."""
    found = re.match(r"linear +5 (\d)", line)
    return found[1] if found else ""


@pytest.mark.parametrize(
    ("mean", "half_width", "words"),
    [
        (0.012, 0.003, "+1.20 ± 0.30"),
        (-0.012, None, "-1.20"),
        (None, None, "–"),
        (0.0, 0.0, "0"),
        (1e-5, 0.003, "0.00 ± 0.30"),
        (-1e-5, 0.003, "0.00 ± 0.30"),
    ],
)
def test_gains_in_words(mean: float | None, half_width: float | None, words: str) -> None:
    assert _results._gain(mean, half_width) == words
