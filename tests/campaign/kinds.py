"""The runs that the campaign kills: on threads, on Dask, and the command with its report."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path

from campaign.cluster import Cluster, start_cluster
from campaign.commands import Command
from campaign.kills import KillFolder
from experiments import kills
from experiments.kills import Kills, check, count_parts, finish, start
from experiments.toy import write_bank

_PATIENCE = 300.0  # seconds that a run of seconds may take


@contextmanager
def open_kinds(folder: Path) -> Iterator[dict[str, KillFolder]]:
    """Yield what kills each kind; the cluster and the command start when they are first needed."""
    bank = write_bank(folder / "toy.bank")
    cells = kills.prepare(bank)
    whole = folder / "whole"
    finish(start(bank, whole, 1, True))
    often = partial(_kill_run, bank, whole, cells)
    with ExitStack() as stack:
        cluster = cache(lambda: stack.enter_context(start_cluster()))
        command = cache(lambda: Command(bank, folder / "whole-command"))
        yield {
            "1 thread": partial(often, 1),
            "2 threads": partial(often, 2),
            "4 threads": partial(often, 4),
            "Dask, run killed": lambda *given: often(cluster().address, *given),
            "Dask, workers and run killed": lambda *given: _kill_workers(
                bank, whole, cells, cluster(), *given
            ),
            "command with report": lambda *given: command().kill(*given),
        }


def _kill_run(
    bank: Path, whole: Path, cells: int, where: int | str, folder: Path, chance: random.Random,
    most: int,
) -> Kills:  # fmt: skip
    found = kills.kill_folder(bank, folder, where, chance, cells, most, chance.random() < 0.5)
    check(folder, whole)
    return found


def _kill_workers(
    bank: Path,
    whole: Path,
    cells: int,
    cluster: Cluster,
    folder: Path,
    chance: random.Random,
    most: int,
) -> Kills:
    """Kill workers under a run, now and then the run as well, until the run ends."""
    found = Kills()
    child = start(bank, folder, cluster.address)
    while found.killed < most and _reaches(child, folder, chance.randint(1, 40)):
        found.killed += cluster.kill(chance.randrange(2))
        found.halfway += 0 < count_parts(folder) < cells
        if chance.random() < 0.25 and found.killed < most:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            found.killed += 1
            child = start(bank, folder, cluster.address)
    # Dask gives a cell up that was on three workers which died: it is on record as failed.
    if _exit_code(child) not in (0, kills.FAILED_CELLS):
        raise AssertionError("the run whose workers died did not end well")
    finish(start(bank, folder, cluster.address))
    check(folder, whole)
    return found


def _reaches(child: int, folder: Path, more: int) -> bool:
    """Wait for so many more cells; say whether the run goes on then."""
    goal, due = count_parts(folder) + more, time.monotonic() + _PATIENCE
    while count_parts(folder) < goal:
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended:
            return False
        assert time.monotonic() < due, "the run hangs"
        time.sleep(0.001)
    return True


def _exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
