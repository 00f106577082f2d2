"""From cells to parts on disk: threads or a Dask cluster, the run folder and its records."""

from firthshot.experiments.run.compute import Tables
from firthshot.experiments.run.status import RunStatus, read_status
from firthshot.experiments.run.store import RunFolder
from firthshot.experiments.run.workers import Compute, Done, default_workers, on_threads

__all__ = [
    "Compute",
    "Done",
    "RunFolder",
    "RunStatus",
    "Tables",
    "default_workers",
    "on_threads",
    "read_status",
]
