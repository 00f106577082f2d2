"""``firthshot regress``: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from firthshot.cli.regress import regress
from firthshot.errors import FirthshotError

pytest.importorskip("formulaic")
GOLDEN = Path(__file__).parent.parent / "jeffreys" / "golden"


@pytest.fixture
def run(monkeypatch):
    app = typer.Typer()
    app.command()(regress)

    def call(*arguments, width=80):
        monkeypatch.setenv("COLUMNS", str(width))
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    return call


@pytest.fixture
def endometrial(tmp_path):
    raw = json.loads((GOLDEN / "binary_endometrial.json").read_text())
    rows = [dict(zip(raw["columns"][1:], row[1:], strict=True)) for row in raw["X"]]
    path = tmp_path / "endometrial.csv"
    pl.DataFrame(rows).with_columns(HG=pl.Series(raw["y"])).write_csv(path)
    return path


@pytest.fixture
def hepatitis(tmp_path):
    raw = json.loads((GOLDEN / "multinomial_hepatitis.json").read_text())
    table = pl.DataFrame(
        {
            "group": ["withhold" if row[1] else "no withhold" for row in raw["X"]],
            "time": ["2 post" if row[2] else "1 pre" for row in raw["X"]],
            "type": [raw["levels"][k] for k in raw["y"]],
            "n": raw["weights"],
        }
    )
    path = tmp_path / "hepatitis.tsv"
    table.write_csv(path, separator="\t")
    return path


def test_binary_table(run, endometrial):
    output = run(endometrial, "HG ~ NV + PI + EH")
    assert "NV             2.9293  1.5508   0.6097   7.8546   6.7985   0.0091" in output
    assert "Quasi-complete separation: NV" in output
    assert "χ² = 43.6558" in output


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_is_wider_than_the_terminal(run, hepatitis, width):
    arguments = (hepatitis, "type ~ C(group) * time", "--weights", "n", "--reference", "noDisease")
    output = run(*arguments, width=width)
    assert max(map(len, output.splitlines())) <= width
    assert "C against noDisease" in output
    assert "-7.3043" in output
    assert "group[withhold]:" in output


def test_tidy_files(run, endometrial, tmp_path):
    run(endometrial, "HG ~ NV + PI + EH", "--out", tmp_path / "o.csv", "--profile")
    rows = pl.read_csv(tmp_path / "o.csv")
    assert rows.columns == ["contrast", "reference", "term", "estimate", "std_error", "lower",
                            "upper", "chi2", "p_value"]  # fmt: skip
    assert rows["lower"][1] == pytest.approx(0.609724436303203, rel=1e-5)
    run(endometrial, "HG ~ NV + PI + EH", "--out", tmp_path / "o.json", "--wald")
    plain = json.loads((tmp_path / "o.json").read_text())
    assert plain["separation"]["variables"] == ["NV"]
    assert plain["coefficients"][1]["lower"] < 0


def test_options_reach_the_model(run, endometrial, tmp_path):
    arguments = [endometrial, "HG ~ NV + PI + EH - 1", "--standard-errors", "augmented"]
    output = run(*arguments, "--tau", "1", "--level", "0.9", "--reference", "1")
    assert "(Intercept)" not in output
    assert "τ = 1" in output
    assert "5%" in output
    assert "reference 1" in output
    assert "FLAC" in run(endometrial, "HG ~ NV", "--correction", "flac")


def test_picture(run, endometrial, tmp_path):
    pytest.importorskip("matplotlib")
    run(endometrial, "HG ~ NV + PI", "--plot", tmp_path / "profiles.png")
    assert (tmp_path / "profiles.png").stat().st_size > 10_000


def write(folder, text, name="t.csv"):
    path = folder / name
    path.write_text(text)
    return path


GOOD = "y,x,g,w\n0,1.5,a,1\n1,2.5,b,1\n0,2.5,a,2\n1,0.5,b,1\n"
BAD = [
    (GOOD, "y ~ z", [], "no column 'z'"),
    (GOOD, "y ~ xx", [], "did you mean 'x'"),
    (GOOD, "q ~ x", [], "no column 'q'"),
    (GOOD, "y ~ x +", [], "formula"),
    (GOOD, "y ~ log(", [], "formula"),
    (GOOD, "y ~ x ~ g", [], "outcome ~ term"),
    (GOOD, "y", [], "outcome ~ term"),
    (GOOD, "y ~ 1", [], "no term"),
    (GOOD, "y ~ log(x - 1.5)", [], "not finite in row 1"),
    (GOOD, "x ~ w", [], "a measurement"),
    (GOOD, "y ~ x", ["--weights", "nope"], "no column 'nope'"),
    (GOOD, "y ~ x", ["--weights", "g"], "no numbers"),
    (GOOD, "y ~ x", ["--reference", "7"], "choose of 0, 1"),
    (GOOD, "y ~ x", ["--tau", "-1"], "tau"),
    (GOOD, "y ~ x", ["--level", "95"], "level is 95"),
    (GOOD, "y ~ x", ["--correction", "flux"], "flic"),
    (GOOD, "y ~ x", ["--out", "table.xlsx"], ".csv or .json"),
    (GOOD, "y ~ x", ["--out", "no/such/folder/t.csv"], "does not exist"),
    (GOOD, "y ~ x", ["--plot", "p.xyz"], "--plot p.xyz is of no known kind"),
    (GOOD, "y ~ x", ["--plot", "no/such/folder/p.png"], "does not exist"),
    (GOOD, "y ~ x + I(2 * x)", [], "--collinear minimal-norm"),
    ("y,x,g\n0,1,a\n1,2,NA\n0,3,b\n1,2,b\n", "y ~ g", [], "'g' has no finite value in row 2"),
    ("y,x,g\n0,1,a\n1,2,b\n0,3,nan\n1,2,b\n", "y ~ g", [], "'g' has no finite value in row 3"),
    ('y,x,g\n0,1,a\n1,2,b\n0,3,""\n1,2,b\n', "y ~ g", [], "'g' has no finite value in row 3"),
    ("y,x\nu,1\nNA,2\nv,3\nNaN,2\n", "y ~ x", [], "'y' has no finite value in row 2 and 1 more:"),
    ("y,x\n0,1\n1,NA\n0,3\n1,2\n", "y ~ x", [], "'x' has no finite value in row 2"),
    ("y,Intercept\n0,1\n1,5\n0,3\n1,2\n", "y ~ Intercept", [], "called 'Intercept'"),
    ("y,(Intercept)\n0,1\n1,5\n0,3\n1,2\n", "y ~ `(Intercept)`", [], "'(Intercept)'"),
    ("y,x\n" + "".join(f"c{k},{k}\n" for k in range(15)), "y ~ x", ["--reference", "d"], ", …."),
    ("y,x\n0,1\n1,\n0,3\n1,2\n", "y ~ x", [], "'x' has no finite value in row 2"),
    ("y,x\n0,1.0\n1,NaN\n0,3\n1,2\n", "y ~ x", [], "'x' has no finite value in row 2"),
    ("y,x\n0,1\n1,inf\n0,3\n1,2\n", "y ~ x", [], "row 2"),
    ("y,x\n,1\n1,2\n0,3\n1,2\n", "y ~ x", [], "'y' has no finite value in row 1"),
    ("y,x\n1,1\n1,2\n1,3\n", "y ~ x", [], "1 class"),
    ("y,x\na,1\na,2\na,3\n", "y ~ x", [], "1 class"),
    ("", "y ~ x", [], "cannot be read as a table"),
    ("y,x\n", "y ~ x", [], "has no rows"),
]


@pytest.mark.parametrize(("text", "formula", "options", "message"), BAD)
def test_refusals_are_one_sentence(run, tmp_path, text, formula, options, message):
    with pytest.raises(FirthshotError) as caught:
        run(write(tmp_path, text), formula, *options)
    words = str(caught.value)
    assert message in words
    assert "\n" not in words
    assert words.endswith((".", "?"))


def test_files_that_are_not_there(run, tmp_path):
    with pytest.raises(FirthshotError, match="no file"):
        run(tmp_path / "none.csv", "y ~ x")
    with pytest.raises(FirthshotError, match="no known kind"):
        run(write(tmp_path, GOOD, "t.dta"), "y ~ x")


def test_without_formulaic_the_extra_is_named(run, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(FirthshotError, match=r"firthshot\[formula\]"):
        run(write(tmp_path, GOOD), "y ~ x")


@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_the_table_is_never_overwritten(run, tmp_path, option):
    path = write(tmp_path, GOOD)
    with pytest.raises(FirthshotError, match="overwrite the table"):
        run(path, "y ~ x", option, path)
    assert path.read_text() == GOOD


def test_collinear_columns_are_one_plain_sentence(run, tmp_path):
    output = run(write(tmp_path, GOOD), "y ~ x + I(2 * x)", "--collinear", "minimal-norm")
    assert output.startswith("Collinear columns: ")
    assert ".py" not in output
