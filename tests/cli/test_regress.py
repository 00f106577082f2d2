"""``firthshot regress``: what it prints and writes, and what it refuses."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

import firthshot
from firthshot import __version__
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
    forest, profiles = tmp_path / "or.svg", tmp_path / "profiles.png"
    run(endometrial, "HG ~ NV + PI", "--plot", forest)
    assert "odds ratio (95% CI)" in forest.read_text("utf-8")
    run(endometrial, "HG ~ NV + PI", "--plot", profiles, "--plot-kind", "profiles")
    assert profiles.stat().st_size > 10_000


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
    (GOOD, "y ~ 0", [], "no term"),
    (GOOD, "y ~ poly(xx, 2)", [], "did you mean 'x'"),
    (GOOD, "C(y) ~ x", [], "name a plain column, such as 'y'"),
    (GOOD, "y == 1 ~ x", [], "name a plain column, such as 'y'"),
    (GOOD, "y ~ offset(g)", [], "one number in each row"),
    (GOOD, "cbind(y, x, w) ~ g", [], "cbind has 3 parts"),
    (GOOD, "cbind(y, y - w) ~ x", [], "negative in row 1"),
    (GOOD, "cbind(y, g) ~ x", [], "'g' in cbind holds no counts"),
    (GOOD, "y ~ y", [], "The outcome 'y' stands among its own terms: remove it there."),
    (GOOD, "y ~ x + log(y + 1)", [], "The outcome 'y' stands among its own terms"),
    (GOOD, "cbind(y, w) ~ w", [], "The outcome 'w' stands among its own terms"),
    (GOOD, "y ~ x | g", [], "has a |: there are no random effects"),
    (GOOD, "y ~ (1|g) + x", [], "has a |: there are no random effects"),
    (GOOD, "y ~ I(x.__class__)", [], "the attribute 'x.__class__', which is not allowed"),
    (GOOD, "y ~ I(open('owned','w').write('x'))", [], "the attribute \"open('owned', 'w').write\""),
    (GOOD, "y ~ x + log(g)", [], "'log(g)' is no column of numbers"),
    (GOOD, "y ~ x +", [], "cannot be read: '+' lacks a term on one side"),
    (GOOD, "y ~ log(x", [], "it ends before ')'; add that."),
    (GOOD, "y ~ bs(x, df=2)", [], "(Invalid value for 'df'; 'df' must be greater than 3): mend"),
    ("y,d\n0,u\n1,u\n", "y ~ d", [], "Column 'd' has one level only: remove it."),
    ("y,d\n0,u\n1,u\n", "y ~ C(d)", [], "Column 'd' has one level only: remove it."),
    (
        "y;x\n0;1,5\n1;2,5\n",
        "y ~ x",
        [],
        "separates its columns by semicolons: save it with commas",
    ),
    ("y\tx\n0\t1\n1\t2\n", "y ~ x", [], "separates its columns by tabs"),
    ("y,x,x\n0,1,2\n1,2,3\n", "y ~ x", [], "more than one column called 'x'"),
    ("y,x\n0,1,2\n1,2\n", "y ~ x", [], "a row has more cells than the header"),
    ("y,x\n0,1\n1,inf\n0,NA\n1,2\n", "y ~ x", ["--missing", "drop"], "in row 2: mend"),
    (
        "y,x,g\n0,NA,a\n1,2,\n0,NA,b\n1,2,b\n",
        "y ~ x + g",
        [],
        (
            "'x' has no finite value in row 1 and 1 more, column 'g' is missing in row 2: "
            "fill what is missing, or leave such rows out with missing='drop'."
        ),
    ),
    (GOOD, "y ~ log(x - 1.5)", [], "not finite in row 1"),
    (GOOD, "x ~ w", [], "a measurement"),
    (GOOD, "y ~ x", ["--weights", "nope"], "no column 'nope'"),
    (GOOD, "y ~ x", ["--weights", "g"], "no numbers"),
    (GOOD, "y ~ x", ["--weights", "y"], "'y' is always 1 where the weights 'y' are positive"),
    (GOOD, "y ~ x", ["--reference", "7"], "choose of 0, 1"),
    (GOOD, "y ~ x", ["--tau", "-1"], "tau"),
    (GOOD, "y ~ x", ["--level", "95"], "level is 95"),
    (GOOD, "y ~ x", ["--out", "table.xlsx"], ".csv or .json"),
    (GOOD, "y ~ x", ["--out", "no/such/folder/t.csv"], "does not exist"),
    (GOOD, "y ~ x", ["--plot", "p.xyz"], "--plot p.xyz is of no known kind"),
    (GOOD, "y ~ x", ["--plot", "no/such/folder/p.png"], "does not exist"),
    (GOOD, "y ~ x + I(2 * x)", [], "set collinear='minimal-norm'"),
    ("y,x,g\n0,1,a\n1,2,NA\n0,3,b\n1,2,b\n", "y ~ g", [], "'g' is missing in row 2"),
    ("y,x,g\n0,1,a\n1,2,b\n0,3,nan\n1,2,b\n", "y ~ g", [], "'g' is missing in row 3"),
    ('y,x,g\n0,1,a\n1,2,b\n0,3,""\n1,2,b\n', "y ~ g", [], "'g' is missing in row 3"),
    ("y,x\nu,1\nNA,2\nv,3\nNaN,2\n", "y ~ x", [], "'y' is missing in row 2 and 1 more:"),
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


def test_json_is_printed_alone(run, endometrial, tmp_path):
    out = tmp_path / "table.json"
    printed = run(endometrial, "HG ~ NV", "--wald", "--json")
    run(endometrial, "HG ~ NV", "--wald", "--out", out)
    assert json.loads(printed) == json.loads(out.read_text())


@pytest.mark.parametrize("option", ["correction", "missing", "collinear", "standard-errors"])
def test_a_choice_that_does_not_exist_is_refused_with_those_that_do(endometrial, option):
    app = typer.Typer()
    app.command()(regress)
    result = CliRunner().invoke(app, [str(endometrial), "HG ~ NV", f"--{option}", "flux"])
    assert result.exit_code == 2
    assert "is not one of" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("option", "name"), [("--out", "o.csv"), ("--out", "o.json"), ("--plot", "p.svg")]
)
def test_a_full_disk_leaves_the_older_file(run, tmp_path, monkeypatch, option, name):
    path = tmp_path / name
    path.write_text("older")

    def fail(_handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(
        FirthshotError, match=rf"{option} .*{name} cannot be written, .* place: No space"
    ):
        run(write(tmp_path, GOOD), "y ~ x", option, path)
    assert path.read_text() == "older"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(("text", "formula", "options", "message"), BAD)
def test_refusals_are_one_sentence(run, tmp_path, text, formula, options, message):
    with pytest.raises(FirthshotError) as caught:
        run(write(tmp_path, text), formula, *options)
    words = str(caught.value)
    assert message in words
    assert "\n" not in words
    assert words.endswith((".", "?"))


def test_the_command_has_no_way_to_run_python(run, tmp_path):
    with pytest.raises(AssertionError, match="No such option"):
        run(write(tmp_path, GOOD), "y ~ x", "--allow-python")


def test_a_failed_diagnosis_does_not_lose_the_table(run, tmp_path, monkeypatch):
    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr("firthshot.jeffreys._separation.Cone", fail)
    path = write(tmp_path, "y,x\n0,1\n0,2\n1,3\n1,4\n")
    for tau in ("0.5", "0"):
        output = run(path, "y ~ x", "--tau", tau, "--out", tmp_path / "o.json", width=200)
        assert "(Intercept)" in output
        assert "separated is not known: the search failed (no room)." in output
        kept = json.loads((tmp_path / "o.json").read_text())
        assert kept["separation"]["kind"] == "unknown"
        assert len(kept["coefficients"]) == 2


def test_files_that_are_not_there(run, tmp_path):
    with pytest.raises(FirthshotError, match="no file"):
        run(tmp_path / "none.csv", "y ~ x")
    with pytest.raises(FirthshotError, match="no known kind"):
        run(write(tmp_path, GOOD, "t.dta"), "y ~ x")


def test_without_formulaic_the_extra_is_named(run, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(FirthshotError, match=r"\.\[formula\]"):
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


def test_what_was_fitted_is_said(run, tmp_path):
    text = "y,x,g,n,logt\n0,1.5,a,3,0.1\n1,2.5,b,1,0.2\n0,2.5,a,2,0.3\n1,0.5,b,4,0.4\n1,NA,a,9,0\n"
    arguments = [write(tmp_path, text), "y ~ x", "--weights", "n", "--missing", "drop"]
    output = run(*arguments, "--offset", "logt", "--out", tmp_path / "o.json")
    assert "y ~ x (table t.csv)" in output
    assert "Weights: n; weights sum to 10. Offset: logt. Left out: 1 row with missing" in output
    model = json.loads((tmp_path / "o.json").read_text())["model"]
    said = {"formula": "y ~ x", "table": "t.csv", "weights": "n", "offset": "logt",
            "version": __version__, "weights_sum": 10.0, "rows_left_out": 1}  # fmt: skip
    assert said.items() <= model.items()


def test_rows_of_weight_zero_are_counted(run, tmp_path):
    text = "y,x,n\n0,1.5,3\n1,2.5,1\n0,2.5,2\n1,0.5,4\n1,0.7,0\n"
    output = run(write(tmp_path, text), "y ~ x", "--weights", "n", "--wald")
    assert "Weights: n; 1 row of weight 0 left out; weights sum to 10." in output
    assert "4 rows; summed weights 0: 5, 1: 5; reference 0" in output


def test_only_what_is_penalised_is_called_so(run, tmp_path):
    rows = "y,x\n0,1.5\n1,2.5\n0,2.5\n1,0.5\n"
    output = run(write(tmp_path, rows), "y ~ x", "--tau", "0", width=200)
    assert "enalised" not in output
    assert output.count("og-likelihood") == 1
    assert "χ²: likelihood ratio" in output


def test_odds_ratios_show_no_standard_errors(run, tmp_path):
    assert "Standard errors" not in run(write(tmp_path, GOOD), "y ~ x", "--odds-ratios")


@pytest.mark.parametrize("correction", ["flic", "flac"])
def test_corrections_say_which_fit_the_likelihood_is_of(run, tmp_path, correction):
    output = run(write(tmp_path, GOOD), "y ~ x", "--correction", correction, width=200)
    assert output.count(f"(Firth's fit, before {correction.upper()})") == 2


def test_files_that_were_written_are_named(run, tmp_path):
    output = run(write(tmp_path, GOOD), "y ~ x", "--out", tmp_path / "o.json")
    assert output.endswith(f"Wrote {tmp_path / 'o.json'}.\n")


def test_who_has_to_wait_is_told_how_far_it_is(run, tmp_path, monkeypatch):
    monkeypatch.setattr("firthshot.cli._progress.PATIENCE_SECONDS", -1.0)
    output = run(write(tmp_path, GOOD), "y ~ x")
    assert "1 of 4 bounds of intervals searched, " in output


def test_a_factor_is_tested_as_a_whole(run, hepatitis, tmp_path):
    arguments = (hepatitis, "type ~ group * time", "--weights", "n", "--reference", "noDisease")
    output = run(*arguments, "--out", tmp_path / "o.json")
    terms = {row["term"]: row for row in json.loads((tmp_path / "o.json").read_text())["terms"]}
    assert list(terms) == ["group", "time", "group:time"]
    assert "Test of term" in output
    assert [row["df"] for row in terms.values()] == [2, 2, 2]
    assert f"{terms['group']['chi2']:.4f}" in output


def test_odds_ratios_in_all_outputs(run, endometrial, tmp_path):
    arguments = (endometrial, "HG ~ NV + PI + EH", "--odds-ratios")
    output = run(*arguments, "--out", tmp_path / "o.csv")
    line = next(line for line in output.splitlines() if line.startswith("NV"))
    assert line.split()[1:3] == ["18.7140", "1.8399"]
    rows = pl.read_csv(tmp_path / "o.csv")
    assert rows["odds_ratio_lower"].to_list() == pytest.approx(rows["lower"].exp().to_list())
    run(*arguments, "--out", tmp_path / "o.json")
    row = json.loads((tmp_path / "o.json").read_text())["coefficients"][1]
    assert row["odds_ratio"] == pytest.approx(18.714, abs=1e-3)


def test_counts_of_successes_equal_two_weighted_rows(run, tmp_path):
    groups = write(tmp_path, "dose,r,n\n0,0,8\n1,1,7\n2,4,9\n3,6,6\n", "groups.csv")
    rows = "dose,y,w\n0,0,8\n1,0,6\n1,1,1\n2,0,5\n2,1,4\n3,1,6\n"
    weighted = write(tmp_path, rows, "rows.csv")
    run(groups, "cbind(r, n-r) ~ dose", "--out", tmp_path / "a.csv")
    run(weighted, "y ~ dose", "--weights", "w", "--out", tmp_path / "b.csv")
    one, other = (pl.read_csv(tmp_path / name) for name in ("a.csv", "b.csv"))
    for name in ("estimate", "std_error", "lower", "upper", "p_value"):
        assert one[name].to_list() == pytest.approx(other[name].to_list(), rel=1e-6)


def test_robust_standard_errors(run, endometrial):
    plain = pl.read_csv(endometrial).with_row_index("row")
    plain.with_columns(ward=pl.col("row") % 9).drop("row").write_csv(endometrial)
    text = run(endometrial, "HG ~ NV + PI + EH", "--robust", "HC3")
    assert "Standard errors: HC3. Intervals: Wald" in text
    ours = json.loads(run(endometrial, "HG ~ NV + PI + EH", "--clusters", "ward", "--json"))
    fit = firthshot.regress("HG ~ NV + PI + EH", pl.read_csv(endometrial))
    expected = fit.with_covariance("HC1", clusters="ward").model.bse()
    assert [row["std_error"] for row in ours["coefficients"]] == pytest.approx(expected)
    with pytest.raises(FirthshotError, match="HC3 have Wald intervals"):
        run(endometrial, "HG ~ NV", "--robust", "HC3", "--profile")
