"""Kill ``firthshot run`` while summary, figures, tables and page are written."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from experiments.kills import Kills, strays

_TELLING = {"report.html", "sessions.json", "times.json", ".lock"}  # they name times and sessions
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


class Command:
    """``firthshot run`` on a small bank, and how long it takes at present."""

    def __init__(self, bank: Path, whole: Path) -> None:
        self.bank, self.whole = bank, whole
        self.seconds = 0.0
        self._run(whole)

    def kill(self, folder: Path, chance: random.Random, most: int) -> Kills:
        """Kill the command at most ten times in one folder, at any moment of its time."""
        found = Kills()
        for _ in range(min(most, 10)):
            said = self._run(folder, chance.uniform(0.3, 1.0) * self.seconds)
            found.killed += said is not None
            found.late += _WRITING in (said or "")
        self._run(folder)
        _check(folder, self.whole)
        return found

    def _run(self, folder: Path, limit: float | None = None) -> str | None:
        """Run to the end and note the time, or kill it after some and return what it said."""
        process, started = _start(self.bank, folder), time.monotonic()
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[0]
        said = process.communicate()[0]
        assert process.returncode == 0, said
        self.seconds = time.monotonic() - started
        return None


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


def _check(folder: Path, whole: Path) -> None:
    """Require the files and bits of the uninterrupted command."""
    assert strays(folder) == []
    ours, theirs = _files(folder), _files(whole)
    assert set(ours) == set(theirs)
    differing = [name for name in ours if ours[name] != theirs[name]]
    assert differing == [], differing
    assert (folder / "report.html").read_text("utf-8").rstrip().endswith("</html>")


def _files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in paths
        if path.name not in _TELLING
    }
