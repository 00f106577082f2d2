"""The linear and cosine heads against the textbook loop, for every penalty and option."""

import dataclasses

import numpy as np
import pytest
import torch

from firthshot.engine import Cosine, Linear, Penalty, Sgd
from firthshot.engine._trial import Trial
from firthshot.engine.sgd.cosine import linear_layer_start
from firthshot.engine.sgd.training import xavier_uniform
from oracles.textbook import EVERY_PENALTY, train_by_autograd

LINEAR_SGD = Sgd(learning_rate=0.05, batch_size=4, epochs=12)
COSINE_SGD = Sgd(0.05, 0.9, 0.9, batch_size=4, epochs=12, scale_partial=False)
PENALTIES = [
    *EVERY_PENALTY,
    # More coefficients than a vector has lanes, and no multiple of it.
    Penalty("firth", tuple(np.linspace(0, 2, 19))),
]
SOLVERS = {
    "shuffled": {},
    "in order": {"shuffle": False},
    "partial batch unscaled": {"scale_partial": False},
    "partial batch scaled": {"scale_partial": True},
    "no momentum": {"momentum": 0.0, "dampening": 0.0},
    "no momentum, so no dampening": {"momentum": 0.0, "dampening": 0.5},
    "little momentum": {"momentum": 0.2},
    "dampened": {"dampening": 0.5},
    "undampened": {"dampening": 0.0},
    "batch larger than a tile": {"batch_size": 13},
    "batch larger than the support": {"batch_size": 50},
    "batch of one": {"batch_size": 1, "epochs": 3},
}


def make_trial(n_classes=5, shots=3, d=9, queries=11, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_classes), shots)[: n_classes * shots - 1]
    means = rng.normal(size=(n_classes, d))
    support = means[labels] + rng.normal(size=(len(labels), d))
    query = rng.normal(size=(queries, d)) * 1.5
    return Trial(seed, 99, n_classes, support.astype(dtype), labels, query.astype(dtype))


def linear_by_autograd(trial, sgd, penalty, coefficient, start="xavier"):
    d = trial.support.shape[1]
    first = xavier_uniform(trial, 0, d, trial.n_classes) * (start == "xavier")
    weights = torch.tensor(first.astype(float), requires_grad=True)
    bias = torch.zeros(trial.n_classes, dtype=torch.float64, requires_grad=True)
    X = torch.tensor(trial.support.astype(float))
    train_by_autograd(
        trial, lambda rows: X[rows] @ weights + bias, [weights], [bias], sgd, penalty, coefficient
    )
    W, b = weights.detach().numpy(), bias.detach().numpy()
    return trial.query.stack() @ W + b, (W**2).sum() + (b**2).sum(), (W.T, b)


def cosine_by_autograd(trial, sgd, penalty, coefficient, scale=2.0):
    v = torch.tensor(linear_layer_start(trial).T.astype(float).copy(), requires_grad=True)
    g = v.detach().norm(dim=1, keepdim=True).requires_grad_()

    def head(rows):
        unit = rows / (rows.norm(dim=1, keepdim=True) + 1e-5)
        return scale * unit @ (g * v / v.norm(dim=1, keepdim=True)).T

    X = torch.tensor(trial.support.astype(float))
    train_by_autograd(trial, lambda rows: head(X[rows]), [v, g], [], sgd, penalty, coefficient)
    logits = head(torch.tensor(trial.query.stack().astype(float))).detach().numpy()
    return (
        logits,
        (v.detach() ** 2).sum().item() + (g.detach() ** 2).sum().item(),
        (v.detach().numpy(), g.detach().numpy()[:, 0]),
    )


HEADS = {
    "linear": (Linear(), linear_by_autograd, LINEAR_SGD, ("coef", "intercept")),
    "cosine": (Cosine(), cosine_by_autograd, COSINE_SGD, ("v", "g")),
}


def fit(head, trial, sgd, penalty):
    d, k = trial.support.shape[1], trial.n_classes
    form = penalty.tables(trial.labels, k, d * k + k)
    return HEADS[head][0].fit(trial, sgd, form, True)


def check_against_autograd(head, trial, sgd, penalty, tolerance=1e-9):
    _, oracle, _, names = HEADS[head]
    fitted = fit(head, trial, sgd, penalty)[sgd.epochs]
    n_queries = len(trial.query)
    for l, coefficient in enumerate(penalty.coefficients):
        logits, norm, weights = oracle(trial, sgd, penalty, coefficient)
        ours = fitted.logits[:, l, :n_queries].T
        size = max(1.0, np.abs(logits).max())
        assert np.abs(ours - logits).max() < tolerance * size
        assert fitted.norms[l] == pytest.approx(norm, rel=max(tolerance, 1e-12))
        for name, expected in zip(names, weights, strict=True):
            assert np.abs(fitted.weights[name][l] - expected).max() < tolerance * size


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: f"{p.family}-{p.prior}-{p.l2_kind}")
@pytest.mark.parametrize("head", HEADS)
def test_every_penalty_follows_the_textbook(head, penalty):
    check_against_autograd(head, make_trial(), HEADS[head][2], penalty)


