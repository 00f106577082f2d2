"""The heads that a person would otherwise take from scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC

from studies.few_shot.lda import RankLDA
from studies.few_shot.settings import Trial

# The nine of the comparison.
NINE: dict[str, Callable[[], Any]] = {
    "LR": LogisticRegression,
    "scaled LR": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "unit LR, C=10": lambda: make_pipeline(Normalizer(), LogisticRegression(C=10)),
    "ridge": RidgeClassifier,
    "LDA": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "class means": NearestCentroid,
    "unit class means": lambda: make_pipeline(Normalizer(), NearestCentroid()),
    "1-NN": lambda: KNeighborsClassifier(1),
    "RBF SVM": SVC,
}
# Stronger ones, reported beside the nine.
MORE: dict[str, Callable[[], Any]] = {
    "balanced unit LR, C=10": lambda: make_pipeline(
        Normalizer(), LogisticRegression(C=10, class_weight="balanced")
    ),
    "balanced scaled LR": lambda: make_pipeline(
        StandardScaler(), LogisticRegression(class_weight="balanced")
    ),
}
PROBABILITIES = ("LR", "scaled LR", "unit LR, C=10", "LDA", *MORE)
LEAST = 1e-15
QUICK_LDA = 100  # columns from which LDA is solved by rows; the solution is the same
MOST_FOR_LDA = 600  # columns beyond which scikit-learn's own takes seconds a trial


def score(head: Any, trial: Trial, probabilities: bool = True) -> tuple[float, float]:
    """Return accuracy and log-loss of a fitted head on the queries; NaN without probabilities."""
    if not probabilities:
        return float((head.predict(trial.Q) == trial.truth).mean()), float("nan")
    p = np.asarray(head.predict_proba(trial.Q), np.float64)
    right = np.maximum(p[np.arange(len(p)), trial.truth], LEAST)
    return float((p.argmax(1) == trial.truth).mean()), float(-np.log(right).mean())


def rival_scores(trial: Trial) -> np.ndarray:
    """Return accuracy and log-loss of every rival on a trial, (rivals, 2)."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, make in (NINE | MORE).items():
            if name == "LDA" and len(trial.y) == trial.y.max() + 1:
                found.append((np.nan, np.nan))  # one row a class has no covariance
                continue
            if name == "LDA" and _slow_lda(trial):
                make = RankLDA
            found.append(score(make().fit(trial.X, trial.y), trial, name in PROBABILITIES))
    return np.array(found)


def _slow_lda(trial: Trial) -> bool:
    """Tell whether LDA is solved by rows; with two rows a class rounding decides, so seldom."""
    columns = trial.X.shape[1]
    two = np.bincount(trial.y).max() <= 2
    return bool(columns > (MOST_FOR_LDA if two else max(QUICK_LDA, len(trial.y))))


__all__ = ["MORE", "NINE", "PROBABILITIES", "rival_scores", "score"]
