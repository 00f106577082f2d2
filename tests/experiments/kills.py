"""Run a spec again and again, killing it at random moments; started as a process of its own.

Everything is imported and compiled once; each attempt is a fork, so that fifty attempts take
seconds. polars is imported but not used before the forks: its threads would not survive them.
Half of the folders write their summary too, and some kills fall into its writing.

usage: kills.py BANK FOLDER KILLS SEED [ADDRESS]
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars  # noqa: F401

from experiments.toy import assert_same_run, toy_spec
from firthshot.banks import load_bank
from firthshot.engine import train
from firthshot.experiments.plan import layout as plan
from firthshot.experiments.plan.layout import make_plan
from firthshot.experiments.run.cluster import connect
from firthshot.experiments.run.compute import draw
from firthshot.experiments.runner import RunOutcome, run
from firthshot.experiments.spec.fields import Spec

Where = int | str  # threads, or the address of a Dask scheduler
FAILED_CELLS = 3  # exit code of a run that ended with failed cells
_PATIENCE = 300.0  # seconds that a run of seconds may take
_LATE = 3  # kills of one folder after its last cell
_SUMMARY = 0.5  # seconds in which a summary is written


@dataclass
class Kills:
    """How often the runs of a folder were killed, and when."""

    killed: int = 0
    halfway: int = 0  # with some cells done and some not
    late: int = 0  # after the last cell, while the summary was due


def spec(bank: str | Path) -> Spec:
    """Return what all attempts run: 120 cells of milliseconds."""
    return toy_spec(Path(bank), trials=20, ways=[3], shots=[1, 2, "unbalanced-8"])


def prepare(bank: str | Path) -> int:
    """Load every compiled kernel, so that forks begin to work at once; return the cells."""
    # Many cells of milliseconds, the same in every run.
    plan.block_size = lambda method, shape, trials: 2  # type: ignore[assignment]
    opened = load_bank(bank)
    planned = make_plan(spec(bank), [opened])
    for setting in planned.settings:
        method = setting.method
        train(
            opened.features, draw(setting.condition, opened, range(1)), method.engine_head(),
            method.engine_solver(), method.penalty(method.coefficients), threads=1,
        )  # fmt: skip
    return len(planned.cells)


def fork(work: Callable[[], int]) -> int:
    """Do something in a child process that ends with the code it returns; return the child."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        code = work()
    except BaseException:  # noqa: BLE001 - the child ends here, whatever it was
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def start(bank: str | Path, folder: Path, where: Where, summary: bool = False) -> int:
    """Fork a run on so many threads, or on the cluster at an address."""

    def work() -> int:
        outcome = _run_once(spec(bank), folder, where, summary)
        for cell, reason in outcome.failed.items():
            print(f"{cell}: {reason}", file=sys.stderr, flush=True)
        return FAILED_CELLS if outcome.failed else 0

    return fork(work)


def _run_once(wanted: Spec, folder: Path, where: Where, summary: bool) -> RunOutcome:
    if isinstance(where, int):
        return run(wanted, folder, workers=where, summary=summary)
    with connect(where) as compute:
        return run(wanted, folder, compute=compute, summary=summary)


def finish(child: int) -> None:
    """Wait for a child that must end well."""
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"a process that nobody killed ended with status {status}"


def attempt(child: int, folder: Path, parts: int, delay: float) -> bool:
    """Kill a run some time after so many cells are there; say whether it was before its end."""
    due, limit = 0.0, time.monotonic() + _PATIENCE
    while not due or time.monotonic() < due:
        assert time.monotonic() < limit, "the run hangs"
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0, f"the run failed with status {status}"
            return False
        if not due and count_parts(folder) >= parts:
            due = time.monotonic() + delay
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert status == 0 or os.WIFSIGNALED(status), f"the run failed with status {status}"
    return status != 0


def count_parts(folder: Path) -> int:
    """Return the number of finished cells."""
    return len(list((folder / "parts").glob("[!.]*.parquet")))


def kill_folder(
    bank: str | Path,
    folder: Path,
    where: Where,
    chance: random.Random,
    cells: int,
    most: int,
    summary: bool,
) -> Kills:
    """Run into a folder until a run ends by itself, killing it so often at most."""
    kills = Kills()
    # A run without a cell or a summary to come has nothing to lose: killing it would only be
    # counted, which a slow machine does without end.
    while kills.killed < most and (count_parts(folder) < cells or (summary and kills.late < _LATE)):
        parts = count_parts(folder) + chance.randint(0, 10)
        late = summary and parts >= cells
        delay = chance.uniform(0.0, _SUMMARY if late else 0.03)
        parts = cells if late else parts  # without a summary, more cells than there are: the end
        if not attempt(start(bank, folder, where, summary), folder, parts, delay):
            return kills
        kills.killed += 1
        kills.halfway += 0 < count_parts(folder) < cells
        kills.late += count_parts(folder) == cells
    finish(start(bank, folder, where, summary))
    return kills


def check(folder: Path, whole: Path) -> None:
    """Require the bits of a run that nobody killed, and no temporary file; in a child: polars."""

    def work() -> int:
        assert_same_run(folder, whole)
        assert strays(folder) == []
        return 0

    finish(fork(work))


def strays(folder: Path) -> list[str]:
    """Return the temporary files of a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(".*.tmp"))


def kill_often(
    bank: str | Path, folder: Path, where: Where, cells: int, kills: int, chance: random.Random
) -> Iterator[Kills]:
    """Yield the kills of one folder after the other, until there were so many."""
    number = 0
    while kills > 0:
        found = kill_folder(
            bank, folder / str(number), where, chance, cells, kills, summary=number % 2 == 1
        )
        kills, number = kills - found.killed, number + 1
        yield found


def main(bank: str, folder: Path, kills: int, seed: int, address: str | None = None) -> None:
    """Print for each number of threads, or for the cluster, the kills of all its folders."""
    cells = prepare(bank)
    chance = random.Random(seed)
    whole = folder / "whole"
    finish(start(bank, whole, 1))
    for name, where in [("dask", address)] if address else [(str(n), n) for n in (1, 2, 4)]:
        found = list(kill_often(bank, folder / name, where, cells, kills, chance))
        for number in range(len(found)):
            check(folder / name / str(number), whole)
        print(*(sum(getattr(each, field) for each in found) for field in Kills.__annotations__))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
