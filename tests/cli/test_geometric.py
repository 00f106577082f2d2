"""``firthshot run geometric`` and what else the command knows of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from firthshot.cli import app
from firthshot.errors import FirthshotError

runner = CliRunner()
FEW = ["--no-report", "--trials", "300", "--set", "sample_size=20", "--set", "slope=[5,20]"]


def call(*arguments: str) -> str:
    result = runner.invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_run_prints_the_slope_and_the_largest_t_and_again(tmp_path: Path) -> None:
    said = call("run", "geometric", *FEW, "--out", str(tmp_path / "g"))
    assert "300 trials of 20 geometric draws each, p = 0.5" in said
    assert "log |bias| over N = 5…20 has slope" in said
    assert "of 19 sizes from N = 2" in said
    written = (tmp_path / "g" / "summary" / "geometric.csv").read_bytes()
    assert "has slope" in call("run", str(tmp_path / "g"), "--no-report")
    assert (tmp_path / "g" / "summary" / "geometric.csv").read_bytes() == written
    assert call("run", str(tmp_path / "g"), "--quiet", "--no-report") == ""
    said = call("status", str(tmp_path / "g"))
    assert "geometric: complete" in said
    assert f"tables in {tmp_path}/g/summary" in said


def test_presets_and_validate_know_it() -> None:
    assert "geometric Does Firth remove the bias Figure 1" in call("presets")
    assert "sample_size 100 slope 10, 100" in call("presets", "geometric")
    assert "geometric is in order" in call("validate", "geometric")
    result = runner.invoke(app, ["validate", "geometric", "--set", "p=2"])
    assert result.exit_code == 2
    assert "p: Expected" in result.output


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--bank", "x"], "banks: There is no such field"),
        (["--dask", "local"], "--dask is for trials on banks"),
        (["--until-ci", "1"], "until_ci: There is no such field"),
    ],
)
def test_options_of_other_runs_are_refused(option: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(FirthshotError, match=words):
        runner.invoke(
            app, ["run", "geometric", *option, "--out", str(tmp_path)], catch_exceptions=False
        )


def test_a_folder_of_the_presets_name_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call("run", "geometric", *FEW, "--out", "geometric")
    assert "Into geometric" in call("run", "geometric", *FEW, "--out", "geometric")
    assert "Into runs/geometric" in call("run", "geometric", *FEW)  # the preset, not the folder
    assert "Into geometric" in call("run", "./geometric", "--no-report")


def test_a_run_ends_with_its_figure_table_and_page(tmp_path: Path) -> None:
    said = call("run", "geometric", *FEW[1:], "--out", str(tmp_path))
    assert "report.html" in said
    assert sorted(path.name for path in (tmp_path / "figures").glob("geometric.*")) == [
        "geometric.pdf",
        "geometric.png",
        "geometric.svg",
    ]
    assert (tmp_path / "tables" / "geometric.tex").is_file()
    assert "slope of log" in (tmp_path / "report.html").read_text("utf-8")
