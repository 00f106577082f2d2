"""Shots per class: equal, or one of the named unbalanced schemes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from firthshot.episodes import DirichletShots, Shots
from firthshot.errors import FirthshotError

# The paper's two schemes for 16 classes; 7.5 and 15 shots on average.
SCHEMES: dict[str, tuple[int, ...]] = {
    "unbalanced-8": (2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 16, 16, 16, 16),
    "unbalanced-15": (1, 1, 5, 5, 9, 9, 13, 13, 17, 17, 21, 21, 25, 25, 29, 29),
}
_LABELS = {"unbalanced-8": 8, "unbalanced-15": 15}
_DIRICHLET = re.compile(r"dirichlet-([1-9][0-9]*)")
_MINUS = re.compile(r"([1-9][0-9]*) minus shots")


def shots_in_words(label: int, scheme: str) -> str:
    """Return the shots as people say them: ``5-shot``, or the name of the scheme."""
    return f"{label}-shot" if scheme == "balanced" else scheme


@dataclass(frozen=True)
class ShotPlan:
    """Shots of a cell."""

    label: int  # shots per class as tables name them
    scheme: str  # ``balanced`` or the name of the scheme
    counts: Shots  # what `sample_episodes` is given
    largest: int  # the most rows that one class can get

    def as_plain(self) -> Any:
        """Return the counts as plain data, for the identity of a cell."""
        if isinstance(self.counts, DirichletShots):
            return ("dirichlet", self.counts.mean, self.counts.concentration)
        return self.counts if isinstance(self.counts, int) else tuple(self.counts)


def from_plain(plain: Any) -> Shots:
    """Return what `sample_episodes` is given from `ShotPlan.as_plain`."""
    if isinstance(plain, int):
        return plain
    if plain[0] == "dirichlet":
        return DirichletShots(plain[1], plain[2])
    return tuple(plain)


def plan_shots(shots: int | str, ways: int) -> ShotPlan:
    """Resolve shots, a number or a name, for a number of ways.

    The published schemes have 16 entries. Another number of ways takes entries at even distances,
    so that the imbalance stays the same.
    """
    if isinstance(shots, int):
        return ShotPlan(shots, "balanced", shots, shots)
    dirichlet = _DIRICHLET.fullmatch(shots)
    if dirichlet:
        mean = int(dirichlet[1])
        return ShotPlan(mean, shots, DirichletShots(mean), 1 + (mean - 1) * ways)
    if shots not in SCHEMES:
        raise FirthshotError(
            f"Shots {shots!r} is no number and no scheme: use {', '.join(SCHEMES)} or "
            "dirichlet-MEAN."
        )
    pattern = SCHEMES[shots]
    counts = tuple(pattern[i * len(pattern) // ways] for i in range(ways))
    return ShotPlan(_LABELS[shots], shots, counts, max(counts))


def is_query_rule(queries: int | str) -> bool:
    """Tell whether this is a number, "rest" or "N minus shots"."""
    return isinstance(queries, int) or queries == "rest" or bool(_MINUS.fullmatch(queries))


def asked_queries(queries: int | str, planned: ShotPlan) -> int | str:
    """Return a query rule as a number of queries per class, or "rest"."""
    minus = _MINUS.fullmatch(queries) if isinstance(queries, str) else None
    return int(minus[1]) - planned.largest if minus else queries
