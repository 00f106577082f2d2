"""What a run costs beside training: planning, storing, summarising, memory, a cluster's share."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import (
    ROOT,
    OtherWork,
    Record,
    Report,
    Say,
    describe_machine,
    machine_line,
    make_table,
)
from firthshot.errors import FirthshotError
from firthshot.experiments.run.workers import Done, default_workers, on_threads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from firthshot.banks import Bank
    from firthshot.experiments.plan.cell import Cell

OVERHEAD_LIMIT = 0.05
MEMORY_LIMIT = 2e9


def run(*, quick: bool = False, say: Say = print) -> Report:
    """Measure the overhead of the quickstart, the memory of the largest cell, and Dask's part.

    ``ratio`` is how many times a figure stays below its limit: 5 % of the compute, 2 GB a worker.
    """
    from benchmarks.sweep_cluster import measure_cluster
    from benchmarks.sweep_projection import project

    workers = default_workers()
    machine, others = describe_machine(workers), OtherWork()
    records = [measure_overhead(quick, workers, say), measure_memory(quick, say)]
    say("a local Dask cluster: time per cell and per bank")
    cluster = measure_cluster(quick)
    say("projection of the paper's presets")
    store = records[0]["store_s"] / records[0]["cells"]
    extra = {"cluster": cluster, "projection": project(cluster, store, quick)}
    return Report(machine, records, {**extra, "share_of_others": others.share()})


def measure_overhead(quick: bool, workers: int, say: Say) -> Record:
    """Run the quickstart and compare all that is not training with the training.

    Storing is timed again alone afterwards: during the run the main thread mostly waits for cores
    on which cells are trained, which costs nothing.
    """
    from firthshot.experiments.runner import run as run_spec
    from firthshot.experiments.spec.choose import settle_banks
    from firthshot.experiments.spec.reading import load_spec

    say(f"quickstart on {workers} threads")
    warm = settle_banks(load_spec("quickstart", {"trials": 2}))
    spec = settle_banks(load_spec("quickstart", {"trials": 60} if quick else None))
    with tempfile.TemporaryDirectory(prefix="firthshot-bench-") as folder:
        run_spec(warm, Path(folder) / "warm", workers=workers)
        start = time.perf_counter()
        kept: list[Done] = []

        def compute(cells: Iterable[Cell], banks: dict[str, Bank]) -> Iterator[Done]:
            for done in on_threads(cells, banks, workers):
                kept.append(done)
                yield done

        outcome = run_spec(spec, Path(folder) / "run", compute=compute)
        elapsed = time.perf_counter() - start
        stored = _store_again(kept, Path(folder) / "again")
    if outcome.failed:
        raise FirthshotError(f"The quickstart failed: {next(iter(outcome.failed.values()))}")
    seconds = {**outcome.seconds, "store": stored, "store_in_run": outcome.seconds["store"]}
    beside = sum(seconds[what] for what in ("plan", "store", "summary"))
    return {
        "case": f"overhead of quickstart, {spec.trials} trials",
        "cells": outcome.cells,
        "classifiers": outcome.classifiers,
        "elapsed_s": elapsed,
        **{f"{what}_s": value for what, value in seconds.items()},
        "overhead": beside / seconds["compute"],
        "limit": OVERHEAD_LIMIT,
        "ratio": OVERHEAD_LIMIT * seconds["compute"] / beside,
    }


def _store_again(kept: list[Done], path: Path) -> float:
    """Return the seconds that storing all cells takes on its own."""
    from firthshot.experiments.run.store import RunFolder

    folder = RunFolder(path, "again")
    folder.create()
    start = time.perf_counter()
    for done in kept:
        if done.tables is not None:
            folder.write(done.cell, done.tables)
    return time.perf_counter() - start


def measure_memory(quick: bool, say: Say) -> Record:
    """Compute the largest cell of the presets in a process of its own and read its peak memory."""
    ways = 20 if quick else 150
    say(f"largest cell: cosine, {ways}-way 10-shot, all coefficients, a bank of tiered's size")
    code = "import sys; from benchmarks.sweep import largest_cell; largest_cell(sys.argv)"
    with tempfile.TemporaryDirectory(prefix="firthshot-bench-") as folder:
        done = subprocess.run(
            [sys.executable, "-c", code, folder, str(ways)],
            capture_output=True, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
    if done.returncode:
        raise FirthshotError(f"The largest cell failed: {done.stderr.strip().splitlines()[-1]}")
    found = json.loads(done.stdout)
    return {
        "case": f"memory of cosine, {ways}-way 10-shot",
        **found,
        "limit": MEMORY_LIMIT,
        "ratio": MEMORY_LIMIT / found["peak_bytes"],
    }


def largest_cell(arguments: list[str]) -> None:
    """Write a bank of tiered-ImageNet's size and compute one trial on it (in a child process)."""
    import resource

    from firthshot.experiments.plan.layout import make_plan
    from firthshot.experiments.run.compute import compute
    from firthshot.experiments.spec.reading import load_spec

    folder, ways = Path(arguments[1]), int(arguments[2])
    bank = write_large_bank(folder / "large.bank")
    spec = load_spec("cosine", {"ways": [ways], "shots": [10], "trials": 1, "splits": ["novel"]})
    cell = make_plan(spec, [bank]).cells[0]
    start = time.perf_counter()
    compute(cell, bank)
    seconds = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    found = {"classifiers": cell.classifiers, "cell_s": seconds, "peak_bytes": peak}
    print(json.dumps(found))


def write_large_bank(path: Path, classes: int = 160, rows: int = 1300, d: int = 640) -> Any:
    """Save float16 features in the shape of tiered-ImageNet's novel classes, block by block."""
    import numpy as np

    from firthshot.banks import save_bank

    rng = np.random.default_rng(0)
    features = np.empty((classes * rows, d), np.float16)
    for start in range(0, len(features), rows):
        mean = 0.3 * rng.standard_normal(d, np.float32)
        noise = rng.standard_normal((rows, d), np.float32)
        features[start : start + rows] = np.maximum(mean + noise, 0)
    names = [f"class {c}" for c in range(classes)]
    labels = np.repeat(np.arange(classes), rows)
    return save_bank(path, features, labels, classes=names, class_splits=["novel"] * classes)


def show(report: Report, console: Console) -> None:
    """Print overhead, memory, the cluster's figures and the projection."""
    overhead, memory = report.records
    console.print(machine_line(report.machine), highlight=False, soft_wrap=True)
    console.print(_overhead_table(overhead))
    console.print(
        f"{memory['case']}: peak {memory['peak_bytes'] / 1e9:.2f} GB in one worker (limit "
        f"{memory['limit'] / 1e9:g} GB), {memory['cell_s']:.0f} s for {memory['classifiers']} "
        "classifiers",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    from benchmarks.sweep_projection import show_projection

    show_projection(report.extra, console)


def _overhead_table(record: Record) -> Any:
    rows = [
        (what, f"{record[f'{what}_s']:.2f}", f"{record[f'{what}_s'] / record['compute_s']:.2%}")
        for what in ("plan", "store", "summary", "compute")
    ]
    rows.append(("overhead", "", f"{record['overhead']:.2%} (limit {record['limit']:.0%})"))
    title = f"{record['case']}: {record['cells']} cells in {record['elapsed_s']:.0f} s"
    return make_table(title, ("", "seconds", "of the compute"), rows)
