"""The geometric experiment (Fig 1), where the bias of maximum likelihood can be worked out.

A trial tosses a coin until the first head, ``sample_size`` times over; y counts the tosses. From
the first N counts it estimates p, for every N, by maximum likelihood (1 / ȳ) and by Firth's
bias-reduced estimator ((N − 1) / (N ȳ − 1)). ``parts/`` of the run folder holds the sums of errors
over blocks of trials, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from firthshot.errors import FirthshotError
from firthshot.experiments.geometric.summary import GeometricResult, result_of
from firthshot.experiments.run.folder_spec import open_folder
from firthshot.experiments.run.record import PlanRecord, begin_session, put_session, write_plan
from firthshot.experiments.run.sealing import sealed_parquet
from firthshot.experiments.run.store import RunFolder, refuse_damaged, sweep
from firthshot.experiments.run.workers import default_workers
from firthshot.experiments.spec.fields import GeometricSpec
from firthshot.experiments.spec.reading import load_geometric
from firthshot.files import write_whole, writing_to
from firthshot.progress import SILENT, ProgressListener

Array = npt.NDArray[Any]
Block = tuple[int, int]

FORMAT = 1  # raise it when the same block would give other sums
SUMS = ("mle_error", "mle_square", "firth_error", "firth_square")
_SCHEMA: dict[str, Any] = {"size": pl.Int32, "trials": pl.Int64, **dict.fromkeys(SUMS, pl.Float64)}


def run_geometric(
    spec: GeometricSpec,
    out: Path,
    *,
    workers: int | None = None,
    listener: ProgressListener = SILENT,
) -> GeometricResult:
    """Run the experiment into a folder, or go on where it stopped; write its summary.

    The results do not depend on the number of threads, all cores by default.
    """
    blocks, folder = spec.blocks(), RunFolder(out)
    open_folder(out, spec).claim([])
    folder.create()
    with writing_to(out), folder.lock():
        sweep(out)
        for line in folder.set_damaged_aside():
            listener.say(line)
        write_plan(out, PlanRecord(len(blocks), spec.trials, (), "trials"))
        missing = [block for block in blocks if not part_path(out, spec, block).is_file()]
        session, started = begin_session(), time.perf_counter()
        listener.start(len(blocks), "blocks", done=len(blocks) - len(missing))
        for block, sums in _compute(spec, missing, workers):
            write_whole(part_path(out, spec, block), _part(block, sums))
            listener.advance()
        result = read_geometric(out, spec)
        result.write(out / "summary")
        if missing:
            seconds = round(time.perf_counter() - started, 1)
            done = msgspec.structs.replace(session, seconds=seconds, cells=len(missing))
            put_session(out, done)
    return result


def part_path(folder: Path, spec: GeometricSpec, block: Block) -> Path:
    """Return where the sums of a block are; its name is the hash of what decides them."""
    content = msgspec.json.encode(["geometric", FORMAT, spec.p, spec.sample_size, *block])
    return folder / "parts" / f"{hashlib.sha256(content).hexdigest()[:32]}.parquet"


def _compute(
    spec: GeometricSpec, blocks: list[Block], workers: int | None
) -> Iterator[tuple[Block, Array]]:
    """Yield the sums of each block, in order, several being computed at a time."""
    pool = ThreadPoolExecutor(workers or default_workers())
    try:
        yield from zip(blocks, pool.map(lambda block: error_sums(spec, block), blocks), strict=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def error_sums(spec: GeometricSpec, block: Block) -> Array:
    """Return the sums of errors and of their squares over a block, (sample_size, 4)."""
    from firthshot.experiments.geometric._kernel import add_errors
    from firthshot.kernels.streams import stream_key

    sums: Array = np.zeros((spec.sample_size, len(SUMS)))
    add_errors(np.uint64(stream_key("geometric")), *block, spec.p, sums)
    return sums


def _part(block: Block, sums: Array) -> bytes:
    columns: dict[str, Any] = {
        "size": np.arange(1, len(sums) + 1),
        "trials": np.full(len(sums), block[1] - block[0]),
        **{name: sums[:, column] for column, name in enumerate(SUMS)},
    }
    return sealed_parquet(pl.DataFrame(columns, schema=_SCHEMA))


def read_geometric(folder: Path, spec: GeometricSpec | None = None) -> GeometricResult:
    """Compute the result from the blocks that a run folder holds."""
    spec = spec or load_geometric(folder)
    refuse_damaged(folder)
    paths = [part_path(folder, spec, block) for block in spec.blocks()]
    frames = [_read_part(path, spec) for path in paths if path.is_file()]
    if not frames:
        raise FirthshotError(f"{folder} holds no finished block yet: run the experiment first.")
    trials = np.array([frame["trials"][0] for frame in frames])
    return result_of(spec, trials, np.stack([frame.select(SUMS).to_numpy() for frame in frames]))


def _read_part(path: Path, spec: GeometricSpec) -> pl.DataFrame:
    frame = pl.read_parquet(path, glob=False)
    if frame.schema == _SCHEMA and len(frame) == spec.sample_size:
        return frame
    raise FirthshotError(f"{path} is not a part of this run: move it elsewhere, then run again.")
