import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from firthshot.errors import FirthshotError, MissingExtraError

RUNNER = CliRunner()


def _invoke(*arguments):
    return RUNNER.invoke(app, list(arguments), catch_exceptions=True)


@pytest.fixture
def tiny(monkeypatch):
    pytest.importorskip("torch")
    from benchmarks import engine, engine_timing
    from benchmarks.engine_cases import Case
    from firthshot.engine import Linear

    monkeypatch.setattr(engine, "quick_cases", lambda: [Case(Linear(), 4, 1, 16, passes=2)])
    effort = engine_timing.Effort(
        seconds=0.01, repeats=2, baseline_seconds=0.01, probe_seconds=0.01
    )
    monkeypatch.setattr(engine, "QUICK", effort)
    monkeypatch.setattr(engine_timing, "STACKS", (2,))
    monkeypatch.setattr(engine, "sgemm_peak", lambda threads: 100.0)
    profile = {"product and momentum (sweep)": 0.7}
    monkeypatch.setattr("benchmarks.engine_profile.profile_linear", lambda: profile)
    monkeypatch.setenv("COLUMNS", "100")


def test_engine_prints_a_table_and_writes_the_file(tiny, tmp_path):
    result = _invoke("engine", "--quick", "--threads", "1", "--json", str(tmp_path / "b.json"))
    assert result.exit_code == 0, result.output
    assert "linear 4w 1s d16" in result.stdout
    assert "not for quoting" in result.stdout
    assert "product and momentum" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()[1:]) <= 100
    content = json.loads((tmp_path / "b.json").read_text())
    assert content["quick"] is True
    assert content["records"][0]["case"] == "linear 4w 1s d16"
    assert content["geomean_ratio"] == pytest.approx(content["records"][0]["ratio"])


def test_a_folder_that_is_not_there_is_refused_before_the_work(tmp_path):
    result = _invoke("engine", "--json", str(tmp_path / "nowhere" / "b.json"))
    assert isinstance(result.exception, FirthshotError)
    assert "nowhere" in str(result.exception)


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = _invoke("engine", "--quick")
    assert isinstance(result.exception, MissingExtraError)
    assert "firthshot[bench]" in str(result.exception)


def test_help_imports_nothing_heavy():
    code = (
        "import sys; import benchmarks.__main__; "
        "print(sorted({'torch', 'numba', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
