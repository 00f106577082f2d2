"""Keep of the runs what is committed: their summaries in one table of each kind, and records.

A kept table has the column ``study`` first; bank, ways, shots and method tell its lines apart.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from firthshot.experiments._summary_calibration import CALIBRATION
from firthshot.experiments._summary_columns import ALL, CHOSEN, CONTRASTS
from firthshot.experiments.folder_spec import read_banks, to_toml
from firthshot.experiments.record import read_sessions
from firthshot.experiments.store import write_whole
from reproduction.pairs import BETWEEN, THEORY, against_theory, between
from reproduction.plan import FOLDER, Task, read_pairs, read_plan, read_tasks

RECORD = "record.json"
RECORDS = "records.json"
PAIRS = "pairs"
TABLES: dict[str, dict[str, Any]] = {
    "all": ALL,
    "chosen": CHOSEN,
    "contrasts": CONTRASTS,
    "calibration": CALIBRATION,
    "theory": THEORY,
}
_STUDY: dict[str, Any] = {"study": pl.String}
GEOMETRIC = ("geometric.csv", "geometric.json")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a kept summary is a summary of.

    Attributes
    ----------
    study, bank : str
    spec : str
        SHA-256 of the spec file.
    banks : dict
        SHA-256 of every bank, by name.
    trials, classifiers : int
        Per cell of the table; in all. The geometric experiment trains no classifiers.
    processor_seconds : float
        What the run took, over all its sessions and threads.
    machine, firthshot : str
    """

    study: str
    bank: str
    spec: str
    banks: dict[str, str]
    trials: int
    classifiers: int
    processor_seconds: float
    machine: str
    firthshot: str


def spec_hash(task: Task, tenth: bool = False) -> str:
    """Return the hash of a task's spec file."""
    return hashlib.sha256(to_toml(task.spec(tenth)).encode()).hexdigest()


def finish_task(task: Task, run: Path, tenth: bool, seconds: float) -> None:
    """Compare with the theory and record a finished run in its folder, the record last."""
    if not task.geometric:
        _write(run / "summary" / "theory.parquet", against_theory(run))
    session = read_sessions(run)[-1]
    plan: dict[str, Any] = json.loads((run / "plan.json").read_text("utf-8"))
    banks = {} if task.geometric else read_banks(run)
    record = Record(
        study=task.study.name,
        bank=task.bank,
        spec=spec_hash(task, tenth),
        banks={name: facts["sha256"] for name, facts in banks.items()},
        trials=task.spec(tenth).trials,
        classifiers=0 if task.geometric else plan["classifiers"],
        processor_seconds=round(seconds, 1),
        machine=session.machine,
        firthshot=session.firthshot,
    )
    write_whole(run / RECORD, msgspec.json.encode(record))


def collect(runs: Path, kept: Path, plan: Path = FOLDER) -> list[Record]:
    """Put the summaries of all finished runs of a plan together; return their records."""
    order = [study.name for study in read_plan(plan)]
    tasks = sorted(read_tasks(plan), key=lambda task: order.index(task.study.name))
    finished = [task for task in tasks if (runs / task.place / RECORD).is_file()]
    records = [_record(runs / task.place / RECORD) for task in finished]
    kept.mkdir(parents=True, exist_ok=True)
    for name, schema in TABLES.items():
        found = [pl.DataFrame(schema=_STUDY | schema), *_tables(finished, runs, name)]
        _write(kept / f"{name}.parquet", pl.concat(found))
    none = pl.DataFrame(schema=_STUDY | {"against_study": pl.String} | BETWEEN)
    _write(kept / f"{PAIRS}.parquet", pl.concat([none, *_pairs(finished, runs, plan)]))
    for name in GEOMETRIC:
        for task in finished:
            if task.geometric:
                write_whole(kept / name, (runs / task.place / "summary" / name).read_bytes())
    text = msgspec.json.format(msgspec.json.encode(records), indent=1)
    write_whole(kept / RECORDS, text + b"\n")
    return records


def read_records(kept: Path) -> list[Record]:
    """Read the records of a folder of kept summaries."""
    return msgspec.json.decode((kept / RECORDS).read_bytes(), type=list[Record])


def _record(path: Path) -> Record:
    return msgspec.json.decode(path.read_bytes(), type=Record)


def _tables(tasks: Sequence[Task], runs: Path, name: str) -> list[pl.DataFrame]:
    found = [(task, runs / task.place / "summary" / f"{name}.parquet") for task in tasks]
    return [
        pl.read_parquet(path).select(pl.lit(task.study.name).alias("study"), pl.all())
        for task, path in found
        if path.is_file()
    ]


def _pairs(tasks: Sequence[Task], runs: Path, plan: Path) -> list[pl.DataFrame]:
    """Compare the studies that the plan pairs, on every bank that both have."""
    there = {(task.study.name, task.bank): runs / task.place for task in tasks}
    return [
        between(there[pair.one, bank], there[pair.other, bank]).select(
            pl.lit(pair.one).alias("study"), pl.lit(pair.other).alias("against_study"), pl.all()
        )
        for pair in read_pairs(plan)
        for study, bank in there
        if study == pair.one and (pair.other, bank) in there
    ]


def _write(path: Path, frame: pl.DataFrame) -> None:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=19)
    write_whole(path, buffer.getvalue())