@pytest.mark.parametrize("option", SOLVERS)
@pytest.mark.parametrize("head", HEADS)
def test_every_solver_option_follows_the_textbook(head, option):
    sgd = dataclasses.replace(HEADS[head][2], **SOLVERS[option])
    check_against_autograd(head, make_trial(), sgd, Penalty("firth", (0.0, 1.0), l2=2.0))


@pytest.mark.parametrize(
    "shape",
    [
        {"n_classes": 2, "shots": 1},
        {"n_classes": 2, "shots": 20, "d": 4},
        {"n_classes": 20, "shots": 1, "d": 3},
        {"n_classes": 33, "shots": 2, "d": 7},
        {"n_classes": 5, "shots": 3, "d": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("head", HEADS)
def test_every_shape_follows_the_textbook(head, shape):
    trial = make_trial(**shape)
    check_against_autograd(head, trial, HEADS[head][2], Penalty("firth", (0.0, 1.0), l2=0.5))


def test_zero_start_follows_the_textbook_and_stays_in_the_span():
    trial, penalty = make_trial(d=30), Penalty("firth", (0.0, 1.0))
    form = penalty.tables(trial.labels, 5, 155)
    fitted = Linear(start="zero").fit(trial, LINEAR_SGD, form, True)[12]
    logits, *_ = linear_by_autograd(trial, LINEAR_SGD, penalty, 1.0, start="zero")
    assert np.allclose(fitted.logits[:, 1, :11].T, logits, rtol=1e-10, atol=1e-12)
    span = np.linalg.svd(trial.support, full_matrices=False)[2]
    coef = fitted.weights["coef"][1]
    assert np.allclose(coef @ span.T @ span, coef, atol=1e-12)


def test_cosine_scale_is_ten_above_two_hundred_classes():
    few, many = make_trial(n_classes=200, shots=1, d=8), make_trial(n_classes=201, shots=2, d=8)
    sgd = dataclasses.replace(COSINE_SGD, epochs=1)
    penalty = Penalty("firth", (1.0,))
    assert np.allclose(
        fit("cosine", few, sgd, penalty)[1].logits[:, 0, :11].T,
        cosine_by_autograd(few, sgd, penalty, 1.0, scale=2.0)[0],
    )
    assert np.allclose(
        fit("cosine", many, sgd, penalty)[1].logits[:, 0, :11].T,
        cosine_by_autograd(many, sgd, penalty, 1.0, scale=10.0)[0],
    )


@pytest.mark.parametrize("head", HEADS)
def test_scoring_after_some_passes_equals_stopping_there(head):
    trial, penalty = make_trial(), Penalty("firth", (0.0, 1.0), l2=1.0)
    sgd = HEADS[head][2]
    on_the_way = fit(head, trial, dataclasses.replace(sgd, score_after=(3, 7)), penalty)
    assert set(on_the_way) == {3, 7, 12}
    for passes, fitted in on_the_way.items():
        stopped = fit(head, trial, dataclasses.replace(sgd, epochs=passes), penalty)[passes]
        assert np.array_equal(fitted.logits, stopped.logits)
        assert np.array_equal(fitted.norms, stopped.norms)


@pytest.mark.parametrize(
    ("head", "sgd", "bound"),
    [("linear", Sgd(), 2e-5), ("cosine", Sgd(0.01, 0.9, 0.9, 4, 301, True, False), 2e-5)],
)
def test_float32_stays_close_over_the_published_number_of_steps(head, sgd, bound):
    """Stated bound: logits within 2e-5 of float64's, relative to the largest, after all passes."""
    penalty = Penalty("firth", (0.0, 0.1, 1.0, 10.0), l2=0.001, l2_kind="weight-decay")
    exact = make_trial(n_classes=16, shots=5, d=64, queries=40)
    rounded = make_trial(n_classes=16, shots=5, d=64, queries=40, dtype=np.float32)
    double = fit(head, exact, sgd, penalty)[sgd.epochs].logits[:, :, :40]
    single = fit(head, rounded, sgd, penalty)[sgd.epochs].logits[:, :, :40]
    assert np.abs(single - double).max() < bound * np.abs(double).max()
