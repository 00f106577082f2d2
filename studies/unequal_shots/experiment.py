"""Trials of unequal shots: every method, every coefficient, and the scores of each."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

from firthshot.arrays import Array
from firthshot.banks import Bank
from firthshot.engine import Linear, Penalty, paper_sgd, train
from firthshot.episodes import Episode, sample_episodes
from firthshot.estimators._linear import FirthClassifier
from firthshot.estimators._support import Support, scale_l2, weigh_classes
from firthshot.experiments.spec.shots import SCHEMES, plan_shots
from firthshot.objective import log_softmax
from studies.defaults.trials import TOLERANCE, facts_of, rivals, support_of
from studies.parts import placed, write_table

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
KEYS = ("head", "treatment", "coefficient")
MEANS = "nearest class mean"
Key = tuple[str, str, float]  # head, treatment, coefficient: λ, or the strength of a correction


def correct(logits: Array, shares: Array, strength: float = 1.0) -> Array:
    """Take the log of the classes' shares, times a strength, off the logits (..., K).

    Bayes' rule: what fits classes of these shares then speaks of equally frequent ones.
    """
    return np.asarray(logits - strength * np.log(shares))


def fitted_shares(shares: Array, lam: float) -> Array:
    """Return the mean probabilities of the classes that a head with λ is fitted to.

    CE + λ KL(u‖p) is 1 + λ times the cross-entropy to targets (label + λ u) / (1 + λ), and a free
    intercept makes the mean probability of each class that of its targets. Firth has then undone
    a part of the imbalance itself.
    """
    return np.asarray((shares + lam / len(shares)) / (1 + lam))


def scores(logits: Array, labels: Array, shots: Array) -> Array:
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


def converged(X: Array, y: Array, Q: Array) -> dict[Key, Array]:
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


def ready(X: Array, y: Array, Q: Array) -> dict[Key, Array]:
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
    features: Array, episode: Episode, sgd: dict[str, Array]
) -> tuple[list[Key], Array]:
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
    penalty = Penalty("firth", LAMBDAS)
    sgd = train(bank.features, episodes, Linear(), SGD, penalty, threads=1, keep=("weights",))
    if sgd.problems():
        raise RuntimeError(sgd.problems()[0])
    found = [trial_scores(bank.features, episodes[t], sgd.kept["weights"][t]) for t in range(BLOCK)]
    keys, values = found[0][0], np.concatenate([scored for _, scored in found])
    table = pl.DataFrame(
        {
            "trial": np.repeat(trials, len(keys)),
            **{name: [key[at] for key in keys * BLOCK] for at, name in enumerate(KEYS)},
            **{score: values[:, at] for at, score in enumerate(SCORES)},
        }
    )
    write_table(path, placed(table, {"bank": bank.name, "scheme": scheme, "split": split}))
