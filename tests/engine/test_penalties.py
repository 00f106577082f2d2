"""Every registered penalty in the kernels against the objective's plain reference."""

from __future__ import annotations

import numpy as np
import pytest

from firthshot.engine import Linear, Sgd, solve, train
from firthshot.episodes import sample_episodes
from firthshot.objective import PENALTIES, Penalty, l2_curvature
from oracles.banks import PlainBank
from oracles.linear_optimum import descend, draw, flatten, plain_objective
from oracles.penalties import registered_cases

PRIOR = (0.4, 0.1, 0.2, 0.3)
every_case = pytest.mark.parametrize("case", registered_cases(), ids=str)


def penalty_of(case, kind):
    prior = PRIOR if case.prior else "uniform"
    return Penalty(case.name, (0.0, case.lam), prior, l2=0.05, l2_kind=kind)


@every_case
@pytest.mark.parametrize("kind", ["mean-square", "ridge", "weight-decay"])
def test_training_follows_plain_descent(case, kind):
    bank = PlainBank(n_classes=6, rows=20, d=5)
    episodes = sample_episodes(bank, "novel", ways=4, shots=3, queries=5, trials=1)
    sgd = Sgd(0.1, 0.0, batch_size=12, epochs=20, shuffle=False)
    own = train(
        bank.features,
        episodes,
        Linear(start="zero"),
        sgd,
        penalty_of(case, kind),
        dtype="float64",
        keep="weights",
    )
    trial, family = episodes[0], PENALTIES[case.name]
    X, c = bank.features[trial.support], l2_curvature(kind, n_parameters=24, n_samples=12)
    strength = 0.05 + family.l2 * case.lam
    decay = strength * c.weights, strength * c.bias
    W, b = descend(X, trial.support_labels, 4, case.loss(PRIOR), *decay, rate=0.1)
    np.testing.assert_allclose(own.kept["weights"][0]["coef"][1], W.T, atol=1e-12)
    np.testing.assert_allclose(own.kept["weights"][0]["intercept"][1], b, atol=1e-12)


@every_case
def test_the_converged_solver_reports_value_and_gradient_of_the_reference(case):
    X, labels = draw(20, 12, 4)
    penalty = penalty_of(case, "ridge")
    found = solve(X, labels, penalty.tables(labels, 4, 52), tolerance=1e-8)
    value, gradient = plain_objective(X, labels, 4, 1, penalty)(flatten(found, 1))
    assert abs(gradient).max() <= 1e-8 + 1e-12
    np.testing.assert_allclose(found.objective[1], value, rtol=1e-10)
