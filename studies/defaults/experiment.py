"""Settle the default λ and l2 of FirthClassifier on base and validation classes of real banks.

    python -m studies.defaults run      trains; may be interrupted and started again
    python -m studies.defaults table    writes studies/defaults/results.csv, fills in the tables
                                             of studies/defaults/README.md
    python -m studies.defaults check    compares λ = 0, l2 = 1 with scikit-learn

Nothing here looks at novel classes. The cells, methods and numbers of trials are those below.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from firthshot.banks import Bank, list_banks, load_bank
from firthshot.engine.heads.centroid import class_means
from firthshot.engine.heads.least_squares import LOGIT_GAP, ridge_regression
from firthshot.engine.results import RELIABILITY_BINS
from firthshot.engine.scoring import score_queries
from firthshot.episodes import Episode, sample_episodes
from firthshot.estimators._cosine import FirthCosineClassifier
from firthshot.estimators._linear import FirthClassifier
from firthshot.estimators._support import Support, scale_l2

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
TOLERANCE = 1e-5
BASELINE = "LogisticRegression()"
COSINE = "FirthCosineClassifier()"
SCORES = ("accuracy", "nll", "ece")


@dataclass(frozen=True)
class Facts:
    """What a rule may know of a support set: classes, rows, and the spread of the rows.

    The spread v is the mean squared distance of the rows from their mean (the trace of their
    covariance S). It has the unit of l2, so that l2 = c v gives the same predictions whatever the
    scale of the features. ``scale`` is the l2 that the estimator makes of them.
    """

    classes: int
    rows: int
    spread: float
    scale: float

    @property
    def shots(self) -> float:
        """Return the rows per class, on average."""
        return self.rows / self.classes


Rule = Callable[[Facts], tuple[float, float]]
RIDGES: dict[str, Callable[[Facts], float]] = {
    "1": lambda _: 1.0,
    "3 v": lambda f: 3 * f.spread,
    "v": lambda f: f.spread,
    "v share": lambda f: f.scale,
    "v/√shots": lambda f: f.spread / np.sqrt(f.shots),
    "v/shots": lambda f: f.spread / f.shots,
    "0.3 v": lambda f: 0.3 * f.spread,
    "0.1 v": lambda f: 0.1 * f.spread,
    "0.001 v": lambda f: 0.001 * f.spread,
}
LAMBDAS: dict[str, Callable[[Facts], float]] = {
    **{f"{value:g}": lambda _, value=value: value for value in (0.0, 0.1, 0.3, 1.0, 3.0)},
    "1/shots": lambda f: 1 / f.shots,
    "1/shots²": lambda f: 1 / f.shots**2,
    "K/2": lambda f: f.classes / 2,
}
DEFAULT = ("1/shots²", "v share")


def rule(lam: str, l2: str) -> Rule:
    return lambda facts: (LAMBDAS[lam](facts), RIDGES[l2](facts))


def named(lam: str, l2: str) -> str:
    return f"λ = {lam}, l2 = {l2}"


# Trained in every cell with 2,000 trials.
CORE: dict[str, Rule] = {
    BASELINE: lambda _: (0.0, 1.0),
    named(*DEFAULT): rule(*DEFAULT),
    named("0", DEFAULT[1]): rule("0", DEFAULT[1]),
    named("1", DEFAULT[1]): rule("1", DEFAULT[1]),
}
# LogisticRegression() on features times ten has l2 = 1/100 on these, and the other way round.
SCALED: dict[str, Rule] = {
    "LogisticRegression(), features × 10": lambda _: (0.0, 0.01),
    "LogisticRegression(), features × 0.1": lambda _: (0.0, 100.0),
}
WIDE: dict[str, Rule] = {
    BASELINE: CORE[BASELINE],
    **SCALED,
    **{named(lam, l2): rule(lam, l2) for l2 in RIDGES for lam in LAMBDAS},
}


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


def real_banks(names: list[str]) -> list[Bank]:
    """Return the banks of these names, or all that can be found, each name once."""
    found: dict[str, Bank] = {}
    for entry in list_banks():
        if entry.bank is not None and (not names or entry.name in names):
            found.setdefault(entry.name, entry.bank)
    return list(found.values())


# One trial


def facts_of(support: Support) -> Facts:
    rows = len(support.weights)
    return Facts(support.n_classes, rows, support.moments.spread, scale_l2(support))


def support_of(X: np.ndarray, y: np.ndarray, ways: int) -> Support:
    return Support(X, y, np.ones(len(y)), np.full(ways, 1 / ways))


def core_trial(
    X: np.ndarray, y: np.ndarray, Q: np.ndarray, ways: int
) -> tuple[list[str], list[np.ndarray]]:
    """Return the names of the methods and their logits of the queries."""
    head, support = FirthClassifier(tol=TOLERANCE), support_of(X, y, ways)
    facts = facts_of(support)
    path = [make(facts) for make in CORE.values()]
    fits = head._fit_path(support, path)
    names, logits = list(CORE), [head._logits(Q, fit.parameters) for fit in fits]
    default = list(CORE).index(named(*DEFAULT))
    head.lam_, head.l2_ = path[default]
    names.append("default: calibrated")
    logits.append(logits[default] / head._fit_temperature(support, fits[default]))
    for name, more in rivals(X, y, Q, ways, facts).items():
        names.append(name)
        logits.append(more)
    return names, logits


def rivals(
    X: np.ndarray, y: np.ndarray, Q: np.ndarray, ways: int, facts: Facts
) -> dict[str, np.ndarray]:
    """Return the logits of the closed forms: least squares and the nearest class mean."""
    targets = np.eye(ways)[y] - 1 / ways
    found = {}
    for name, ridge in (("least squares, ridge 1", 1.0), ("least squares, ridge v", facts.spread)):
        coef, intercept = ridge_regression(X, targets, ridge)
        found[name] = LOGIT_GAP * (Q @ coef.T + intercept)
    means = class_means(X, y, ways)
    found["nearest class mean"] = Q @ means.T - 0.5 * (means**2).sum(1)
    return found


def wide_trial(
    X: np.ndarray, y: np.ndarray, Q: np.ndarray, ways: int
) -> tuple[list[str], list[np.ndarray]]:
    """Return the whole grid of the linear head."""
    head, support = FirthClassifier(tol=TOLERANCE), support_of(X, y, ways)
    facts = facts_of(support)
    fits = head._fit_path(support, [make(facts) for make in WIDE.values()])
    return list(WIDE), [head._logits(Q, fit.parameters) for fit in fits]


def scores(logits: list[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """Return accuracy, nll and ECE of every method, shape (3, methods)."""
    n, ways = logits[0].shape
    padded = -(-n // 16) * 16
    stacked = np.zeros((ways, len(logits), padded))
    for l, z in enumerate(logits):
        stacked[:, l, :n] = (z - z.max(axis=1, keepdims=True)).T
    column_labels = np.full(padded, -1)
    column_labels[:n] = labels
    accuracy, nll, brier, ece = (np.empty(len(logits)) for _ in range(4))
    bins = np.empty((len(logits), RELIABILITY_BINS, 3))
    predicted = np.empty((len(logits), padded), np.int32)
    score_queries(stacked, column_labels, predicted, accuracy, nll, brier, ece, bins)
    return np.stack([accuracy, nll, ece])


# Running


def cosine_trial(
    X: np.ndarray, y: np.ndarray, Q: np.ndarray, ways: int
) -> tuple[list[str], list[np.ndarray]]:
    """Return the logits of FirthCosineClassifier() as it is, beside the baseline."""
    (plain,) = FirthClassifier(tol=TOLERANCE)._fit_path(support_of(X, y, ways), [(0.0, 1.0)])
    head = FirthCosineClassifier(tol=TOLERANCE).fit(X, y)
    baseline = FirthClassifier()._logits(Q, plain.parameters)
    return [BASELINE, COSINE], [baseline, head.predict_log_proba(Q)]


KINDS = {"core": core_trial, "cosine": cosine_trial, "wide": wide_trial}


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
    numbers = range(block * BLOCK, (block + 1) * BLOCK)
    episodes = sample_episodes(
        cell.bank, cell.split, ways=cell.ways, shots=cell.shots, trials=list(numbers),
        queries=QUERIES,
    )  # fmt: skip
    found = list(pool.map(lambda t: trial_scores(cell, kind, episodes[t]), range(BLOCK)))
    names = found[0][0]
    values = np.stack([scored for _, scored in found])  # (trials, 3, methods)
    table = pl.DataFrame(
        {
            "trial": np.repeat(list(numbers), len(names)),
            "method": names * BLOCK,
            **{score: values[:, at].ravel() for at, score in enumerate(SCORES)},
        }
    ).select(
        pl.lit(cell.bank.name).alias("bank"), pl.lit(cell.split).alias("split"),
        pl.lit(cell.ways).alias("ways"), pl.lit(cell.shots).alias("shots"), pl.all(),
    )  # fmt: skip
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    table.write_parquet(temporary)
    temporary.replace(path)


def trial_scores(cell: Cell, kind: str, episode: Episode) -> tuple[list[str], np.ndarray]:
    """Return the methods' names and their scores, shape (3, methods)."""
    features = cell.bank.features
    X, Q = (features[rows].astype(np.float64) for rows in (episode.support, episode.query))
    names, logits = KINDS[kind](X, episode.support_labels, Q, cell.ways)
    return names, scores(logits, episode.query_labels)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "table", "check"])
    parser.add_argument("--bank", action="append", default=[], help="only this bank; repeatable")
    parser.add_argument("--ways", type=int, action="append", help="only these; repeatable")
    parser.add_argument("--trials", type=int, help="at most so many; all that are listed if not")
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--parts", type=Path, default=Path("runs/choosing-lambda"))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.csv"))
    arguments = parser.parse_args()
    if arguments.what == "run":
        run(
            cells(real_banks(arguments.bank), arguments.ways),
            arguments.parts,
            arguments.trials,
            arguments.kind or list(KINDS),
            arguments.threads,
        )
    elif arguments.what == "check":
        check_against_sklearn(load_bank("clinc150-minilm"))
    else:
        from studies.defaults.tables import write_tables

        write_tables(arguments.parts, arguments.out)


if __name__ == "__main__":
    main()
