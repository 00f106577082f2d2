"""Runs that are killed at random moments end with the bits of runs that were not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.toy import write_bank

HERE = Path(__file__).parent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fifty_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "toy.bank")
    done = subprocess.run(
        [sys.executable, str(HERE / "kills.py"), str(bank), str(tmp_path), "17", "1"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert sum(killed for killed, _, _ in counts) >= 50
    assert sum(halfway for _, halfway, _ in counts) >= 30
    assert sum(late for _, _, late in counts) <= 15  # kills that have something to hit count
