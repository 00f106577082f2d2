"""Keep of the runs what is committed: their summaries in one table of each kind, and records.

A kept table has the column ``study`` first; bank, ways, shots and method tell its lines apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from firthshot.experiments.run import record as run_record
from firthshot.experiments.run.folder_spec import read_banks
from firthshot.experiments.spec.fields import to_toml
from firthshot.experiments.summary.choice import CALIBRATION
from firthshot.experiments.summary.columns import ALL, CHOSEN, CONTRASTS
from firthshot.files import write_whole
from studies.parts import write_table
from studies.reproduction.pairs import BETWEEN, THEORY, against_theory, between
from studies.reproduction.plan import FOLDER, Task, read_pairs, read_plan, read_tasks

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
    session = run_record.read_sessions(run)[-1]
    classifiers = 0 if task.geometric else run_record.read_plan(run).classifiers
    banks = {} if task.geometric else read_banks(run)
    record = Record(
        study=task.study.name,
        bank=task.bank,
        spec=spec_hash(task, tenth),
        banks={name: facts["sha256"] for name, facts in banks.items()},
        trials=task.spec(tenth).trials,
        classifiers=classifiers,
        processor_seconds=round(seconds, 1),
        machine=session.machine,
        firthshot=session.firthshot,
    )
    write_whole(run / RECORD, msgspec.json.encode(record))


def collect(runs: Path, kept: Path, plan: Path = FOLDER) -> list[Record]:
    """Put the summaries of all finished runs of a plan together; return their records.

    What was kept of a task that has no finished run here stays, as long as its spec is the plan's:
    raw rows are not committed, and a study can be run again without all the others.
    """
    order = [study.name for study in read_plan(plan)]
    tasks = sorted(read_tasks(plan), key=lambda task: order.index(task.study.name))
    finished = [task for task in tasks if _finished(task, runs / task.place)]
    staying = _staying(kept, [task for task in tasks if task not in finished])
    kept.mkdir(parents=True, exist_ok=True)
    for name, schema in TABLES.items():
        found = [pl.DataFrame(schema=_STUDY | schema)]
        for task in tasks:
            if task in finished:
                found += _run_table(task, runs, name)
            elif task.place in staying:
                found.append(_kept_lines(kept, name, task))
        _write(kept / f"{name}.parquet", pl.concat(found))
    none = pl.DataFrame(schema=_STUDY | {"against_study": pl.String} | BETWEEN)
    pairs = _pairs(finished, [t for t in tasks if t.place in staying], runs, kept, plan)
    _write(kept / f"{PAIRS}.parquet", pl.concat([none, *pairs]))
    for name in GEOMETRIC:
        for task in finished:
            if task.geometric:
                write_whole(kept / name, (runs / task.place / "summary" / name).read_bytes())
    here = {task.place: _record(runs / task.place / RECORD) for task in finished}
    known = staying | here
    records = [known[task.place] for task in tasks if task.place in known]
    text = msgspec.json.format(msgspec.json.encode(records), indent=1)
    write_whole(kept / RECORDS, text + b"\n")
    return records


def _staying(kept: Path, tasks: Sequence[Task]) -> dict[str, Record]:
    """Return, by place, what is kept already of tasks whose spec has not changed since."""
    if not (kept / RECORDS).is_file():
        return {}
    there = {(record.study, record.bank): record for record in read_records(kept)}
    found = {task.place: (task, there.get((task.study.name, task.bank))) for task in tasks}
    return {
        place: record
        for place, (task, record) in found.items()
        if record and record.spec == spec_hash(task)
    }


def _finished(task: Task, run: Path) -> bool:
    """Return whether a run has been recorded, and its summary is still there."""
    summary = run / "summary" / (GEOMETRIC[0] if task.geometric else "chosen.parquet")
    return (run / RECORD).is_file() and summary.is_file()


def read_records(kept: Path) -> list[Record]:
    """Read the records of a folder of kept summaries."""
    return msgspec.json.decode((kept / RECORDS).read_bytes(), type=list[Record])


def _record(path: Path) -> Record:
    return msgspec.json.decode(path.read_bytes(), type=Record)


def _run_table(task: Task, runs: Path, name: str) -> list[pl.DataFrame]:
    """Read a table of a run's summary; geometric runs have none."""
    path = runs / task.place / "summary" / f"{name}.parquet"
    if not path.is_file():
        return []
    return [pl.read_parquet(path).select(pl.lit(task.study.name).alias("study"), pl.all())]


def _kept_lines(kept: Path, name: str, task: Task) -> pl.DataFrame:
    """Read the lines of a task that were kept before."""
    lines = pl.read_parquet(kept / f"{name}.parquet")
    return lines.filter(pl.col("study") == task.study.name, pl.col("bank") == task.bank)


def _pairs(
    finished: Sequence[Task], staying: Sequence[Task], runs: Path, kept: Path, plan: Path
) -> list[pl.DataFrame]:
    """Compare the studies that the plan pairs, on every bank that both have.

    Where one of the two has no rows here, what was found when both had them stays.
    """
    there = {(task.study.name, task.bank): task for task in [*finished, *staying]}
    found = []
    for pair in read_pairs(plan):
        for (study, bank), one in there.items():
            other = there.get((pair.other, bank))
            if study != pair.one or other is None:
                continue
            if one in finished and other in finished:
                new = between(runs / one.place, runs / other.place, pair.zero_against_chosen)
                names = pl.lit(pair.one).alias("study"), pl.lit(pair.other).alias("against_study")
                found.append(new.select(*names, pl.all()))
            else:
                old = _kept_lines(kept, PAIRS, one)
                found.append(old.filter(pl.col("against_study") == pair.other))
    return found


def _write(path: Path, frame: pl.DataFrame) -> None:
    write_table(path, frame, compression="zstd", compression_level=19)
