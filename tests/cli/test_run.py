"""``run``, ``status``, ``presets`` and ``validate`` as a user meets them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from experiments.toy import assert_same_run, read_tables, toy_spec, write_bank
from firthshot import banks
from firthshot.banks import load_bank, save_bank
from firthshot.cli import presets, report, run, status, validate
from firthshot.errors import FirthshotError
from firthshot.experiments.run import workers
from firthshot.experiments.run.record import machine_name
from firthshot.experiments.spec.fields import to_toml
from firthshot.report import gather as gathering

app = typer.Typer()
app.command("run")(run.run)
app.command("status")(status.status)
app.command("report")(report.report)
app.command("presets")(presets.presets)
app.command("validate")(validate.validate)


@pytest.fixture(autouse=True)
def quiet_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FIRTHSHOT_BANKS", raising=False)


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    return write_bank(tmp_path / "toy.bank")


@pytest.fixture
def spec(bank: Path, tmp_path: Path) -> Path:
    path = tmp_path / "toy.toml"
    path.write_text(to_toml(toy_spec(bank, heads=["linear"])))
    return path


def firthshot(*arguments: object, code: int = 0, report: bool = False) -> str:
    """Call a command; the report at the end of a run takes seconds and has tests of its own."""
    plain = ["--no-report"] if arguments[0] == "run" and not report else []
    result = CliRunner().invoke(app, [str(argument) for argument in (*arguments, *plain)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def test_a_run_and_the_same_again(spec: Path) -> None:
    first = firthshot("run", spec, "--workers", 1)
    assert "4 of 4 cells" in first
    assert "classifiers/s" in first
    assert "λ chosen on the val classes" in first
    assert "64 classifiers trained. " in first
    again = firthshot("run", spec)
    assert "4 of 4 cells were finished before" in again
    assert "0 classifiers trained; 4 of 4 cells were there before. " in again
    said = firthshot("status", "runs/toy")
    assert "complete" in said
    assert f"computed on {machine_name()}\n" in said
    assert Path("runs/toy/summary/chosen.csv").is_file()


def test_a_run_ends_with_a_report(spec: Path, tmp_path: Path) -> None:
    said = firthshot("run", spec, "--set", "shots=[1]", "--out", "here", report=True)
    assert said.endswith("The report is here/report.html\n")
    assert "Does Firth help here?" in (tmp_path / "here" / "report.html").read_text("utf-8")
    assert list((tmp_path / "here" / "tables").glob("*.md"))


def test_a_folder_is_resumed_from_anywhere(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    firthshot("run", spec, "--out", "here")
    part = next((tmp_path / "here/parts").iterdir())
    part.unlink()
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    assert "not running" in firthshot("status", tmp_path / "here")
    assert "3 of 4 cells were finished before" in firthshot("run", tmp_path / "here")
    assert part.is_file()


def test_flags_change_the_spec(spec: Path) -> None:
    firthshot(
        "run", spec, "--trials", 2, "--set", "shots=[1]", "--set", "coefficients=[0,2]",
        "--set", "sgd.epochs=2", "--out", "out",
    )  # fmt: skip
    rows = read_tables(Path("out"))["parts"]
    assert set(rows["shots"]) == {1}
    assert set(rows["trial"]) == {0, 1}
    assert set(rows["coefficient"]) == {0, 2, 1.5}
    with pytest.raises(
        FirthshotError, match=r"trials was 2, is 4; .*epochs.* 2.*, is .*epochs.* 3"
    ):
        firthshot("run", spec, "--out", "out")


def test_failures_end_the_run_with_a_way_to_retry(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = workers.compute

    def failing(cell: Any, bank: Any, **more: Any) -> Any:
        if cell.condition.shots == 2 and cell.condition.split == "novel":
            raise FirthshotError("No luck.")
        return plain(cell, bank, **more)

    monkeypatch.setattr(workers, "compute", failing)
    output = firthshot("run", spec, code=1)
    assert "Failed: toy, novel, 3-way, 2-shot, linear, firth, trials 0 to 3: No luck." in output
    assert "1 of 4 cells failed" in output
    assert "retry them with: firthshot run runs/toy" in output
    assert "failed  toy, novel, 3-way, 2-shot" in firthshot("status", "runs/toy")
    monkeypatch.setattr(workers, "compute", plain)
    assert "3 of 4 cells were finished before" in firthshot("run", "runs/toy")


def test_quiet(spec: Path) -> None:
    assert firthshot("run", spec, "--quiet") == ""


def test_workers_of_a_cluster_are_its_own(spec: Path) -> None:
    with pytest.raises(FirthshotError, match="your cluster has its own workers"):
        firthshot("run", spec, "--dask", "tcp://nowhere:1", "--workers", 2)


def test_status_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(FirthshotError, match="is empty: run an experiment into it first"):
        firthshot("status", tmp_path)
    with pytest.raises(FirthshotError, match=r"nowhere is no folder"):
        firthshot("status", tmp_path / "nowhere")


def test_a_damaged_table_is_said_by_status_run_and_report(spec: Path) -> None:
    firthshot("run", spec, "--quiet")
    table = sorted(Path("runs/toy/trials").iterdir())[0]
    table.write_bytes(table.read_bytes()[:-20])
    told = f"{table} is damaged: its cell is"
    said = firthshot("status", "runs/toy").splitlines()
    assert said[0] == "toy: 3 of 4 cells (75%), not running"
    assert f"{told} not counted and computed anew when the run goes on" in said
    assert said[-1] == "go on with: firthshot run runs/toy"
    with pytest.raises(FirthshotError) as refusal:
        firthshot("report", "runs/toy")
    assert str(refusal.value) == f"{told} computed anew by firthshot run runs/toy."
    said = firthshot("run", "runs/toy").splitlines()
    assert f"{told} computed anew; see runs/toy/damaged." in said
    assert "damaged" not in firthshot("status", "runs/toy")


@pytest.mark.parametrize("text", ["{}", "[]", '{"cells": 4}', '{"cells": 2'])
def test_status_of_a_run_whose_plan_is_damaged(spec: Path, text: str) -> None:
    firthshot("run", spec, "--quiet")
    Path("runs/toy/plan.json").write_text(text)
    with pytest.raises(FirthshotError, match=r"plan\.json is damaged"):
        firthshot("status", "runs/toy")


@pytest.mark.parametrize("sign", [signal.SIGINT])
def test_ctrl_c_leaves_a_folder_that_resumes(bank: Path, tmp_path: Path, sign: int) -> None:
    """Interrupt a run once it has finished a cell; ask for its status from outside meanwhile."""
    path = tmp_path / "long.toml"
    fields = {"trials": 4000, "sgd": {"epochs": 60}, "heads": ["linear"], "shots": [1]}
    path.write_text(to_toml(toy_spec(bank, **fields)))
    code = (
        "import firthshot.experiments.plan.layout as plan\n"
        "plan.block_size = lambda method, shape, trials: 20\n"
        "import typer; from firthshot.cli.run import run\n"
        "typer.run(run)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path), "--out", "out", "--workers", "2"],
        stdout=subprocess.PIPE,
        text=True,
    )
    while not list(Path("out/parts").glob("*.parquet")):
        assert process.poll() is None
        time.sleep(0.01)
    assert "of 400 cells" in firthshot("status", "out")
    assert "running" in firthshot("status", "out")
    process.send_signal(sign)
    output, _ = process.communicate()
    assert process.returncode == 130
    assert "go on with: firthshot run out" in output
    files = [path.name for path in Path("out").rglob("*") if path.is_file()]
    assert not [name for name in files if name.endswith(".tmp")]
    assert 0 < len(list(Path("out/parts").iterdir())) < 400
    assert "not running" in firthshot("status", "out")


def test_the_installed_command_runs_on_a_local_cluster(spec: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    firthshot("run", spec, "--out", "threads", "--quiet")
    code = (
        "import typer; from firthshot.cli.run import run\nif __name__ == '__main__': typer.run(run)"
    )
    script = tmp_path / "command.py"
    script.write_text(code)
    done = subprocess.run(
        [
            sys.executable,
            str(script),
            str(spec),
            "--out=dask",
            "--dask=local",
            "--workers=1",
            "--no-report",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "threads", tmp_path / "dask")


def test_presets_lists_all() -> None:
    output = firthshot("presets")
    assert re.search(r"logistic-firth +Does Firth help a linear +Figure 2 \(left\)", output)


def test_presets_prints_a_file_to_begin_with(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(firthshot("presets", "quickstart", "--toml"), encoding="utf-8")
    assert "mine.toml" in firthshot("validate", str(mine))


def test_presets_tells_settings_and_cost() -> None:
    output = firthshot("presets", "logistic-firth")
    text = " ".join(output.split())
    assert "reproduces Figure 2 (left)" in text
    assert "coefficients 0, 0.01, 0.03, 0.1, 0.3, 1, 3, 10" in text
    assert "sgd.learning_rate 0.005, sgd.momentum 0.9" in text  # names that --set takes
    assert "not on the paper's banks" in text
    assert "queries 60 fixed_query yes" in text
    assert f"classifiers {2 * 6 * 1000 * (9 + 2):,} in" in text  # splits, shots, trials, heads
    assert "timed probe of each head on this machine" in text
    assert max(map(len, output.splitlines())) <= 80


def test_validate_lists_every_problem(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('name = "x"\nshot = [1]\nways = [1]\n')
    output = firthshot("validate", path, code=2)
    assert len(output.splitlines()) == 2
    assert f"{path}: shot: There is no such field; did you mean 'shots'?" in output
    assert "ways[0]: Expected 'int' >= 2" in output


def test_what_a_flag_sets_stands_in_no_line(spec: Path) -> None:
    assert "shots" in spec.read_text()
    output = firthshot("validate", spec, "--set", "shots=1", code=2)
    assert f"{spec}: shots: Expected 'array', got 'int', write [1] (1 is given)." in output
    with pytest.raises(FirthshotError, match=r"a problem: shots: Expected 'array'"):
        firthshot("run", spec, "--set", "shots=1")
    with pytest.raises(FirthshotError, match=r"a problem: sgd.epochs: Expected 'int"):
        firthshot("run", spec, "--set", "sgd.epochs=few")
    with pytest.raises(FirthshotError, match=r"a problem: trials: Expected 'int'"):
        firthshot("run", "geometric", "--set", "trials=few")


def test_validate_takes_a_bank(bank: Path, tmp_path: Path) -> None:
    assert f"On {bank.name}." in firthshot("validate", "quickstart", "--bank", bank)
    output = firthshot("validate", "quickstart", "--bank", tmp_path / "no.bank", code=2)
    assert "quickstart: banks[0]: " in output
    assert "banks: There is no such field" in firthshot(
        "validate", "geometric", "--bank", bank, code=2
    )


def test_validate_names_a_missing_bank(spec: Path, bank: Path) -> None:
    bank.unlink()
    output = firthshot("validate", spec, code=2)
    assert "banks[0]" in output
    assert "there is no such file" in output


def test_validate_tells_what_a_preset_would_do() -> None:
    output = firthshot("validate", "cosine", "--set", "trials=7")
    assert "cosine is in order" in output
    assert "2,310 classifiers" in output  # 2 splits x 5 ways x 3 shots x 7 trials x (9 + 2)
    assert "100/150 ways, 1/5/10 shots: there are 60 novel classes, so skipped" in output


def test_one_trial_has_a_gain_without_an_interval(spec: Path) -> None:
    said = firthshot("run", spec, "--trials", 1)
    assert "theory gain" in said
    assert "±" not in said


def test_novel_classes_alone_have_a_table_without_choice(bank: Path, tmp_path: Path) -> None:
    path = tmp_path / "alone.toml"
    path.write_text(to_toml(toy_spec(bank, heads=["linear"], splits=["novel"])))
    said = firthshot("run", path)
    assert "Accuracy on the novel classes; without val classes no λ (–) was chosen:" in said
    assert """run again with --set 'splits=["val", "novel"]'""" in " ".join(said.split())
    assert "bank export" not in said
    all_ = pl.read_csv("runs/toy/summary/all.csv")
    for shots in (1, 2):
        mine = all_.filter(pl.col("shots") == shots)
        base = 100 * mine.filter(pl.col("coefficient") == 0)["accuracy"][0]
        theory = 100 * mine.filter("theory")["improvement"][0]
        words = f"{theory:+.2f}" if round(theory, 2) else "0"
        assert re.search(rf"linear +3 {shots} +{base:.2f} – +– +1\.5 +{re.escape(words)}", said)


def test_columns_without_values_are_left_out(spec: Path) -> None:
    said = firthshot("run", spec, "--set", "theory=false")
    assert "gain" in said
    assert "theory" not in said


def test_invalid_trials_are_told_in_the_notes(
    spec: Path, bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = load_bank(bank)
    features = old.features.copy()
    features[old.rows("novel")[::9]] = np.nan
    save_bank(bank, features, old.labels, old.meta)
    with monkeypatch.context() as patched:  # as a run of Python does
        patched.setattr(banks, "refuse_not_finite", lambda bank: None)
        said = firthshot("run", spec, "--trials", 12)
    count = read_tables(Path("runs/toy"))["parts"].filter(pl.col("status") == "invalid")
    for shots in count["shots"].unique():
        lost = count.filter(pl.col("split") == "novel", shots=shots)["trial"].n_unique()
        words = f"{shots}-shot, novel: {lost} trial"
        assert words in said


def test_a_bank_that_is_none_or_lacks_something_is_refused_before_training(
    spec: Path, bank: Path
) -> None:
    np.savez("features.npz", X=np.eye(3), y=[0, 1, 2])
    with pytest.raises(FirthshotError, match=r"^features.npz is no bank: make one with `firthshot"):
        firthshot("run", spec, "--bank", "features.npz")
    write_bank(bank, novel=0)
    with pytest.raises(FirthshotError, match=r"^Bank 'toy' has no novel classes, on which"):
        firthshot("run", spec)
    old = load_bank(write_bank(bank))
    features = old.features.copy()
    features[3] = np.nan
    save_bank(bank, features, old.labels, old.meta)
    refusal = "Bank 'toy': Rows with NaN or infinite values: 1 of"
    with pytest.raises(FirthshotError, match=f"^{refusal}"):
        firthshot("run", spec)
    assert refusal in firthshot("validate", spec, code=2)
    assert not list(Path().glob("runs/*/parts/*"))


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("heads=[]", "of length >= 1: name at least one ([] is given)."),
        ("ways=[5", "'ways=[5' is not valid TOML: close every bracket and quote"),
        ("heads=[linear]", "put words of a list in quotes"),
    ],
)
def test_advice_that_can_be_followed(spec: Path, assignment: str, sentence: str) -> None:
    with pytest.raises(FirthshotError) as caught:
        firthshot("run", spec, "--set", assignment)
    assert sentence in str(caught.value)


def test_an_outdated_report_is_said(spec: Path) -> None:
    firthshot("run", spec)
    page = Path("runs/toy/report.html")
    page.write_text("")
    assert "older than" not in firthshot("run", spec)
    assert "older than" not in firthshot("status", "runs/toy")
    os.utime(page, (1, 1))
    words = "runs/toy/report.html is older than the results; renew it with: firthshot report "
    assert words in firthshot("run", spec, "--trials", 8)
    assert words in firthshot("status", "runs/toy")


def test_validate_warns_where_there_is_no_optimum(spec: Path) -> None:
    linear = ("--set", "solver=converged", "--set", "heads=['linear']")
    assert "has no optimum at λ = 0" in firthshot("validate", "quickstart", *linear)
    assert "has no optimum" not in firthshot("validate", "quickstart", *linear, "--set", "l2=0.1")
    assert "has no optimum" not in firthshot("validate", spec)


def test_until_ci_tells_where_the_cap_stopped_it(spec: Path) -> None:
    flags = ["--until-ci", 0.01, "--set", "shots=['unbalanced-8']", "--set", "ways=[5]"]
    said = firthshot("run", spec, *flags)
    assert "5-way, unbalanced-8 stays at ±" in said
    assert "40 trials are the cap" in said


def test_a_run_computes_each_verdict_once_and_reads_no_summary_back(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: dict[str, int] = {}
    for name in ("make_verdicts", "summarise", "read_run"):
        kept = getattr(gathering, name)

        def counted(*args: Any, _name: str = name, _kept: Any = kept, **options: Any) -> Any:
            calls[_name] = calls.get(_name, 0) + 1
            return _kept(*args, **options)

        monkeypatch.setattr(gathering, name, counted)
    result = CliRunner().invoke(app, ["run", str(spec), "--out", "runs/once"])
    assert result.exit_code == 0, result.output
    assert "Does Firth help here?" in result.output
    assert Path("runs/once/report.html").is_file()
    assert calls == {"make_verdicts": 1, "read_run": 1}
