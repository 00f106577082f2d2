"""Read what a run folder says of itself: spec, banks, machine, and how far it came."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from firthshot.banks import Bank, Finding, diagnose, load_version
from firthshot.errors import FirthshotError
from firthshot.experiments.plan.cell import FORMAT
from firthshot.experiments.plan.layout import make_plan
from firthshot.experiments.run.folder_spec import open_folder, read_banks
from firthshot.experiments.run.record import Session
from firthshot.experiments.run.status import RunStatus, read_status
from firthshot.experiments.run.store import part_files
from firthshot.experiments.spec.reading import build_spec

TRIALS = "trials"  # the kind of run that trains heads on matched trials
KINDS = (TRIALS, "geometric")


@dataclass(frozen=True)
class BankFacts:
    """A bank as the run recorded it, and what the bank itself still tells."""

    # as recorded when the run began
    name: str
    dataset: str
    backbone: str
    extraction: str
    sha256: str
    path: str  # where it was

    @cached_property
    def bank(self) -> Bank | None:
        """Open the bank, or return None where it is gone or has become another one."""
        for source in (self.path, self.name):
            with contextlib.suppress(FirthshotError, OSError):
                if bank := load_version(source, self.sha256):
                    return bank
        return None

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Ask the doctor; nothing is found about a bank that is gone."""
        return tuple(diagnose(self.bank)) if self.bank else ()


@dataclass(frozen=True)
class Run:
    """One run folder."""

    path: Path
    name: str
    kind: str  # trials or geometric
    # the fields of ``spec.toml``, and its text
    spec: dict[str, Any]
    spec_text: str
    banks: tuple[BankFacts, ...] = ()
    # how far it came, on what machine, and what failed
    status: RunStatus = field(default_factory=RunStatus)
    # what lacks cells, in words ("mini, novel, 5-way, 1-shot, linear, firth")
    missing: tuple[str, ...] = ()

    @property
    def tried(self) -> tuple[BankFacts, ...]:
        """Return the banks that trials are drawn from; those after them only lend statistics."""
        return self.banks[: len(self.spec.get("banks", ())) or None]


def read_run(path: Path) -> Run:
    """Read a run folder, but no rows; refuse one of another kind or version."""
    status = read_status(path)
    kind = str(status.spec.get("kind", TRIALS))
    if kind not in KINDS:
        raise FirthshotError(
            f"{path} holds a run of the kind {kind!r}, which this version does not report: "
            "upgrade firthshot."
        )
    _check_format(path, status.sessions)
    banks = _banks(path) if kind == TRIALS else ()
    missing = () if status.complete else _missing(path, status.spec, banks)
    return Run(path, status.name, kind, status.spec, status.spec_text, banks, status, missing)


def _check_format(path: Path, sessions: Iterable[Session]) -> None:
    for session in sessions:
        if session.format != FORMAT:
            age = "an older" if session.format < FORMAT else "a newer"
            way = "run it again" if session.format < FORMAT else "upgrade firthshot"
            raise FirthshotError(
                f"{path} holds a run of {age} version (firthshot {session.firthshot}, format "
                f"{session.format}, this one reads format {FORMAT}): {way}."
            )


def _banks(path: Path) -> tuple[BankFacts, ...]:
    names = ("dataset", "backbone", "extraction", "sha256", "path")
    return tuple(
        BankFacts(name, **{key: str(record.get(key, "")) for key in names})
        for name, record in read_banks(path).items()
    )


def _missing(path: Path, fields: dict[str, Any], banks: tuple[BankFacts, ...]) -> tuple[str, ...]:
    """Name the settings that lack cells; nothing where the plan cannot be made again."""
    if not banks:  # another kind of run, whose cells are blocks of trials
        return ()
    opened = [facts.bank for facts in banks]
    there = {part.stem for part in part_files(path)}
    lacking: dict[str, list[int]] = {}
    with contextlib.suppress(FirthshotError):
        if None in opened:
            return ()
        spec = build_spec(fields)
        plan = make_plan(spec, [b for b in opened if b], open_folder(path, spec).steps)
        for cell in plan.cells:
            words = f"{cell.condition.words}, {cell.method.head}, {cell.method.family}"
            count = lacking.setdefault(words, [0, 0])
            count[0] += cell.identity not in there
            count[1] += 1
    return tuple(
        words if missing == all_ else f"{words} ({all_ - missing} of {all_} blocks are there)"
        for words, (missing, all_) in lacking.items()
        if missing
    )
