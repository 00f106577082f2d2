"""What a Dask cluster adds: time per cell at the scheduler, and the travel of a bank."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from firthshot.banks import load_bank
from firthshot.errors import MissingExtraError
from firthshot.experiments.plan.cell import Cell
from firthshot.experiments.run.compute import Tables, compute
from firthshot.experiments.run.workers import Done


def measure_cluster(quick: bool) -> dict[str, float]:
    """Return seconds per cell (scheduler, network, pickling) and per megabyte of a bank."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise MissingExtraError("The cluster part of the sweep bench", "dask") from None
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        return {
            "cell_s": _per_cell(client, 200 if quick else 2000),
            "megabyte_s": _per_megabyte(client, 20 if quick else 200),
        }


def _per_cell(client: Any, count: int) -> float:
    """Return the seconds that a cell takes when its computing takes none."""
    from firthshot.experiments.run.cluster import on_cluster

    cells = _cells(count)
    client.run(_tables)  # once per worker, and not in the time
    start = time.perf_counter()
    done = sum(1 for _ in on_cluster(client, cells, {}, function=return_tables))
    return (time.perf_counter() - start) / done


def return_tables(cell: Cell) -> Done:
    """Return the tables of a real cell at once, so that as much travels as in a run."""
    return Done(cell, _tables())


@lru_cache(maxsize=1)
def _tables() -> Tables:
    cell = _cells(1)[0]
    return compute(cell, load_bank("clinc150-minilm"))


def _cells(count: int) -> list[Cell]:
    from firthshot.experiments.plan.layout import make_plan
    from firthshot.experiments.spec.reading import load_spec

    spec = load_spec("quickstart", {"trials": 100, "ways": [5], "shots": [1], "splits": ["novel"]})
    setting = make_plan(spec, [load_bank("clinc150-minilm")]).settings[0]
    return [
        Cell(setting.condition, setting.method, 100 * i, 100 * i + 100, "float32")
        for i in range(count)
    ]


def _per_megabyte(client: Any, megabytes: int) -> float:
    """Return the seconds per megabyte and worker that a bank needs to reach the workers."""
    from firthshot.experiments.run.cluster import BankPlugin, BankRef

    with TemporaryDirectory(prefix="firthshot-bench-") as folder:
        path = Path(folder) / "content"
        path.write_bytes(bytes(megabytes * 1_000_000))
        ref = BankRef("content", str(path), "0" * 64, path.read_bytes())
    start = time.perf_counter()
    client.register_plugin(BankPlugin([ref]))
    return (time.perf_counter() - start) / megabytes / len(client.nthreads())
