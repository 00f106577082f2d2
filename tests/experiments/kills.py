"""Run a spec again and again, killing it at random moments; started as a process of its own.

Everything is imported and compiled once; each attempt is a fork, so that fifty attempts take
seconds. polars is imported but not used before the forks: its threads would not survive them.

usage: kills.py BANK FOLDER KILLS SEED [ADDRESS]
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import polars  # noqa: F401
from toy import toy_spec

from firthshot.banks import load_bank
from firthshot.engine import train
from firthshot.experiments import plan
from firthshot.experiments.cluster import connect
from firthshot.experiments.compute import draw
from firthshot.experiments.plan import make_plan
from firthshot.experiments.runner import run


def spec(bank):
    return toy_spec(Path(bank), trials=20, ways=[3], shots=[1, 2, "unbalanced-8"])


def warm_up(bank):
    """Load every compiled kernel, so that forks begin to work at once."""
    opened = load_bank(bank)
    for setting in make_plan(spec(bank), [opened]).settings:
        method = setting.method
        train(
            opened.features, draw(setting.condition, opened, range(1)), method.engine_head(),
            method.engine_solver(), method.penalty(method.coefficients), threads=1,
        )  # fmt: skip


def attempt(bank, folder, threads, cells=None, delay=0.0):
    """Fork a run and kill it ``delay`` after it has finished so many cells; say whether it was."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            outcome = run_once(spec(bank), folder, threads)
            code = 3 if outcome.failed else 0
            for cell, reason in outcome.failed.items():
                print(f"{cell}: {reason}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    before = count_parts(folder)
    while cells is None or count_parts(folder) < before + cells:
        done, status = os.waitpid(child, 0 if cells is None else os.WNOHANG)
        if done:
            assert status == 0, f"the run failed with status {status}"
            return False
        time.sleep(0.0005)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def run_once(wanted, folder, where):
    """Run on so many threads, or on the cluster at an address."""
    if isinstance(where, int):
        return run(wanted, folder, workers=where, summary=False)
    with connect(where) as compute:
        return run(wanted, folder, compute=compute, summary=False)


def count_parts(folder):
    return len(list((folder / "parts").glob("*.parquet")))


def kill_often(bank, folder, threads, kills, chance):
    """Return how often the run was killed, and how often with some cells done and some not."""
    killed = halfway = finished = 0
    total = len(make_plan(spec(bank), [load_bank(bank)]).cells)
    while killed < kills:
        target = folder / str(finished)
        if attempt(bank, target, threads, chance.randint(0, 10), chance.uniform(0.0, 0.03)):
            killed += 1
            halfway += 0 < count_parts(target) < total
        else:
            finished += 1
    attempt(bank, folder / str(finished), threads)
    return killed, halfway


def main(bank, folder, kills, seed, address=None):
    # Many cells of milliseconds, the same in every run.
    plan.block_size = lambda method, shape, trials: 2
    warm_up(bank)
    chance = random.Random(seed)
    attempt(bank, folder / "whole" / "0", 1)
    if address:
        print(*kill_often(bank, folder / "dask", address, kills, chance))
        return
    for threads in (1, 2, 4):
        print(*kill_often(bank, folder / str(threads), threads, kills, chance))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
