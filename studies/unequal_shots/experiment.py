"""Run Firth beside class weights and corrected logits where classes have unequal shots.

python -m studies.unequal_shots run      trains; may be interrupted and started again
python -m studies.unequal_shots table    writes results.csv and the tables of README.md
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from firthshot.banks import Bank
from firthshot.engine import Linear, Penalty, paper_sgd, train
from firthshot.episodes import Episode, sample_episodes
from firthshot.estimators._linear import FirthClassifier
from firthshot.estimators._support import Support, scale_l2, weigh_classes
from firthshot.experiments.spec.shots import SCHEMES, plan_shots
from firthshot.experiments.statistics import ALPHA, SAME_MEAN, half_width, holm, wilcoxon
from firthshot.objective import log_softmax
from firthshot.report.wording import points
from studies.defaults.experiment import TOLERANCE, facts_of, real_banks, rivals, support_of
from studies.defaults.tables import insert
from studies.words import coefficient, gain, number, percent, short, span
from studies.words import table as markdown

WAYS, QUERIES, BLOCK = 16, 15, 50  # queries per class; trials per file
TRIALS = {"val": 200, "novel": 300}
LAMBDAS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)  # of the correction: as many as λ
# Batches in the order of the classes, as the preset `imbalanced` has them.
SGD = replace(paper_sgd(Linear()), shuffle=False)
HEADS = SCALE, ONE, PAPER = "l2 scale", "l2 1", "SGD"
READY, AS_IT_IS = "ready", "FirthClassifier(), "  # what has no coefficient to choose
PLAIN, WEIGHTED, CORRECTED = "plain", "weighted", "corrected"
MATCHED, STRENGTH = "matched", "strength"  # corrections for Firth's own targets, and by a share
SCORES = ("accuracy", "fewest", "most", "alike", "nll", "alike_nll")
TESTED, KEYS = ("accuracy", "alike"), ("head", "treatment", "coefficient")
MEANS, AT_CHANCE = "nearest class mean", "mini-resnet10-bn-train-sorted"
# Treatment, and the score by which its coefficient is chosen on val (None: 0 is taken).
METHODS: dict[str, tuple[str, str | None]] = {
    "nothing": (PLAIN, None),
    "Firth": (PLAIN, "accuracy"),
    "weights": (WEIGHTED, None),
    "weights and Firth": (WEIGHTED, "accuracy"),
    "correction": (CORRECTED, None),
    "correction and Firth": (CORRECTED, "accuracy"),
    "matched correction and Firth": (MATCHED, "accuracy"),
    "correction of chosen strength": (STRENGTH, "accuracy"),
    "Firth for such queries": (PLAIN, "alike"),
    "correction for such queries": (STRENGTH, "alike"),
}
PAIRS = (  # the first seven have a column in the table of all cells
    ("Firth", "nothing"), ("weights", "nothing"), ("correction", "nothing"), ("Firth", "weights"),
    ("Firth", "correction"), ("weights and Firth", "weights"),
    ("matched correction and Firth", "correction"), ("correction and Firth", "correction"),
    ("Firth", "correction of chosen strength"), ("Firth", MEANS), ("weights", "correction"),
    ("Firth for such queries", "nothing"), ("Firth for such queries", "correction for such queries")
)  # fmt: skip
Key = tuple[str, str, float]  # head, treatment, coefficient: λ, or the strength of a correction


def correct(logits: np.ndarray, shares: np.ndarray, strength: float = 1.0) -> np.ndarray:
    """Take the log of the classes' shares, times a strength, off the logits (..., K).

    Bayes' rule: what fits classes of these shares then speaks of equally frequent ones.
    """
    return np.asarray(logits - strength * np.log(shares))


def fitted_shares(shares: np.ndarray, lam: float) -> np.ndarray:
    """Return the mean probabilities of the classes that a head with λ is fitted to.

    CE + λ KL(u‖p) is 1 + λ times the cross-entropy to targets (label + λ u) / (1 + λ), and a free
    intercept makes the mean probability of each class that of its targets. Firth has then undone
    a part of the imbalance itself.
    """
    return np.asarray((shares + lam / len(shares)) / (1 + lam))


def scores(logits: np.ndarray, labels: np.ndarray, shots: np.ndarray) -> np.ndarray:
    """Return the scores of every method, (methods, 6), from logits (methods, queries, K).

    Accuracy on the queries, which are balanced, of the classes with the fewest and with the most
    shots, and with queries weighted as frequent as the shots; nll of the first and of the last.
    """
    of_class = np.eye(len(shots))[labels] / np.bincount(labels)[labels][:, None]  # (queries, K)
    right = (logits.argmax(-1) == labels) @ of_class  # (methods, K)
    surprise = -log_softmax(logits)[:, np.arange(len(labels)), labels] @ of_class
    share = shots / shots.sum()
    fewest, most = (right[:, shots == count].mean(1) for count in (shots.min(), shots.max()))
    columns = (right.mean(1), fewest, most, right @ share, surprise.mean(1), surprise @ share)
    return np.stack(columns, axis=1)


def converged(X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> dict[Key, np.ndarray]:
    """Return the logits of the linear head at its optimum: two ridges, with and without weights."""
    head, found = FirthClassifier(tol=TOLERANCE), {}
    plain = support_of(X, y, WAYS)
    balanced = weigh_classes("balanced", np.arange(WAYS), y, plain.weights)
    for treatment, weights in ((PLAIN, plain.weights), (WEIGHTED, balanced)):
        support = Support(X, y, weights, plain.prior)
        path = {(SCALE, lam): (lam, scale_l2(support)) for lam in LAMBDAS}
        path |= {(ONE, lam): (lam, 1.0) for lam in LAMBDAS}
        fits = head._fit_path(support, list(path.values()))
        for (name, lam), fit in zip(path, fits, strict=True):
            found[name, treatment, lam] = head._logits(Q, fit.parameters)
    return found


def ready(X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> dict[Key, np.ndarray]:
    """Return the logits of what needs no choice: estimators as they are, and closed forms."""
    found, shares = {}, np.bincount(y) / len(y)
    for treatment, weight in ((PLAIN, None), (WEIGHTED, "balanced")):
        head = FirthClassifier(class_weight=weight, tol=TOLERANCE).fit(X, y)
        found[AS_IT_IS + treatment] = head.predict_log_proba(Q)
        if weight is None:  # before and after the temperature is not the same correction
            found[AS_IT_IS + CORRECTED] = correct(head.decision_function(Q), shares)
            found[AS_IT_IS + "log p corrected"] = correct(head.predict_log_proba(Q), shares)
    closed = rivals(X, y, Q, WAYS, facts_of(support_of(X, y, WAYS)))
    found |= {name: closed[name] for name in (MEANS, "least squares, ridge v")}
    return {(READY, name, 0.0): logits for name, logits in found.items()}


def trial_scores(
    features: np.ndarray, episode: Episode, sgd: dict[str, np.ndarray]
) -> tuple[list[Key], np.ndarray]:
    """Return the methods of a trial and their scores; ``sgd`` are the paper's heads, one per λ."""
    X, Q = (features[rows].astype(np.float64) for rows in (episode.support, episode.query))
    y, shots = episode.support_labels, np.bincount(episode.support_labels)
    found, shares = converged(X, y, Q), shots / len(y)
    # From weights and not from probabilities, which round to zero where features are large.
    logits = Q @ sgd["coef"].transpose(0, 2, 1) + sgd["intercept"][:, None]
    found |= {(PAPER, PLAIN, lam): logits[l] for l, lam in enumerate(LAMBDAS)}
    for head in HEADS:
        for lam in LAMBDAS:
            plain = found[head, PLAIN, lam]
            found[head, CORRECTED, lam] = correct(plain, shares)
            found[head, MATCHED, lam] = correct(plain, fitted_shares(shares, lam))
        for strength in STRENGTHS:
            found[head, STRENGTH, strength] = correct(found[head, PLAIN, 0.0], shares, strength)
    found |= ready(X, y, Q)
    return list(found), scores(np.stack(list(found.values())), episode.query_labels, shots)


