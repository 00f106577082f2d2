"""Run a spec: claim the folder, compute what is missing, store each cell, summarise."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from firthshot.banks import Bank
from firthshot.experiments.checks import FILE as CHECKS
from firthshot.experiments.checks import run_checks
from firthshot.experiments.plan.cell import Cell, Note, condense
from firthshot.experiments.plan.layout import Plan, make_plan
from firthshot.experiments.rounds import Rounds
from firthshot.experiments.run.folder_spec import open_folder, run_identity
from firthshot.experiments.run.record import (
    PLAN,
    PlanRecord,
    begin_session,
    put_session,
    read_sessions,
    read_times,
    write_record,
    write_times,
)
from firthshot.experiments.run.store import RunFolder, sweep
from firthshot.experiments.run.workers import Compute, Done, on_threads
from firthshot.experiments.spec.choose import open_banks
from firthshot.experiments.spec.fields import Spec
from firthshot.experiments.spec.shots import shots_in_words
from firthshot.progress import SILENT, ProgressListener

if TYPE_CHECKING:
    from firthshot.experiments.summary import RunSummary

T = TypeVar("T")


@dataclass
class RunOutcome:
    """What a run came to; times are seconds of the main thread, ``compute`` of all workers.

    ``summary`` holds the tables that were written; None where there was nothing to summarise.
    """

    cells: int = 0
    resumed: int = 0
    classifiers: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    summary: RunSummary | None = None


def run(
    spec: Spec,
    out: Path,
    *,
    workers: int | None = None,
    compute: Compute | None = None,
    listener: ProgressListener = SILENT,
    summary: bool = True,
) -> RunOutcome:
    """Run a spec into a folder, or go on where it stopped.

    A spec that asks for more trials than the folder has adds those that are missing. Cells are
    computed on ``workers`` threads, by default one per core, or by ``compute``
    (`firthshot.experiments.run.cluster`). Cells that fail are told; the others are stored.
    """
    started = time.perf_counter()
    banks = open_banks(spec)
    record = open_folder(out, spec)
    plan = make_plan(spec, banks, record.steps)
    by_name = {bank.name: bank for bank in [*banks, *plan.sources]}
    for bank in by_name.values():
        bank.verify()
    begun = msgspec.structs.replace(spec, trials=record.steps[0])
    folder = RunFolder(out, run_identity(begun, list(by_name.values())))
    record.claim(list(by_name.values()))
    folder.create()
    with folder.lock():
        sweep(out)
        record.record_growth()
        work = compute or partial(on_threads, workers=workers)
        task = _CellTask(spec, plan, folder, by_name, work, listener)
        task.outcome.seconds["plan"] = time.perf_counter() - started
        return task.run(summary)


class _CellTask:
    def __init__(
        self,
        spec: Spec,
        plan: Plan,
        folder: RunFolder,
        banks: dict[str, Bank],
        work: Compute,
        listener: ProgressListener,
    ) -> None:
        self.spec, self.plan, self.folder, self.banks = spec, plan, folder, banks
        self.work, self.listener = work, listener
        self.outcome = RunOutcome(notes=plan.notes)
        for line in folder.set_damaged_aside():
            self.listener.say(line)
        self.finished = folder.finished()
        self.wanted: dict[str, Cell] = {}
        self.session, self.started = begin_session(), time.perf_counter()
        self.times = read_times(folder.path)

    def run(self, summary: bool) -> RunOutcome:
        """Compute all rounds, then summarise."""
        rounds = Rounds(self.spec, self.plan)
        for line in condense(self.plan.notes):
            self.listener.say(line)
        self._round(self.plan.cells)
        while not self.outcome.failed:
            more = self._timed("plan", partial(rounds.next_cells, self.folder.path))
            if not more:
                break
            self._round(more)
        for (bank, ways, shots, scheme), width in rounds.unreached().items():
            named = shots_in_words(shots, scheme)
            self.listener.say(
                f"{bank}, {ways}-way, {named} stays at ± {width:.2f} points: "
                f"{self.spec.trial_cap:,} trials are the cap (max_trials)."
            )
        computed = self.outcome.cells - self.outcome.resumed > len(self.outcome.failed)
        if self.finished and (computed or not (self.folder.path / CHECKS).exists()):
            checking = partial(run_checks, self.plan, self.folder.path, self.banks, self.work)
            self._timed("checks", checking)
        if summary and self.finished:
            from firthshot.experiments.summary import summarise

            self.outcome.summary = self._timed("summary", partial(summarise, self.folder.path))
        self._record_session()
        return self.outcome

    def _round(self, cells: list[Cell]) -> None:
        self.wanted |= {cell.identity: cell for cell in cells}
        classifiers = sum(cell.classifiers for cell in self.wanted.values())
        plan = PlanRecord(len(self.wanted), classifiers, self.plan.notes)
        write_record(self.folder.path / PLAN, plan)
        missing = [cell for cell in cells if cell.identity not in self.finished]
        self.outcome.cells += len(cells)
        self.outcome.resumed += len(cells) - len(missing)
        if missing:  # on record from the start: a killed run has a machine too
            put_session(self.folder.path, self.session)
        self.listener.start(
            len(cells),
            "cells",
            done=len(cells) - len(missing),
            unit="classifiers",
            units=sum(cell.classifiers for cell in missing),
        )
        for done in self.work(missing, self.banks):
            self._timed("store", partial(self._store, done))
            self._tell(done)

    def _tell(self, done: Done) -> None:
        if done.tables is None:
            self.listener.warn(f"Failed: {done.cell.words}: {done.reason}")
        failed = f"{len(self.outcome.failed)} failed" if self.outcome.failed else ""
        self.listener.advance(units=done.cell.classifiers, words=failed)

    def _store(self, done: Done) -> None:
        identity = done.cell.identity
        if done.tables is None:
            self.folder.fail(done.cell, done.reason, done.details)
            self.outcome.failed[done.cell.words] = done.reason
            return
        self.folder.write(done.cell, done.tables)
        self.finished.add(identity)
        self.outcome.classifiers += done.cell.classifiers
        seconds = self.outcome.seconds
        seconds["compute"] = seconds.get("compute", 0.0) + done.seconds
        each = done.seconds / done.cell.classifiers
        condition, method = done.cell.condition, done.cell.method
        key = (
            *(condition.bank, method.head, method.family, method.prior),
            *(condition.ways, condition.shots, condition.scheme),
        )
        self.times[key] = min(each, self.times.get(key, each))

    def _record_session(self) -> None:
        cells = self.outcome.cells - self.outcome.resumed - len(self.outcome.failed)
        done: dict[str, Any] = {
            "seconds": round(time.perf_counter() - self.started, 1),
            "cells": cells,
            "classifiers": self.outcome.classifiers,
        }
        if self.times:
            write_times(self.folder.path, self.times)
        if cells or not read_sessions(self.folder.path):
            put_session(self.folder.path, msgspec.structs.replace(self.session, **done))

    def _timed(self, what: str, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        try:
            return work()
        finally:
            seconds = self.outcome.seconds
            seconds[what] = seconds.get(what, 0.0) + time.perf_counter() - start
