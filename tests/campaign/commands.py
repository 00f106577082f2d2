"""Kill ``firthshot run`` while summary, figures, tables and page are written."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from experiments.kills import Kills, strays

_TELLING = {"report.html", "sessions.json", ".lock"}  # they name times and sessions
_WRITING = "Writing the report"  # what the command says between the summary and the report
SPEC = """name = "toy"
banks = ["{bank}"]
heads = ["linear"]
coefficients = [0, 0.1, 1]
ways = [3]
shots = [1, 2]
trials = 20
queries = 5
references = false
sgd = {{ epochs = 3 }}
"""


def run_whole(bank: Path, folder: Path) -> float:
    """Run the command to its end; return its seconds (the first may compile)."""
    for _ in range(2):
        started = time.monotonic()
        _finish(_start(bank, folder))
    return time.monotonic() - started


def kill_command(
    bank: Path, whole: Path, seconds: float, folder: Path, chance: random.Random, most: int
) -> Kills:
    """Kill the command at most ten times in one folder, at any moment of its time."""
    found = Kills()
    for _ in range(min(most, 10)):
        process = _start(bank, folder)
        try:
            process.wait(chance.uniform(0.3, 1.0) * seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            said = process.communicate()[0]
            found.killed += 1
            found.summary += _WRITING in said
        else:
            _finish(process)
    _finish(_start(bank, folder))
    _check(folder, whole)
    return found


def _start(bank: Path, folder: Path) -> subprocess.Popen[str]:
    folder.mkdir(parents=True, exist_ok=True)
    spec = folder.with_suffix(".toml")
    spec.write_text(SPEC.format(bank=bank), "utf-8")
    command = [sys.executable, "-m", "firthshot", "run", str(spec), "--out", str(folder)]
    return subprocess.Popen(
        [*command, "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _finish(process: subprocess.Popen[str]) -> None:
    said = process.communicate()[0]
    assert process.returncode == 0, said


def _check(folder: Path, whole: Path) -> None:
    """Require the files and bits of the uninterrupted command."""
    assert strays(folder) == []
    ours, theirs = _files(folder), _files(whole)
    assert set(ours) == set(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []
    assert (folder / "report.html").read_text("utf-8").rstrip().endswith("</html>")


def _files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in paths
        if path.name not in _TELLING
    }
