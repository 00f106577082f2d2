"""Runs that are killed at random moments end with the bits of runs that were not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.toy import assert_same_run, write_bank

HERE = Path(__file__).parent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fifty_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "toy.bank")
    done = subprocess.run(
        [sys.executable, str(HERE / "kills.py"), str(bank), str(tmp_path), "17", "1"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert sum(killed for killed, _ in counts) >= 50
    assert sum(halfway for _, halfway in counts) >= 25
    for threads in ("1", "2", "4"):
        for folder in (tmp_path / threads).iterdir():
            assert_same_run(folder, tmp_path / "whole" / "0")
