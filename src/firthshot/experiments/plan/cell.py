"""A cell: a few seconds of work, wholly described, and known by the hash of its description."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from firthshot.banks import DEALT, Bank
from firthshot.experiments.schema import grouped
from firthshot.experiments.spec.methods import Method
from firthshot.experiments.spec.shots import shots_in_words

FORMAT = 1  # raise it when the same cell would give other rows


class TrialCondition(msgspec.Struct, frozen=True):
    """On what it is trained: bank, split, ways, shots and the rules of the query set."""

    bank: str
    sha256: str
    split: str
    transform: str
    ways: int
    actual_ways: int
    shots: int
    scheme: str
    counts: Any
    queries: int | str
    fixed_query: bool
    first_classes: bool

    @property
    def query_rule(self) -> str:
        """Return the query rule in words."""
        return f"{self.queries} fixed" if self.fixed_query else str(self.queries)

    @property
    def words(self) -> str:
        """Return the condition as people say it."""
        shots = shots_in_words(self.shots, self.scheme)
        return f"{self.bank}, {self.split}, {self.ways}-way, {shots}"


class Cell(msgspec.Struct, frozen=True, dict=True):
    """A method on a block of trials of a condition."""

    condition: TrialCondition
    method: Method
    first: int
    stop: int
    dtype: str
    format: int = FORMAT

    @cached_property
    def identity(self) -> str:
        """Return the hash of the resolved content, 32 hexadecimal digits."""
        content = msgspec.json.encode(self, order="deterministic")
        return hashlib.sha256(content).hexdigest()[:32]

    @property
    def source(self) -> str:
        """Return the name of the bank that Distribution Calibration asks, "" without it."""
        return self.method.calibration.source if self.method.calibration else ""

    @property
    def classifiers(self) -> int:
        """Return how many classifiers the cell trains at most."""
        per_trial = len(self.method.coefficients) + self.method.theory
        return (self.stop - self.first) * per_trial

    @property
    def words(self) -> str:
        """Return the cell as people say it."""
        drawn = self.method.calibration
        how = f"{drawn.artificial} artificial rows per class, " if drawn else ""
        return (
            f"{self.condition.words}, {self.method.head}, {self.method.family}, {how}"
            f"trials {self.first} to {self.stop - 1}"
        )

    def keys(self, bank: Bank) -> dict[str, Any]:
        """Return the key columns of the cell's rows, in the order of `schema.KEYS`."""
        condition, method = self.condition, self.method
        return {
            "bank": condition.bank,
            "dataset": bank.meta.dataset,
            "backbone": bank.meta.backbone,
            "extraction": bank.meta.extraction,
            "split": condition.split,
            "transform": condition.transform,
            "head": method.head,
            "solver": method.solver,
            "penalty": method.family,
            "prior": method.prior,
            "l2_kind": method.l2_kind,
            "l2": method.l2,
            "ways": condition.ways,
            "actual_ways": condition.actual_ways,
            "shots": condition.shots,
            "shots_scheme": condition.scheme,
            "query_rule": condition.query_rule,
            "source": self.source,
            "artificial": method.calibration.artificial if method.calibration else 0,
        }


_ENDINGS = {
    "skipped": "skipped",
    "queries": "all remaining rows are queries",
    "ways": "coefficients are tuned at that many ways",
}


@dataclass(frozen=True)
class Note:
    """A condition that the bank could not hold as asked.

    ``kind`` is ``skipped``, ``queries`` (all remaining rows are queries instead), ``ways`` (the
    coefficient is tuned at fewer ways) or ``dealt`` (novel classes became validation classes).
    """

    kind: str
    bank: str
    split: str
    ways: int
    shots: str
    reason: str


def condense(notes: Iterable[Note]) -> list[str]:
    """Return one sentence for all notes of a kind with the same bank and reason."""
    groups = grouped(notes, lambda note: (note.kind, note.bank, note.reason))
    return [_sentence(*key, group) for key, group in groups.items()]


def _sentence(kind: str, bank: str, reason: str, notes: list[Note]) -> str:
    if kind == DEALT:
        return f"{bank} has no validation classes: {reason}."
    ways = _listed(note.ways for note in notes)
    shots = _listed(note.shots for note in notes)
    splits = _listed(note.split for note in notes)
    noun = "shot" if shots == "1" else "shots"
    return (
        f"{bank}, {splits}, {ways} ways, {shots} {noun}: {reason}, so {_ENDINGS.get(kind, kind)}."
    )


def _listed(values: Iterable[object]) -> str:
    return "/".join(dict.fromkeys(map(str, values)))
