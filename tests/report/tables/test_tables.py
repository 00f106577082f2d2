"""Tables against the summary they are made from, and their files read back."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from experiments.summary_folders import KEY, grid, row, write
from firthshot.experiments.summary import summarise_many
from firthshot.report.gather import Gathered
from firthshot.report.runs import Run
from firthshot.report.tables import make_tables, write_tables
from firthshot.report.tables.cells import (
    Number,
    Table,
    coefficient,
    latex,
    merged,
    p_value,
    table,
    to_csv,
    to_latex,
    to_markdown,
)

NASTY = r"a_b & 100% $x$ #1 {y} ~^\ <b> | *c*"


def gathered(folder: Path, *parts: list[dict[str, Any]], **spec: Any) -> Gathered:
    write(folder, *parts)
    run = Run(folder, "toy", "trials", {"name": "toy", **spec}, "")
    return Gathered(summarise_many([folder]), (run,))


def both_splits(**key: Any) -> list[dict[str, Any]]:
    """Ten trials in which coefficient 1 gains 2 to 4 points on novel and wins on val."""
    accuracies = {
        0.0: [0.5 + 0.01 * t for t in range(10)],
        1.0: [0.52 + 0.012 * t for t in range(10)],
    }
    theory = [
        row(2.5, t, 0.51 + 0.01 * t, split="novel", theory=True, theory_exact=True, **key)
        for t in range(10)
    ]
    return [
        *grid(accuracies, split="val", **key),
        *grid(accuracies, split="novel", **key),
        *theory,
    ]


def by_column(made: Table, at: int = 0) -> dict[str, Any]:
    return dict(zip(made.columns, made.rows[at], strict=True))


def named(tables: list[Table], name: str) -> Table:
    return next(one for one in tables if one.name == name)


def test_improvement_table_holds_the_summary(tmp_path: Path) -> None:
    data = gathered(tmp_path, both_splits(), both_splits(shots=5))
    made = named(make_tables(data), "improvement-linear-firth")
    chosen = data.summary.chosen.sort("shots").to_dicts()
    assert [by_column(made, at)["Shot"] for at in (0, 1)] == [1, 5]
    for at, line in enumerate(chosen):
        cells = by_column(made, at)
        assert "Bank" not in cells
        assert cells["Way"] == 5
        assert cells["Before"] == pytest.approx(100 * line["base_accuracy"], abs=0.005)
        assert cells["After"] == pytest.approx(100 * line["accuracy"], abs=0.005)
        assert cells["Improvement"] == pytest.approx(100 * line["improvement"], abs=0.005)
        assert cells["Improvement ±"] == pytest.approx(100 * line["improvement_ci"], abs=0.005)
        assert cells["λ"] == line["coefficient"] == 1
        assert cells["Theory λ"] == 2.5
        assert cells["Theory improvement"] == pytest.approx(1.0, abs=0.005)
        assert (cells["Sig."] == "*") == (line["p_holm"] < 0.05)
        assert cells["Trials"] == 10
        assert cells["Remark"] == "λ at the edge of its grid"
    assert "Bank toy [Toy; ResNet-50]." in made.note
    assert "exact Firth here" in made.note
    assert "The paper has no numbers for these cells." in made.note


def test_other_banks_than_the_papers_are_said_to_be_so(tmp_path: Path) -> None:
    data = gathered(tmp_path, both_splits(), paper_banks=["mini-resnet10"], reproduces="Figure 2")
    tables = make_tables(data)
    note = named(tables, "improvement-linear-firth").note
    assert "The paper ran Figure 2 on other banks" in note
    assert not [one for one in tables if one.name.startswith("published")]


def test_published_numbers_stand_beside_ours(tmp_path: Path) -> None:
    paper = {"dataset": "mini-ImageNet", "backbone": "ResNet-50", "ways": 16, "actual_ways": 16}
    data = gathered(tmp_path, both_splits(shots=25, **paper))
    tables = make_tables(data)
    made = named(tables, "published-linear-firth")
    sources = {by_column(made, at)["Source"]: by_column(made, at) for at in range(len(made.rows))}
    printed = next(cells for source, cells in sources.items() if source == "Table A9")
    file = next(cells for source, cells in sources.items() if "3942a09" in source)
    assert (printed["Paper after"], file["Paper after"]) == (10.71, 11.18)  # both, as they differ
    assert file["Paper improvement"] == 2.72
    ours = data.summary.chosen.to_dicts()[0]
    for cells in (printed, file):
        assert cells["Improvement"] == pytest.approx(100 * ours["improvement"], abs=0.005)
        gap = cells["Improvement"] - cells["Paper improvement"]
        assert cells["Difference"] == pytest.approx(gap, abs=0.011)
        width = (cells["Improvement ±"] ** 2 + cells["Paper improvement ±"] ** 2) ** 0.5
        assert cells["Difference ±"] == pytest.approx(width, abs=0.011)
    assert "in the table of published numbers" in named(tables, "improvement-linear-firth").note


def test_methods_and_contrasts_agree_with_the_summary(tmp_path: Path) -> None:
    better = both_splits()
    worse = [
        {**line, "penalty": "l2", "accuracy": line["accuracy"] - 0.01 * (line["coefficient"] > 0)}
        for line in both_splits()
        if not line["theory"]
    ]
    data = gathered(tmp_path, better, worse)
    tables = make_tables(data)
    cells = by_column(named(tables, "methods-linear"))
    assert cells["Firth"] - cells["L2 (mean-square)"] == pytest.approx(1.0, abs=0.011)
    cells = by_column(named(tables, "contrasts-linear"))
    assert (cells["Method"], cells["Against"]) == ("Firth", "L2 (mean-square)")
    assert cells["Difference"] == pytest.approx(1.0, abs=0.005)
    line = data.summary.contrasts.to_dicts()[0]
    assert cells["Difference ±"] == pytest.approx(100 * line["difference_ci"], abs=0.005)
    assert cells["Won (%)"] == 100


def test_banks_are_a_column_where_there_are_several(tmp_path: Path) -> None:
    data = gathered(tmp_path, both_splits(bank="resnet101"), both_splits(bank="resnet50"))
    made = named(make_tables(data), "improvement-linear-firth")
    assert [by_column(made, at)["Bank"] for at in (0, 1)] == ["resnet50", "resnet101"]
    text = to_latex(made)
    assert text.index(r"{c}{resnet50} \\") < text.index(r"{c}{resnet101} \\")
    assert "Bank &" not in text


def test_calibration_table_is_before_and_after(tmp_path: Path) -> None:
    data = gathered(tmp_path, both_splits())
    cells = by_column(named(make_tables(data), "calibration-linear-firth"))
    line = data.summary.chosen.to_dicts()[0]
    assert cells["NLL before"] == pytest.approx(line["base_nll"], abs=5e-4)
    assert cells["Brier after"] == pytest.approx(line["brier"], abs=5e-4)
    assert "ECE before" not in cells  # there are no bins


def test_files_round_trip(tmp_path: Path) -> None:
    data = gathered(tmp_path / "run", both_splits(bank=NASTY), both_splits(bank=NASTY, shots=5))
    tables = make_tables(data)
    paths = write_tables(tables, tmp_path / "tables")
    assert len(paths) == 3 * len(tables)
    assert all(path.is_file() for path in paths)
    for made in tables:
        text = (tmp_path / "tables" / f"{made.name}.csv").read_text("utf-8")
        header, *rows = csv.reader(io.StringIO(text))
        assert tuple(header) == made.columns
        shown = [["" if cell is None else str(cell) for cell in row] for row in made.rows]
        assert rows == shown
    frame = pl.read_csv(tmp_path / "tables" / "improvement-linear-firth.csv")
    assert frame["Improvement"].dtype == pl.Float64


def test_a_name_full_of_specials_cannot_break_latex_or_markdown() -> None:
    rows_of_two = ({"Bank": NASTY, "Way": 5}, {"Bank": "b", "Way": 10})
    made = replace(table("contrasts", "x", [*rows_of_two], {"head": ""}), title=NASTY, note=NASTY)
    text = to_latex(made)
    body = text.split("\n", 1)[1]
    left = re.sub(r"\\(textbackslash|textasciitilde|textasciicircum|text\w+)\{\}", "", body)
    left = re.sub(r"\\[&%$#_{}]", "", left)
    assert "%" not in left
    assert "#" not in left
    assert "_" not in left
    assert "$" not in left
    assert left.count("{") == left.count("}")
    assert text.count(r"a\_b \& 100\% \$x\$ \#1 \{y\}") == 3
    rows = [
        line for line in left.splitlines() if line.endswith(r"\\") and "multicolumn" not in line
    ]
    assert all(line.count("&") == 0 for line in rows)  # one column beside the bank's heading
    lines = to_markdown(made).splitlines()
    table_lines = [line for line in lines if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table_lines} == {3}
    assert r"a\_b \& 100% \$x\$" in lines[0]
    assert r"\<b\>" in lines[0]


def test_latex_is_booktabs_with_as_many_cells_as_columns(tmp_path: Path) -> None:
    data = gathered(tmp_path, both_splits(), both_splits(shots=5))
    for made in make_tables(data):
        text = to_latex(made)
        for command in (r"\toprule", r"\midrule", r"\bottomrule", r"\begin{tabular}", r"\caption{"):
            assert command in text
        columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)
        assert columns is not None
        rows = [line for line in text.splitlines() if line.endswith(r" \\")]
        assert {len(re.split(r"(?<!\\)&", line)) for line in rows} == {len(columns[1])}
        assert text.isascii() or set(re.findall(r"[^\x00-\x7f]", text)) <= set("ÄÖÜäöüß")


def test_values_and_intervals_share_a_cell_in_print() -> None:
    made = Table("x", "X", ("A", "A ±", "B"), ((Number(-1.5, 2, True), Number(0.25), None),))
    assert merged(made) == (["A", "B"], [["−1.50 ± 0.25", ""]], [True, True])
    assert to_csv(made) == "A,A ±,B\n-1.50,0.25,\n"
    assert r"$-$1.50 $\pm$ 0.25" in to_latex(made)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.01, "0.01"), (7.5, "7.5"), (300.0, "300"), (1.6333, "1.63")]
)
def test_coefficients_are_written_as_people_do(value: float, text: str) -> None:
    assert str(coefficient(value)) == text


def test_numbers_show_their_decimals() -> None:
    assert str(Number(92.4)) == "92.40"
    assert str(Number(0.001, 2, True)) == "0.00"
    assert str(Number(-0.001, 2, True)) == "0.00"
    assert str(Number(0.3, 1, True)) == "+0.3"
    assert [p_value(p) for p in (1e-9, 0.0421, 1.0, None)] == ["<0.001", "0.042", "1.000", None]
    assert latex("λ ± 5 %") == r"$\lambda$ $\pm$ 5 \%"


def test_unbalanced_shots_are_named(tmp_path: Path) -> None:
    data = gathered(tmp_path, both_splits(shots=8, shots_scheme="unbalanced-8"))
    assert by_column(make_tables(data)[0])["Shot"] == "unbalanced-8"
    assert KEY["shots_scheme"] == "balanced"
