"""Which trials the study draws: classes, shots and queries of every setting."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from studies.few_shot.sources import Source

WAYS, SHOTS = (2, 5, 20, 50), (1, 2, 5, 10, 20)
TABLE_SHOTS = (2, 5, 10, 20)
MOST_ROWS = 500  # of a support set: 50 ways stop at 10 shots
# Shots of the classes, dealt to them again and again.
UNEQUAL = {"2-16": (2, 4, 8, 16), "one-rich": (20, 2, 2, 2, 2), "1-25": (1, 2, 5, 11, 25)}
UNEQUAL_WAYS = (2, 5, 20)
# Settings that are run first: with little time they have many trials and the others few.
CORE = (
    {f"2x{s}" for s in (1, 5)}
    | {f"{k}x{s}" for k in (5, 20) for s in (1, 2, 5, 20)}
    | {"50x1", "50x5"}
    | {f"{k}x{shape}" for k in (5, 20) for shape in ("2-16", "1-25")}
    | {"5x2-16-like-shots", "20x1-25-like-shots", "5xone-rich", "2xone-rich-like-shots"}
)
QUERIES = 15  # a class
FEWEST_QUERIES = 5


@dataclass(frozen=True)
class Setting:
    """One line of the table.

    Attributes
    ----------
    shots : of every class
    shape : "equal", or the name of unequal shots
    like_shots : whether queries come in the proportions of the shots
    """

    source: str
    ways: int
    shots: tuple[int, ...]
    shape: str
    like_shots: bool = False

    @property
    def name(self) -> str:
        """Name the setting in file names and tables."""
        shape = str(self.shots[0]) if self.shape == "equal" else self.shape
        return f"{self.ways}x{shape}" + ("-like-shots" if self.like_shots else "")


@dataclass(frozen=True)
class Trial:
    """A support set and queries."""

    X: np.ndarray
    y: np.ndarray
    Q: np.ndarray
    truth: np.ndarray


def settings(source: Source) -> Iterator[Setting]:
    """Yield every setting that a source has enough classes and rows for."""
    classes = len(source.counts)
    ways = sorted({min(w, classes) for w in WAYS if source.table or w <= classes})
    if source.table:
        ways = [classes]
    for k in ways:
        for shots in TABLE_SHOTS if source.table else SHOTS:
            if k * shots <= MOST_ROWS and _enough(source, k, (shots,) * k):
                yield Setting(source.name, k, (shots,) * k, "equal")
    for k in ways if source.table else [w for w in UNEQUAL_WAYS if w <= classes]:
        for shape, cycle in UNEQUAL.items():
            shots_of = tuple(cycle[i % len(cycle)] for i in range(k))
            if k == 2:
                shots_of = (max(cycle), min(cycle))
            if not _enough(source, k, shots_of):
                continue
            yield Setting(source.name, k, shots_of, shape)
            if not source.table:
                yield Setting(source.name, k, shots_of, shape, like_shots=True)


def _enough(source: Source, ways: int, shots: tuple[int, ...]) -> bool:
    """Tell whether ``ways`` classes have the most shots and five queries."""
    return int((source.counts >= max(shots) + FEWEST_QUERIES).sum()) >= ways


def draw(source: Source, setting: Setting, trial: int, final: bool) -> Trial:
    """Draw one trial; it depends on names and numbers alone."""
    words = f"{source.name} {setting.name} {final}"
    random = np.random.default_rng([zlib.crc32(words.encode()), trial])
    able = np.flatnonzero(source.counts >= max(setting.shots) + FEWEST_QUERIES)
    classes = random.permutation(able)[: setting.ways]
    left = [random.permutation(np.flatnonzero(source.y == k)) for k in classes]
    support = [rows[:n] for rows, n in zip(left, setting.shots, strict=True)]
    queries = [
        rows[n : n + m]
        for rows, n, m in zip(left, setting.shots, _queries(setting, left), strict=True)
    ]
    X, y = _gather(source, support)
    Q, truth = _gather(source, queries)
    return Trial(X, y, Q, truth)


def _queries(setting: Setting, left: list[np.ndarray]) -> list[int]:
    """Return the number of queries of every class: equal, or in proportion to the shots."""
    spare = [len(rows) - n for rows, n in zip(left, setting.shots, strict=True)]
    if not setting.like_shots:
        return [min(QUERIES, *spare)] * setting.ways
    factor = min(1.0, *(room / n for room, n in zip(spare, setting.shots, strict=True)))
    return [max(1, round(factor * n)) for n in setting.shots]


def _gather(source: Source, rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    labels = np.repeat(np.arange(len(rows)), [len(one) for one in rows])
    return source.X[np.concatenate(rows)], labels
