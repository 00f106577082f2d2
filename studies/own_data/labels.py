"""Planted wrong labels: which are found, and how many flagged labels are wrong.

Beside ours stands confident learning on `cross_val_predict` with `LogisticRegression()`, the method
of cleanlab with scikit-learn's default head.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from firthshot import FewShotClassifier, load_bank
from firthshot.own_data.assessment.doubts import doubted_labels
from firthshot.own_data.assessment.rows import LabelledFit, leave_out, rounds_of
from studies.own_data.draws import draw_rows

BANKS = ("clinc150-minilm", "cifarfs-efficientnet-lite0", "mini-resnet10")
FIRST = 20  # the rule of doubt was chosen on draws 0 to 19
WAYS, SHOTS, WRONG = 20, 10, 0.1


@dataclass(frozen=True)
class Flagged:
    """Of one draw and method: planted, flagged and both, and found among as many as planted."""

    bank: str
    method: str
    planted: int
    flagged: int
    both: int


def plant(labels: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of which some are wrong, and which."""
    classes = np.unique(labels)
    wrong = rng.choice(len(labels), round(WRONG * len(labels)), replace=False)
    planted = labels.copy()
    for row in wrong:
        planted[row] = rng.choice(classes[classes != labels[row]])
    return planted, wrong


def by_us(features: np.ndarray, labels: np.ndarray) -> list[int]:
    """Return the rows that a fit doubts."""
    classes, codes = np.unique(labels, return_inverse=True)
    task = LabelledFit(FewShotClassifier(), features, codes, classes)
    rounds = rounds_of(task)
    return [one.row for one in doubted_labels(task, leave_out(task, rounds), rounds)]


def by_logistic_regression(features: np.ndarray, labels: np.ndarray) -> list[int]:
    """Return the rows that confident learning flags with scikit-learn's defaults."""
    classes, codes = np.unique(labels, return_inverse=True)
    p = cross_val_predict(LogisticRegression(), features, codes, method="predict_proba")
    usual = np.array([p[codes == k, k].mean() for k in range(len(classes))])
    best = p.argmax(axis=1)
    above = p[np.arange(len(p)), best] >= usual[best]
    return np.flatnonzero((best != codes) & above).tolist()


METHODS = {"firthshot": by_us, "cross_val_predict, LogisticRegression()": by_logistic_regression}


def run(number: int) -> list[Flagged]:
    """Plant wrong labels in so many draws of every bank."""
    found = []
    for name in BANKS:
        bank = load_bank(name)
        for trial in range(FIRST, FIRST + number):
            rng = np.random.default_rng(trial)
            draw = draw_rows(bank, rng, np.full(WAYS, SHOTS), str(SHOTS))
            labels, wrong = plant(draw.labels, rng)
            for method, flag in METHODS.items():
                rows = flag(draw.features, labels)
                both = len(set(rows) & set(wrong.tolist()))
                found.append(Flagged(name, method, len(wrong), len(rows), both))
    return found


def table(found: list[Flagged]) -> str:
    """Return a table in Markdown."""
    lines = [
        "| bank | method | wrong labels found | flagged labels that are wrong |",
        "|---|---|---|---|",
    ]
    for name in BANKS:
        for method in METHODS:
            part = [one for one in found if (one.bank, one.method) == (name, method)]
            both = sum(one.both for one in part)
            recall = 100 * both / sum(one.planted for one in part)
            precision = 100 * both / max(sum(one.flagged for one in part), 1)
            lines.append(f"| {name} | {method} | {recall:.1f} % | {precision:.1f} % |")
    return "\n".join(lines)
