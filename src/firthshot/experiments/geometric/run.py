"""The geometric experiment (Fig 1), where the bias of maximum likelihood can be worked out.

A trial tosses a coin until the first head, ``sample_size`` times over; y counts the tosses. From
the first N counts it estimates p, for every N, by maximum likelihood (1 / ȳ) and by Firth's
bias-reduced estimator ((N − 1) / (N ȳ − 1)). The run folder has ``spec.toml``, ``parts/`` (sums of
errors over blocks of trials) and ``summary/``; a run that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from firthshot.errors import FirthshotError
from firthshot.experiments.run.folder_spec import compare_specs
from firthshot.experiments.run.record import begin_session, put_session
from firthshot.experiments.run.sealing import sealed_parquet
from firthshot.experiments.run.store import RunFolder, refuse_damaged, sweep
from firthshot.experiments.run.workers import default_workers
from firthshot.experiments.spec.geometric import GeometricSpec, load_geometric
from firthshot.experiments.spec.reading import source_kind
from firthshot.experiments.spec.writing import to_toml
from firthshot.files import raise_clearly, write_whole

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
    progress: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] = lambda _line: None,
) -> None:
    """Run the experiment into a folder, or go on where it stopped; write its summary.

    Parameters
    ----------
    spec : GeometricSpec
    out : Path
    workers : int, optional
        Threads; all cores by default. The results do not depend on it.
    progress : callable, optional
        Told after every block how many are finished, and of how many.
    say : callable, optional
        Told that parts were damaged, and what becomes of them.

    Raises
    ------
    FirthshotError
        When the folder holds another run or cannot be written to.
    """
    from firthshot.experiments.geometric.summary import read_geometric

    tell = progress or (lambda _done, _all: None)
    try:
        _claim(out, spec)
        folder = RunFolder(out)
        with folder.lock():
            sweep(out)
            for line in folder.set_damaged_aside():
                say(line)
            blocks = spec.blocks()
            missing = [block for block in blocks if not part_path(out, spec, block).is_file()]
            session, started = begin_session(), time.perf_counter()
            tell(len(blocks) - len(missing), len(blocks))
            for count, (block, sums) in enumerate(_compute(spec, missing, workers), 1):
                _write_part(part_path(out, spec, block), block, sums)
                tell(len(blocks) - len(missing) + count, len(blocks))
            read_geometric(out).write(out / "summary")
            if missing:
                seconds = round(time.perf_counter() - started, 1)
                done = msgspec.structs.replace(session, seconds=seconds, cells=len(missing))
                put_session(out, done)
    except OSError as error:
        raise_clearly(error, out)


def _claim(path: Path, spec: GeometricSpec) -> None:
    """Record the spec in a new folder, or refuse a folder that holds another run."""
    recorded = path / "spec.toml"
    if recorded.is_file():
        if source_kind(str(recorded)) != "geometric":
            raise FirthshotError(
                f"{path} holds a run of trials on banks, not of the geometric experiment: choose "
                "another --out."
            )
        compare_specs(path, load_geometric(str(recorded)), spec)
    elif any((path / "parts").glob("*")):
        raise FirthshotError(f"{path} has parts but no spec.toml: choose another --out.")
    for name in ("parts", "summary"):
        (path / name).mkdir(parents=True, exist_ok=True)
    plan = {"cells": len(spec.blocks()), "classifiers": spec.trials, "unit": "trials", "notes": []}
    write_whole(path / "plan.json", json.dumps(plan, indent=1).encode())
    if not recorded.is_file():
        write_whole(recorded, to_toml(spec).encode())


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


def _write_part(path: Path, block: Block, sums: Array) -> None:
    columns: dict[str, Any] = {
        "size": np.arange(1, len(sums) + 1),
        "trials": np.full(len(sums), block[1] - block[0]),
        **{name: sums[:, column] for column, name in enumerate(SUMS)},
    }
    write_whole(path, sealed_parquet(pl.DataFrame(columns, schema=_SCHEMA)))


def read_sums(folder: Path, spec: GeometricSpec) -> tuple[Array, Array]:
    """Return the finished blocks: their numbers of trials (B,), and sums (B, sample_size, 4).

    Raises
    ------
    FirthshotError
        When a part is damaged, or none is there.
    """
    refuse_damaged(folder)
    paths = [part_path(folder, spec, block) for block in spec.blocks()]
    frames = [_read_part(path, spec) for path in paths if path.is_file()]
    if not frames:
        raise FirthshotError(f"{folder} holds no finished block yet: run the experiment first.")
    trials = np.array([frame["trials"][0] for frame in frames])
    return trials, np.stack([frame.select(SUMS).to_numpy() for frame in frames])


def _read_part(path: Path, spec: GeometricSpec) -> pl.DataFrame:
    frame = pl.read_parquet(path, glob=False)
    if frame.schema == _SCHEMA and len(frame) == spec.sample_size:
        return frame
    raise FirthshotError(f"{path} is not a part of this run: move it elsewhere, then run again.")
