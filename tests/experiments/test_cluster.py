"""On a Dask cluster: the same bits, whoever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.toy import assert_same_run, toy_spec, write_bank
from firthshot.errors import FirthshotError
from firthshot.experiments.plan import layout as plan
from firthshot.experiments.run import cluster as cluster_module
from firthshot.experiments.run.cluster import connect, on_cluster
from firthshot.experiments.runner import run
from listeners import StopAt

distributed = pytest.importorskip("distributed")
HERE = Path(__file__).parent
# Dask leaves sockets and event loops to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    ) as started:
        yield started


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    return write_bank(tmp_path / "toy.bank")


@pytest.fixture(autouse=True)
def small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "block_size", lambda method, shape, trials: 2)


def kill_a_worker(client: Any) -> None:
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def count_banks(dask_worker: Any) -> int:
    return len(list(Path(dask_worker.local_directory).glob("*.bank")))


def test_the_same_bits_as_on_threads(cluster: Any, bank: Path, tmp_path: Path) -> None:
    spec = toy_spec(bank)
    run(spec, tmp_path / "threads", workers=2, summary=False)
    with connect(cluster.scheduler_address) as compute:
        run(spec, tmp_path / "dask", compute=compute, summary=False)
    assert_same_run(tmp_path / "threads", tmp_path / "dask")


def test_a_killed_worker_costs_nothing(cluster: Any, bank: Path, tmp_path: Path) -> None:
    spec = toy_spec(bank, trials=40, sgd={"epochs": 100})
    run(spec, tmp_path / "threads", workers=2, summary=False)
    with distributed.Client(cluster) as client:
        listener = StopAt(10, lambda: kill_a_worker(client))
        outcome = run(
            spec,
            tmp_path / "dask",
            compute=lambda cells, banks: on_cluster(client, cells, banks),
            listener=listener,
            summary=False,
        )
    assert listener.done > 10
    assert not outcome.failed
    assert_same_run(tmp_path / "threads", tmp_path / "dask")


def test_a_bank_that_workers_cannot_see_travels(cluster: Any, bank: Path, tmp_path: Path) -> None:
    spec = toy_spec(bank)
    run(spec, tmp_path / "threads", workers=1, summary=False)
    with distributed.Client(cluster) as client:
        run(
            spec,
            tmp_path / "dask",
            compute=lambda cells, banks: on_cluster(client, cells, banks, send=True),
            summary=False,
        )
        kept = client.run(count_banks)
    assert min(kept.values()) == 1  # once per worker, not per cell
    assert_same_run(tmp_path / "threads", tmp_path / "dask")


def test_no_scheduler_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "_ANSWER", 1)
    with (
        pytest.raises(FirthshotError, match="no Dask scheduler at tcp"),
        connect("tcp://127.0.0.1:9"),
    ):
        pass


def test_a_scheduler_that_goes_away(
    bank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = toy_spec(bank, trials=40)
    run(spec, tmp_path / "threads", workers=2, summary=False)
    with (
        distributed.LocalCluster(
            n_workers=1, processes=False, dashboard_address=":0", silence_logs=50
        ) as own,
        distributed.Client(own, timeout=2) as client,
        pytest.raises(FirthshotError, match="scheduler is gone: finished cells are kept"),
    ):
        run(
            spec,
            tmp_path / "dask",
            compute=lambda cells, banks: on_cluster(client, cells, banks),
            listener=StopAt(5, own.close),
            summary=False,
        )
    assert not list((tmp_path / "dask/failures").iterdir())
    outcome = run(spec, tmp_path / "dask", workers=2, summary=False)
    assert outcome.resumed >= 5
    assert_same_run(tmp_path / "threads", tmp_path / "dask")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kills", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_kills_of_the_run_lose_nothing(
    cluster: Any, bank: Path, tmp_path: Path, kills: int
) -> None:
    command = [sys.executable, str(HERE / "kills.py"), str(bank), str(tmp_path), str(kills), "2"]
    done = subprocess.run(
        [*command, cluster.scheduler_address],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    killed, halfway, _ = map(int, done.stdout.split())
    assert killed == kills
    assert halfway >= kills // 2
