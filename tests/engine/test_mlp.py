"""The 3-layer head against the textbook loop, for every penalty and option."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch

from firthshot.engine import Mlp, Penalty, Sgd
from firthshot.engine._form import gradient_form
from firthshot.engine._linear import xavier_uniform
from firthshot.engine._mlp import fit_mlp
from firthshot.engine._trial import Trial
from oracles.textbook import train_by_autograd

HEAD = Mlp(hidden=(21, 10))
SGD = Sgd(learning_rate=0.05, batch_size=4, epochs=6)
PENALTIES = [
    Penalty(),
    Penalty("firth", (0.0, 0.1, 1.0, 10.0)),
    Penalty("firth", (0.3, 3.0), prior="class-frequency"),
    Penalty("firth", (0.3, 3.0), prior=(0.5, 0.3, 0.1, 0.1, 0.0)),
    Penalty("confidence", (0.0, 0.1, 1.0)),
    Penalty("label-smoothing", (0.0, 0.1, 0.9)),
    Penalty("label-smoothing", (0.1,), prior="class-frequency"),
    Penalty("l2", (0.0, 1.0, 30.0)),
    Penalty("l2", (0.0, 1.0), l2_kind="ridge"),
    Penalty("l2", (0.0, 0.01), l2_kind="weight-decay"),
    Penalty("firth", (0.0, 1.0), l2=0.001, l2_kind="weight-decay"),
]
SOLVERS = {
    "in order": {"shuffle": False},
    "partial batch unscaled": {"scale_partial": False},
    "no momentum": {"momentum": 0.0},
    "no momentum, so no dampening": {"momentum": 0.0, "dampening": 0.5},
    "little momentum": {"momentum": 0.3},
    "dampened": {"dampening": 0.5},
    "batch larger than a tile": {"batch_size": 13},
    "batch larger than a vector": {"batch_size": 50},
    "batch of one": {"batch_size": 1, "epochs": 2},
    # Drifting velocities are brought back to scale on the way.
    "many steps": {"batch_size": 3, "epochs": 90, "learning_rate": 0.005},
}
SHAPES = [
    {"n_classes": 2, "shots": 1},
    {"n_classes": 2, "shots": 2, "d": 1},
    {"n_classes": 2, "shots": 20, "d": 4},
    {"n_classes": 20, "shots": 1, "d": 30},
    {"n_classes": 33, "shots": 2, "d": 7},
]


def make_trial(n_classes=5, shots=3, d=12, queries=11, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_classes), shots)[: max(2, n_classes * shots - 1)]
    means = rng.normal(size=(n_classes, d))
    asked = rng.integers(0, n_classes, queries)
    support, query = (means[which] + rng.normal(size=(len(which), d)) for which in (labels, asked))
    return Trial(seed, 99, n_classes, support.astype(dtype), labels, query.astype(dtype)), asked


def fit(trial, sgd, penalty, head=HEAD):
    widths = (trial.support.shape[1], *head.hidden, trial.n_classes)
    n_parameters = sum((n + 1) * m for n, m in pairwise(widths))
    form = gradient_form(penalty, trial.labels, trial.n_classes, n_parameters)
    return fit_mlp(trial, head, sgd, form, True)


def by_autograd(trial, sgd, penalty, coefficient, head=HEAD):
    """Return query logits and the parameters (W_1, W_2, W_3, b_1, b_2, b_3)."""
    widths = (trial.support.shape[1], *head.hidden, trial.n_classes)
    weights = [
        torch.tensor(xavier_uniform(trial, layer, *shape).astype(float), requires_grad=True)
        for layer, shape in enumerate(pairwise(widths))
    ]
    biases = [torch.zeros(w.shape[1], dtype=torch.float64, requires_grad=True) for w in weights]

    def logits_of(rows):
        for weight, bias in zip(weights[:2], biases[:2], strict=True):
            rows = torch.relu(rows @ weight + bias)
        return rows @ weights[2] + biases[2]

    X, queries = (torch.tensor(rows.astype(float)) for rows in (trial.support, trial.query.stack()))
    train_by_autograd(
        trial, lambda rows: logits_of(X[rows]), weights, biases, sgd, penalty, coefficient
    )
    return logits_of(queries).detach().numpy(), [p.detach().numpy() for p in (*weights, *biases)]


def check_against_autograd(trial, sgd, penalty, head=HEAD, tolerance=1e-8):
    fitted = fit(trial, sgd, penalty, head)[sgd.epochs]
    for l, coefficient in enumerate(penalty.coefficients):
        logits, parameters = by_autograd(trial, sgd, penalty, coefficient, head)
        ours = fitted.logits[:, l, : len(trial.query)].T
        assert np.abs(ours - logits).max() < tolerance * np.abs(logits).max()
        norm = sum((p**2).sum() for p in parameters)
        assert fitted.norms[l] == pytest.approx(norm, rel=tolerance)
        for layer in range(3):
            coef, intercept = (fitted.weights[f"{n}_{layer + 1}"][l] for n in ("coef", "intercept"))
            assert np.abs(coef.T - parameters[layer]).max() < tolerance
            assert np.abs(intercept - parameters[3 + layer]).max() < tolerance


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: f"{p.family}-{p.prior}-{p.l2_kind}")
def test_every_penalty_follows_the_textbook(penalty):
    check_against_autograd(make_trial()[0], SGD, penalty)


@pytest.mark.parametrize("option", SOLVERS)
@pytest.mark.parametrize("l2", [0.0, 2.0])
def test_every_solver_option_follows_the_textbook(option, l2):
    sgd = dataclasses.replace(SGD, **SOLVERS[option])
    check_against_autograd(make_trial()[0], sgd, Penalty("firth", (0.0, 1.0), l2=l2))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_follows_the_textbook(shape):
    check_against_autograd(make_trial(**shape)[0], SGD, Penalty("firth", (0.0, 1.0), l2=0.5))


@pytest.mark.parametrize("hidden", [(1, 1), (3, 2), (7, 16), (8, 8), (15, 17), (16, 3), (100, 50)])
def test_every_width_follows_the_textbook(hidden):
    penalty = Penalty("firth", (0.0, 0.5, 1.0))
    check_against_autograd(make_trial()[0], SGD, penalty, Mlp(hidden))
