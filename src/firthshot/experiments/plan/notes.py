"""What the report must say of a plan: what was skipped, or done otherwise than asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_ENDINGS = {
    "skipped": "skipped",
    "queries": "all remaining rows are queries",
    "ways": "coefficients are tuned at that many ways",
}


@dataclass(frozen=True)
class Note:
    """A condition that the bank could not hold as asked.

    ``kind`` is ``skipped``, ``queries`` (all remaining rows are queries instead) or ``ways``
    (the coefficient is tuned at fewer ways).
    """

    kind: str
    bank: str
    split: str
    ways: int
    shots: str
    reason: str


def condense(notes: Iterable[Note]) -> list[str]:
    """Return one sentence for all notes of a kind with the same bank and reason."""
    groups: dict[tuple[str, str, str], list[Note]] = {}
    for note in notes:
        groups.setdefault((note.kind, note.bank, note.reason), []).append(note)
    return [_sentence(*key, group) for key, group in groups.items()]


def _sentence(kind: str, bank: str, reason: str, notes: list[Note]) -> str:
    ways = _listed(note.ways for note in notes)
    shots = _listed(note.shots for note in notes)
    splits = _listed(note.split for note in notes)
    noun = "shot" if shots == "1" else "shots"
    return (
        f"{bank}, {splits}, {ways} ways, {shots} {noun}: {reason}, so {_ENDINGS.get(kind, kind)}."
    )


def _listed(values: Iterable[object]) -> str:
    return "/".join(dict.fromkeys(map(str, values)))
