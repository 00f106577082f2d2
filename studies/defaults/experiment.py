"""Settle the default λ and l2 of FirthClassifier on base and validation classes of real banks.

Nothing here looks at novel classes. The cells and numbers of trials are those below, the methods
those of `rules`.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from firthshot.arrays import Array
from firthshot.banks import Bank
from firthshot.episodes import Episode, sample_episodes
from firthshot.estimators._linear import FirthClassifier
from studies.defaults.trials import KINDS, scores
from studies.parts import placed, write_table

SPLITS = ("base", "val")
WAYS = (2, 5, 10, 20, 30, 60, 100)  # those that the split holds
SHOTS = (1, 2, 5, 10, 20)
TRIALS = 2000
TWO_WAY_TRIALS = 10_000  # of 60 queries each, which leave the widest intervals
FEW_TRIALS = 200  # of the whole grid, of the cosine head, and of support sets of more than
MANY_ROWS = 600
WIDE_ROWS = 150  # the whole grid is trained on support sets up to this size
QUERIES = 30  # per class
BLOCK = 50
SCORES = ("accuracy", "nll", "ece")
CELL = ["bank", "split", "ways", "shots"]


@dataclass(frozen=True)
class Cell:
    """Trials that are counted together."""

    bank: Bank
    split: str
    ways: int
    shots: int

    @property
    def rows(self) -> int:
        """Return the size of the support set."""
        return self.ways * self.shots

    def part(self, folder: Path, kind: str, block: int) -> Path:
        """Return the file of one block of trials."""
        name = f"{self.bank.name}-{self.split}-{self.ways}-{self.shots}-{kind}-{block:03d}.parquet"
        return folder / name


def cells(banks: list[Bank], only_ways: list[int] | None = None) -> list[Cell]:
    """Return every cell that the banks hold, or those of some numbers of ways."""
    return [
        Cell(bank, split, ways, shots)
        for bank in banks
        for split in SPLITS
        if split in bank.splits
        for ways in only_ways or WAYS
        if ways <= len(bank.classes(split))
        for shots in SHOTS
        if min(map(len, bank.class_rows(split))) >= shots + QUERIES
    ]


def full_number(cell: Cell, kind: str) -> int:
    """Return how many trials a cell is to have."""
    if kind != "core" or cell.rows > MANY_ROWS:
        return FEW_TRIALS
    return TWO_WAY_TRIALS if cell.ways == 2 else TRIALS


def run(
    chosen: list[Cell], folder: Path, trials: int | None, kinds: list[str], threads: int
) -> None:
    """Fill in whatever part is missing: first a few trials of every cell, then more."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = planned(chosen, trials, kinds)
    with threadpool_limits(limits=1), ThreadPoolExecutor(threads) as pool:
        for cell, kind, block in wanted:
            path = cell.part(folder, kind, block)
            if not path.exists():
                start = time.perf_counter()
                train_part(cell, kind, block, path, pool)
                seconds = time.perf_counter() - start
                print(f"{path.stem}: {seconds:.1f} s", flush=True)
    print(f"All {len(wanted)} parts are there.")


def planned(
    chosen: list[Cell], trials: int | None, kinds: list[str]
) -> list[tuple[Cell, str, int]]:
    """Return all parts in an order in which every cell soon has some trials.

    Cheap cells run ahead of dear ones, and the few methods of the table ahead of the whole grid.
    """
    parts = [
        (cell, kind, block)
        for cell in chosen
        for kind in kinds
        if cell.rows <= {"core": np.inf, "cosine": MANY_ROWS, "wide": WIDE_ROWS}[kind]
        for block in range(-(-min(trials or TWO_WAY_TRIALS, full_number(cell, kind)) // BLOCK))
    ]
    return sorted(parts, key=_turn)


def _turn(part: tuple[Cell, str, int]) -> float:
    cell, kind, block = part
    return float((10 if kind == "wide" else 1) * (cell.rows * cell.ways) ** 0.25 * (block + 1))


def train_part(cell: Cell, kind: str, block: int, path: Path, pool: ThreadPoolExecutor) -> None:
    """Train and score a block of trials, and write its file."""
    numbers = list(range(block * BLOCK, (block + 1) * BLOCK))
    episodes = sample_episodes(
        cell.bank, cell.split, ways=cell.ways, shots=cell.shots, trials=numbers, queries=QUERIES
    )
    found = list(pool.map(lambda t: trial_scores(cell, kind, episodes[t]), range(BLOCK)))
    names = found[0][0]
    values = np.stack([scored for _, scored in found])  # (trials, 3, methods)
    columns = {score: values[:, at].ravel() for at, score in enumerate(SCORES)}
    table = pl.DataFrame(
        {"trial": np.repeat(numbers, len(names)), "method": names * BLOCK, **columns}
    )
    place = (cell.bank.name, cell.split, cell.ways, cell.shots)
    write_table(path, placed(table, dict(zip(CELL, place, strict=True))))


def trial_scores(cell: Cell, kind: str, episode: Episode) -> tuple[list[str], Array]:
    """Return the methods' names and their scores, shape (3, methods)."""
    features = cell.bank.features
    X, Q = (features[rows].astype(np.float64) for rows in (episode.support, episode.query))
    logits = KINDS[kind](X, episode.support_labels, Q, cell.ways)
    return list(logits), scores(list(logits.values()), episode.query_labels)


def check_against_sklearn(bank: Bank, trials: int = 20) -> None:
    """Compare λ = 0, l2 = 1 with scikit-learn's own on some trials of each of three cells."""
    from sklearn.linear_model import LogisticRegression

    worst, others = 0.0, 0
    for ways, shots in ((2, 5), (5, 1), (20, 5)):
        episodes = sample_episodes(
            bank, "val", ways=ways, shots=shots, trials=trials, queries=QUERIES
        )
        for t in range(trials):
            one = episodes[t]
            X, Q = (bank.features[rows].astype(np.float64) for rows in (one.support, one.query))
            ours = FirthClassifier(lam=0.0, l2=1.0, calibrate=False).fit(X, one.support_labels)
            theirs = LogisticRegression(tol=1e-8, max_iter=1000).fit(X, one.support_labels)
            gap = np.abs(ours.predict_proba(Q) - theirs.predict_proba(Q)).max()
            worst = max(worst, float(gap))
            others += int((ours.predict(Q) != theirs.predict(Q)).sum())
    print(
        f"λ = 0, l2 = 1 against scikit-learn: largest difference of a probability {worst:.1e}, "
        f"{others} different predictions."
    )
