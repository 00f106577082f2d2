"""Add a head and a penalty as docs/extending.md says, and train with them."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from firthshot import load_bank, sample_episodes
from firthshot.engine import (
    Centroid,
    Converged,
    Fitted,
    Head,
    Linear,
    Penalty,
    Sgd,
    register_head,
    train,
)
from firthshot.engine._heads import _FIT
from firthshot.engine.families import FAMILIES, Terms
from firthshot.errors import FirthshotError
from firthshot.objective import Confidence, CrossEntropy, Firth


@dataclass(frozen=True)
class Median(Head):
    name = "median"


def fit_median(trial, head, solver, form, keep_weights):
    medians = np.stack(
        [np.median(trial.support[trial.labels == c], axis=0) for c in range(trial.n_classes)]
    )
    logits = trial.query.times(medians.T).T - 0.5 * (medians**2).sum(1)[:, None]
    each = len(form.label)
    return {0: Fitted(np.repeat(logits[:, None], each, axis=1), np.zeros(each))}


@pytest.fixture
def episodes():
    bank = load_bank("clinc150-minilm")
    return bank.features, sample_episodes(bank, "val", ways=5, shots=2, trials=4, queries=5)


@pytest.fixture
def with_median(monkeypatch):
    monkeypatch.setattr("firthshot.engine._heads._FIT", dict(_FIT))
    register_head(Median, Converged, fit_median)


@pytest.mark.usefixtures("with_median")
def test_a_head_of_ones_own_is_trained(episodes):
    # With two shots the median is the mean.
    own = train(*episodes, Median(), Converged(), Penalty(), dtype="float64")
    known = train(*episodes, Centroid(), Converged(), Penalty(), dtype="float64")
    assert_allclose(own.accuracy, known.accuracy)
    assert_allclose(own.nll, known.nll, rtol=1e-9)


def symmetric(lam):
    """Return the terms of λ (KL(U‖p) + KL(p‖U))."""
    return Terms(probability=1 + lam, prior=lam, confidence=lam)


def test_a_penalty_of_ones_own_is_trained(episodes, monkeypatch):
    monkeypatch.setitem(FAMILIES, "symmetric", symmetric)
    features, trials = episodes
    lams = (0.0, 0.5, 3.0)
    sgd = Sgd(0.5, 0.0, batch_size=10, epochs=20, shuffle=False)
    start, penalty = Linear(start="zero"), Penalty("symmetric", lams)
    own = train(features, trials, start, sgd, penalty, dtype="float64", keep="weights")
    for number, trial in enumerate(trials):
        X = np.asarray(features[trial.support], dtype=np.float64)
        for l, lam in enumerate(lams):
            W, b = descend(X, trial.support_labels, lam)
            assert_allclose(own.kept["weights"][number]["coef"][l], W.T, atol=1e-12)
            assert_allclose(own.kept["weights"][number]["intercept"][l], b, atol=1e-12)


def descend(X, y, lam, n_classes=5):
    """Take twenty plain gradient steps on all rows."""
    W, b = np.zeros((X.shape[1], n_classes)), np.zeros(n_classes)
    for _ in range(20):
        z = X @ W + b
        g = CrossEntropy().gradient(z, y) + lam * (Firth().gradient(z) + Confidence().gradient(z))
        W, b = W - 0.5 * X.T @ g / len(X), b - 0.5 * g.mean(0)
    return W, b


def test_a_head_that_is_not_registered_is_named(episodes):
    with pytest.raises(FirthshotError, match="'median' is not registered"):
        train(*episodes, Median(), Converged(), Penalty())