def run(banks: list[Bank], folder: Path) -> None:
    """Fill in whatever part is missing, in an order in which every cell soon has some trials."""
    folder.mkdir(parents=True, exist_ok=True)
    blocks = range(max(TRIALS.values()) // BLOCK)
    for block, bank, scheme, split in product(blocks, banks, SCHEMES, TRIALS):
        path = folder / f"{bank.name}-{scheme}-{split}-{block:03d}.parquet"
        if block * BLOCK < TRIALS[split] and not path.exists():
            start = time.process_time()
            train_part(bank, scheme, split, block, path)
            print(f"{path.stem}: {time.process_time() - start:.1f} s of the processor", flush=True)


def train_part(bank: Bank, scheme: str, split: str, block: int, path: Path) -> None:
    """Train and score a block of trials, and write its file at once."""
    trials, shots = list(range(block * BLOCK, (block + 1) * BLOCK)), plan_shots(scheme, WAYS)
    # The smallest class of both splits must have as many left beside the most shots.
    smallest = min(len(rows) for split in TRIALS for rows in bank.class_rows(split))
    queries = min(QUERIES, smallest - shots.largest)
    episodes = sample_episodes(
        bank, split, ways=WAYS, shots=shots.counts, trials=trials, queries=queries
    )
    penalty, keep = Penalty("firth", LAMBDAS), ("weights",)
    sgd = train(bank.features, episodes, Linear(), SGD, penalty, threads=1, keep=keep)
    if sgd.problems():
        raise RuntimeError(sgd.problems()[0])
    found = [trial_scores(bank.features, episodes[t], sgd.kept["weights"][t]) for t in range(BLOCK)]
    keys, values = found[0][0], np.concatenate([scored for _, scored in found])
    columns = {name: [key[at] for key in keys * BLOCK] for at, name in enumerate(KEYS)}
    columns |= {score: values[:, at] for at, score in enumerate(SCORES)}
    place = {"bank": bank.name, "scheme": scheme, "split": split}
    table = pl.DataFrame({"trial": np.repeat(trials, len(keys)), **columns}).select(
        *(pl.lit(value).alias(name) for name, value in place.items()), pl.all()
    )
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    table.write_parquet(temporary)
    temporary.replace(path)


def choose(grid: Sequence[float], means: Sequence[float]) -> float:
    """Return the coefficient with the best mean on val, of equal ones the smaller."""
    return min(at for at, mean in zip(grid, means, strict=True) if mean >= max(means) - SAME_MEAN)


def settle(cell: pl.DataFrame) -> dict[tuple[str, str], tuple[float, pl.DataFrame]]:
    """Return, for every head and method of a cell, its coefficient and its novel trials."""
    trials = cell.sort("trial").partition_by("split", *KEYS, as_dict=True)
    found = {key[1:3]: (0.0, trials[key]) for key in trials if key[:2] == ("novel", READY)}
    for head in HEADS:
        found[head, MEANS] = found[READY, MEANS]
        for name, (treatment, score) in METHODS.items():
            if ("val", head, treatment, 0.0) in trials:  # the engine's SGD takes no class weights
                grid = STRENGTHS if treatment == STRENGTH else LAMBDAS if score else (0.0,)
                val = [trials["val", head, treatment, at] for at in grid]
                at = choose(grid, [one[score or "accuracy"].mean() for one in val])
                found[head, name] = at, trials["novel", head, treatment, at]
    return found


def summarise(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the means of every cell and method, and of the paired differences of `PAIRS`.

    A line with ``against`` holds differences; p-values are corrected over all of them together.
    """
    lines = []
    for (bank, scheme), cell in rows.group_by("bank", "scheme", maintain_order=True):
        found = settle(cell)
        pairs = [((head, one), (head, other)) for head in HEADS for one, other in PAIRS]
        pairs += [(key, (ONE, "nothing")) for key in found if key[1].startswith(AS_IT_IS)]
        for one, other in [*((key, None) for key in found), *pairs]:
            if one not in found or other not in {*found, None}:
                continue
            at, novel = found[one]
            line = {"bank": bank, "scheme": scheme, "head": one[0], "method": one[1]}
            against = "LogisticRegression()" if other and one[0] == READY else other and other[1]
            line |= {"against": against, "coefficient": at, "trials": novel.height}
            for score in SCORES:
                values = novel[score] - (found[other][1][score] if other else 0.0)
                line |= {score: values.mean(), f"{score}_ci": half_width(values.to_numpy())}
                if score in TESTED:
                    line[f"{score}_p"] = wilcoxon(values.to_numpy()) if other else None
            lines.append(line)
    table = pl.DataFrame(lines, infer_schema_length=None)
    names = [f"{score}_p" for score in TESTED]
    p = holm(table.select(names).to_numpy().ravel()).reshape(-1, len(names))
    corrected = [pl.Series(name, p[:, at], nan_to_null=True) for at, name in enumerate(names)]
    return table.with_columns(corrected).with_columns(pl.col(pl.Float64).round(5))


def verdict(pairs: pl.DataFrame) -> list[str]:
    """Return the mean and the range of every difference, and the cells where it is significant."""
    rows, every = [], pairs.group_by("head", "method", "against", maintain_order=True)
    for (head, one, other), part in every:
        row = {"head": head, "compared": f"{one} − {other}"}
        for score, queries in zip(TESTED, ("balanced", "as the shots"), strict=True):
            sure = part.filter(pl.col(f"{score}_p") < ALPHA)[score]
            row[f"{queries}: mean"] = points(part[score].mean())
            row[f"{queries}: range"] = span(part[score].min(), part[score].max())
            row[f"{queries}: better, worse"] = f"{(sure > 0).sum()}, {(sure < 0).sum()}"
        rows.append(row)
    return markdown(rows, left=2)


def tables(table: pl.DataFrame) -> dict[str, list[str]]:
    """Return the tables of the page by name, from the lines of the CSV file."""
    alone, above = pl.col("against").is_null(), table.filter(pl.col("bank") != AT_CHANCE)
    once = above.filter(alone, (pl.col("method") != MEANS) | (pl.col("head") == READY))
    means = once.group_by("head", "method", maintain_order=True).agg(pl.col(SCORES).mean())
    means = means.sort(pl.col("head") == READY, maintain_order=True).to_dicts()
    tell = {"head": str, "method": str, "accuracy": percent, "fewest": percent, "most": percent}
    tell |= {"alike": percent, "nll": number, "alike_nll": number}
    cells, none = [], {"accuracy": None, "accuracy_ci": None, "accuracy_p": 1.0}
    for head, bank, scheme in product(HEADS, sorted(set(table["bank"])), SCHEMES):
        lines = table.filter(head=head, bank=bank, scheme=scheme).to_dicts()
        at = {(line["method"], line["against"]): line for line in lines}
        row = {"head": head, "bank": short(bank), "shots": scheme.removeprefix("unbalanced-")}
        row["nothing"] = percent(at["nothing", None]["accuracy"])
        row["λ"] = coefficient(at["Firth", None]["coefficient"])
        for pair in PAIRS[:7]:
            mean, ci, p = (at.get(pair, none)[name] for name in none)
            row[" − ".join(pair)] = gain(mean, ci, p < ALPHA)
        cells.append(row)
    return {
        "verdict": verdict(above.filter(~alone)),
        "means": markdown([{name: tell[name](line[name]) for name in tell} for line in means], 2),
        "cells": markdown(cells, left=3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--bank", action="append", default=[], help="only this bank; repeatable")
    parser.add_argument("--parts", type=Path, default=Path("runs/unequal-shots"))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.csv"))
    arguments = parser.parse_args()
    if arguments.what == "run":
        with threadpool_limits(limits=1):
            run(real_banks(arguments.bank), arguments.parts)
    else:
        summarise(pl.read_parquet(arguments.parts / "*.parquet")).write_csv(arguments.out)
        for mark, lines in tables(pl.read_csv(arguments.out)).items():
            insert(arguments.out.with_name("README.md"), mark, lines)


if __name__ == "__main__":
    main()
