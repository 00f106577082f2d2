"""One trial: what each method makes of a support set and its queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from firthshot.arrays import Array, round_up
from firthshot.engine.heads.centroid import class_means
from firthshot.engine.heads.least_squares import LOGIT_GAP, ridge_regression
from firthshot.engine.results import RELIABILITY_BINS
from firthshot.engine.scoring import score_queries
from firthshot.estimators._cosine import FirthCosineClassifier
from firthshot.estimators._linear import FirthClassifier
from firthshot.estimators._support import Support, scale_l2
from studies.defaults.rules import BASELINE, CORE, COSINE, DEFAULT, OURS, WIDE, Facts, named

TOLERANCE = 1e-5
Logits = dict[str, Array]  # of the queries, by method


def facts_of(support: Support) -> Facts:
    """Return what a rule may know of a support set."""
    rows = len(support.weights)
    return Facts(support.n_classes, rows, support.moments.spread, scale_l2(support))


def support_of(X: Array, y: Array, ways: int) -> Support:
    """Return a support set whose rows all count alike."""
    return Support(X, y, np.ones(len(y)), np.full(ways, 1 / ways))


def core_trial(X: Array, y: Array, Q: Array, ways: int) -> Logits:
    """Train the few methods of the tables, the default as the estimator has it among them."""
    head, support = FirthClassifier(tol=TOLERANCE), support_of(X, y, ways)
    facts = facts_of(support)
    path = {name: make(facts) for name, make in CORE.items()}
    fits = dict(zip(path, head._fit_path(support, list(path.values())), strict=True))
    found = {name: head._logits(Q, fit.parameters) for name, fit in fits.items()}
    default = named(*DEFAULT)
    head.lam_, head.l2_ = path[default]
    found[OURS] = found[default] / head._fit_temperature(support, fits[default])
    return found | rivals(X, y, Q, ways, facts)


def rivals(X: Array, y: Array, Q: Array, ways: int, facts: Facts) -> Logits:
    """Return the logits of the closed forms: least squares and the nearest class mean."""
    targets = np.eye(ways)[y] - 1 / ways
    found = {}
    for name, ridge in (("least squares, ridge 1", 1.0), ("least squares, ridge v", facts.spread)):
        coef, intercept = ridge_regression(X, targets, ridge)
        found[name] = LOGIT_GAP * (Q @ coef.T + intercept)
    means = class_means(X, y, ways)
    found["nearest class mean"] = Q @ means.T - 0.5 * (means**2).sum(1)
    return found


def wide_trial(X: Array, y: Array, Q: Array, ways: int) -> Logits:
    """Train the whole grid of the linear head."""
    head, support = FirthClassifier(tol=TOLERANCE), support_of(X, y, ways)
    facts = facts_of(support)
    fits = head._fit_path(support, [make(facts) for make in WIDE.values()])
    return {name: head._logits(Q, fit.parameters) for name, fit in zip(WIDE, fits, strict=True)}


def cosine_trial(X: Array, y: Array, Q: Array, ways: int) -> Logits:
    """Train FirthCosineClassifier() as it is, and the baseline."""
    (plain,) = FirthClassifier(tol=TOLERANCE)._fit_path(support_of(X, y, ways), [(0.0, 1.0)])
    head = FirthCosineClassifier(tol=TOLERANCE).fit(X, y)
    baseline = FirthClassifier()._logits(Q, plain.parameters)
    return {BASELINE: baseline, COSINE: head.predict_log_proba(Q)}


KINDS = {"core": core_trial, "cosine": cosine_trial, "wide": wide_trial}


def scores(logits: Sequence[Array], labels: Array) -> Array:
    """Return accuracy, nll and ECE of every method, shape (3, methods)."""
    n, ways = logits[0].shape
    padded = round_up(n, 16)
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
