import importlib
import json
import subprocess
import sys

import pytest

from benchmarks.__main__ import BENCHES, main, parse
from benchmarks.common import ROOT


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
    monkeypatch.setattr(engine, "profile_linear", lambda: profile)
    monkeypatch.setenv("COLUMNS", "100")


def test_engine_prints_a_table_and_writes_the_file(tiny, tmp_path, capsys):
    main(["engine", "--quick", "--threads", "1", "--json", str(tmp_path / "b.json")])
    printed = capsys.readouterr().out
    assert "linear 4w 1s d16" in printed
    assert "not for quoting" in printed
    assert "product and momentum" in printed
    assert max(len(line) for line in printed.splitlines()[1:]) <= 100
    content = json.loads((tmp_path / "b.json").read_text())
    assert content["quick"] is True
    assert content["records"][0]["case"] == "linear 4w 1s d16"
    assert content["geomean_ratio"] == pytest.approx(content["records"][0]["ratio"])


def test_a_folder_that_is_not_there_is_refused_before_the_work(tmp_path):
    with pytest.raises(SystemExit, match=r"Error: The folder of .*nowhere.* does not exist"):
        main(["engine", "--json", str(tmp_path / "nowhere" / "b.json")])


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"\.\[bench\]"):
        main(["engine", "--quick"])


def test_every_bench_can_be_run_and_shown():
    for name in (*BENCHES, "engine_scaling"):
        bench = importlib.import_module(f"benchmarks.{name}")
        assert callable(bench.run)
        assert callable(bench.show)


def test_scaling_is_a_bench_of_its_own_without_cases():
    assert vars(parse(["engine", "--scaling"])) == {
        "what": "engine_scaling", "json": None, "quick": False, "threads": 2,
    }  # fmt: skip
    assert parse(["engine", "--case", "cosine"]).only == "cosine"
    with pytest.raises(SystemExit):
        parse(["engine", "--scaling", "--case", "cosine"])


def test_help_imports_nothing_heavy():
    code = (
        "import sys; import benchmarks.__main__; "
        "print(sorted({'torch', 'numba', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
