"""Run a spec again and again, killing it at random moments; started as a process of its own.

Everything is imported and compiled once; each attempt is a fork, so that fifty attempts take
seconds. polars is imported but not used before the forks: its threads would not survive them.

usage: kills.py BANK FOLDER THREADS KILLS SEED
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import polars  # noqa: F401
from toy import toy_spec

from firthshot.banks import load_bank
from firthshot.experiments.compute import compute
from firthshot.experiments.plan import make_plan
from firthshot.experiments.runner import run


def spec(bank):
    return toy_spec(Path(bank), trials=60, ways=[3, 4], shots=[1, 2, "unbalanced-8"])


def warm_up(bank):
    """Compile every kernel in a fork: the compiled code stays on disk and is loaded quickly."""
    from firthshot.engine import train  # noqa: F401

    child = os.fork()
    if child == 0:
        opened = load_bank(bank)
        for setting in make_plan(spec(bank), [opened]).settings:
            compute(next(setting.cells(0, 1)), opened)
        os._exit(0)
    os.waitpid(child, 0)


def attempt(bank, folder, threads, patience):
    """Fork a run and kill it after a while; return whether it was killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            outcome = run(spec(bank), folder, workers=threads, summary=False)
            code = 3 if outcome.failed else 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0, f"the run failed with status {status}"
            return False
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def main(bank, folder, threads, kills, seed):
    import firthshot.experiments.plan as plan_module

    # Many cells of milliseconds, the same in every run.
    plan_module.block_size = lambda method, shape, trials: 2
    warm_up(bank)
    chance = random.Random(seed)
    killed = finished = 0
    while killed < kills or finished == 0:
        target = folder / f"{finished}"
        patience = chance.uniform(0.0, 0.4) if killed < kills else np.inf
        if attempt(bank, target, threads, patience):
            killed += 1
        else:
            finished += 1
    # The last folder is finished whatever happened to it before.
    attempt(bank, folder / f"{finished}", threads, np.inf)
    print(killed, finished + 1)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
