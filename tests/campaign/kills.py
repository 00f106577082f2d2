"""Kill runs of every kind until there were so many; each folder ends as if nobody had."""

from __future__ import annotations

import dataclasses
import math
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from campaign import kept
from experiments.kills import Kills

# Kills the runs of one folder at most so often, and raises AssertionError where the folder then
# does not hold what an uninterrupted run writes.
KillFolder = Callable[[Path, random.Random, int], Kills]
SHARES = {
    "1 thread": 0.25,
    "2 threads": 0.25,
    "4 threads": 0.25,
    "Dask, run killed": 0.1,
    "Dask, workers and run killed": 0.05,
    "command with report": 0.1,
}


def kill(
    folder: Path,
    count: int,
    seed: int,
    open_kinds: Callable[[Path], AbstractContextManager[dict[str, KillFolder]]],
) -> list[str]:
    """Kill runs ``count`` times over all kinds, go on from earlier; return the faults."""
    results = folder / "kills.jsonl"
    goals = {kind: math.ceil(share * count) for kind, share in SHARES.items()}
    if any(_missing(results, kind, goal) > 0 for kind, goal in goals.items()):
        with open_kinds(folder) as kinds:
            for kind, goal in goals.items():
                for line in _kill_kind(results, kind, goal, seed, kinds[kind]):
                    print(line, flush=True)
    return kept.faults(kept.read(results))


def _missing(results: Path, kind: str, goal: int) -> int:
    return goal - kept.total(kept.read(results), kind, "killed")


def _kill_kind(
    results: Path, kind: str, goal: int, seed: int, kill_folder: KillFolder
) -> Iterator[str]:
    """Fill folders of a kind; one whose result is kept is removed, unless something was wrong."""
    while (missing := _missing(results, kind, goal)) > 0:
        number = sum(record["kind"] == kind for record in kept.read(results))
        folder = results.parent / kind.replace(",", "").replace(" ", "-") / str(number)
        # What an interrupted campaign left half killed would not be counted.
        shutil.rmtree(folder, ignore_errors=True)
        record = {"kind": kind, "seed": seed, "folders": 1, "faults": [], "killed": 0}
        try:
            found = kill_folder(folder, random.Random(f"{seed} {kind} {number}"), missing)
            record |= dataclasses.asdict(found)
        except AssertionError as error:
            record |= {"killed": 1, "faults": [f"{folder}: {error}"]}
        kept.append(results, record)
        if not record["faults"]:
            shutil.rmtree(folder)
        yield f"{kind}, folder {number}: {record['killed']} kills. {''.join(record['faults'])}"
