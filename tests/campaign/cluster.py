"""A Dask cluster in a process of its own, whose workers can be killed from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True)
class Cluster:
    """The cluster as the campaign sees it."""

    address: str
    asked: IO[str]
    answers: IO[str]

    def kill(self, worker: int) -> bool:
        """Kill a worker; its nanny starts another. Say whether there was one."""
        print(worker, file=self.asked, flush=True)
        return int(self.answers.readline()) > 0


@contextmanager
def start_cluster() -> Iterator[Cluster]:
    """Start two workers of one thread each."""
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # nannies complain of every kill
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        yield Cluster(process.stdout.readline().strip(), process.stdin, process.stdout)
        process.stdin.close()  # which ends it


def main() -> None:
    """Print the address, then kill a worker for every line that comes in."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        for line in sys.stdin:
            alive = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
            if alive:
                os.kill(alive[int(line) % len(alive)], signal.SIGKILL)
            print(len(alive), flush=True)


if __name__ == "__main__":
    main()
