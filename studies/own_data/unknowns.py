"""Rows of no class: our score against probability, logit, energy and Mahalanobis distance."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.covariance import OAS
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from firthshot import Bank, FewShotClassifier, load_bank
from firthshot.own_data.novelty import fit_novelty

SETTINGS = ((10, 5), (30, 10))
PICTURES = ("cifarfs-efficientnet-lite0", "mini-resnet10")
RATE = 0.05


@dataclass(frozen=True)
class Separated:
    """How well a score tells rows of no class from rows of the classes, in one draw.

    ``alarms`` is the share of ordinary rows above the score that 95 % of the unknown exceed;
    ``printed`` and ``caught`` are what a rate of 0.05 gives: false alarms, and unknown rows found.
    """

    what: str
    score: str
    auroc: float
    alarms: float
    printed: float = np.nan
    caught: float = np.nan


Scores = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def max_probability(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Score by the probability of the predicted class of our head."""
    return np.asarray(-FewShotClassifier().fit(X, y).predict_proba(new).max(axis=1))


def max_logit(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Score by the largest logit of `LogisticRegression()`."""
    return np.asarray(-LogisticRegression().fit(X, y).decision_function(new).max(axis=1))


def energy(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Score by −log Σ exp of the logits of `LogisticRegression()`."""
    return np.asarray(
        -np.logaddexp.reduce(LogisticRegression().fit(X, y).decision_function(new), axis=1)
    )


def mahalanobis(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Score by the distance from the nearest class mean under one shrunk covariance."""
    X, new = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, new))
    classes, codes = np.unique(y, return_inverse=True)
    means = np.array([X[codes == k].mean(axis=0) for k in range(len(classes))])
    root = np.linalg.cholesky(OAS(assume_centered=True).fit(X - means[codes]).precision_)
    away = ((new @ root)[:, None] - means @ root) ** 2
    return np.asarray(away.sum(axis=2).min(axis=1))


def ours(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Score as `FittedModel.novelty_score` does."""
    return fit_novelty(X, np.unique(y, return_inverse=True)[1]).score(new)


SCORES: dict[str, Scores] = {
    "novelty_score": ours,
    "Mahalanobis": mahalanobis,
    "energy": energy,
    "maximum logit": max_logit,
    "maximum probability": max_probability,
}


def run(number: int, sentences: Path) -> list[Separated]:
    """Compare the scores on so many draws of every setting."""
    outside = out_of_scope(sentences)
    found: list[Separated] = []
    for ways, shots in SETTINGS:
        texts = load_bank("clinc150-minilm")
        for trial in range(number):
            rng = np.random.default_rng(trial)
            X, y, known, _ = _rows(texts, rng, ways, shots)
            found += _scored(f"CLINC150 out of scope, {ways} × {shots}", X, y, known, outside)
    for name in PICTURES:
        bank = load_bank(name)
        for trial in range(number):
            rng = np.random.default_rng(trial)
            X, y, known, others = _rows(bank, rng, 10, 5)
            found += _scored(f"{name}, 10 × 5, other classes", X, y, known, others)
    return found


def out_of_scope(path: Path) -> np.ndarray:
    """Return the embeddings of CLINC150's out-of-scope sentences."""
    from firthshot.backbones.embed import embed_texts

    data = json.loads(path.read_text(encoding="utf-8"))
    return embed_texts([text for part in data if part.startswith("oos") for text, _ in data[part]])


def _rows(
    bank: Bank, rng: np.random.Generator, ways: int, shots: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return rows to fit, their classes, further rows of them, and rows of other classes."""
    groups = bank.class_rows("novel")
    order = rng.permutation(len(groups))
    mixed = [rng.permutation(groups[k]) for k in order]
    parts = [
        np.concatenate([rows[:shots] for rows in mixed[:ways]]),
        np.concatenate([rows[shots : shots + 20] for rows in mixed[:ways]]),
        np.concatenate([rows[:20] for rows in mixed[ways : 2 * ways]]),
    ]
    X, known, others = (np.asarray(bank.features[rows], np.float32) for rows in parts)
    return X, np.repeat(np.arange(ways), shots), known, others


def _scored(
    what: str, X: np.ndarray, y: np.ndarray, known: np.ndarray, others: np.ndarray
) -> list[Separated]:
    rows, strange = (
        np.concatenate([known, others]),
        np.arange(len(known) + len(others)) >= len(known),
    )
    limit = fit_novelty(X, y).threshold(RATE)
    found = []
    for name, score in SCORES.items():
        values = score(X, y, rows)
        edge = np.quantile(values[strange], 0.05)
        rates = (values[~strange] > limit).mean(), (values[strange] > limit).mean()
        own = rates if name == "novelty_score" else (np.nan, np.nan)
        found.append(
            Separated(
                what, name, roc_auc_score(strange, values), (values[~strange] >= edge).mean(), *own
            )
        )
    return found


def table(found: list[Separated]) -> str:
    """Return a table in Markdown."""
    lines = [
        "| unknown rows | score | AUROC | alarms at 95 % recall | alarms at 0.05 | found at 0.05 |",
        "|---|---|---|---|---|---|",
    ]
    for what in dict.fromkeys(one.what for one in found):
        for name in SCORES:
            part = [one for one in found if (one.what, one.score) == (what, name)]
            means = [
                100 * float(np.mean([getattr(one, key) for one in part]))
                for key in ("auroc", "alarms", "printed", "caught")
            ]
            cells = [f"{mean:.1f} %" if np.isfinite(mean) else "" for mean in means]
            lines.append(f"| {what} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
