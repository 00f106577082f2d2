"""Runs that are killed at random moments end with the bits of runs that were not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.toy import assert_same_run, write_bank

HERE = Path(__file__).parent


def run_killing(bank: Path, folder: Path, threads: int, kills: int) -> tuple[int, int]:
    """Return how often the run was killed and how many folders it finished."""
    command = [sys.executable, str(HERE / "kills.py")]
    arguments = [str(bank), str(folder), str(threads), str(kills), str(threads)]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    killed, finished = map(int, done.stdout.split())
    return killed, finished


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fifty_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "toy.bank")
    run_killing(bank, tmp_path / "whole", 1, 0)
    total = 0
    for threads, kills in ((1, 17), (2, 17), (4, 17)):
        killed, finished = run_killing(bank, tmp_path / f"{threads}", threads, kills)
        total += killed
        for number in range(finished):
            assert_same_run(tmp_path / f"{threads}" / str(number), tmp_path / "whole" / "0")
    assert total >= 50
