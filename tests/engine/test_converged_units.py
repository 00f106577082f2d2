"""The solver on rows in units of their own, in float32 where it may stop early, and along paths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firthshot.engine import solve
from firthshot.engine.solvers.path import walk
from firthshot.objective import Penalty, softmax
from oracles.linear_optimum import draw, form_of

PATH = Penalty("firth", (0.0, 0.1, 1.0, 10.0), l2=1.0, l2_kind="ridge")
SHAPES = {"few rows": (30, 50, 4), "many rows": (150, 20, 5)}


def gradients(X, labels, form, found, unit=1.0, fit_intercept=True):
    """Return the largest entry by weights on X / unit and by the intercept, plainly computed."""
    largest = []
    for l in range(len(form.label)):
        p = softmax(X @ found.coef[l].T + found.intercept[l])
        targets = form.label[l] * np.eye(p.shape[1])[labels] + form.target[:, l]
        g = (form.probability[l] * p - targets) / len(X)
        by_coef = (g.T @ X + form.weight_decay[l] * found.coef[l]) / unit
        by_intercept = g.sum(0) if fit_intercept else np.zeros(1)
        largest.append(max(np.abs(by_coef).max(), np.abs(by_intercept).max()))
    return np.array(largest)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("tolerance", [1e-9, 1e-4])
@pytest.mark.parametrize("unit", [1e-6, 0.1, 1.0, 1e6])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_unit_changes_the_tolerance_and_nothing_else(shape, unit, tolerance, fit_intercept):
    X, labels = draw(*shape)
    form = form_of(X, labels, **vars(PATH))
    plain = solve(X, labels, form, tolerance=1e-10, fit_intercept=fit_intercept)
    scaled = replace(form, weight_decay=form.weight_decay * unit**2)
    found = solve(
        unit * X, labels, scaled, tolerance=tolerance, fit_intercept=fit_intercept, unit=unit
    )
    assert found.converged.all()
    reached = gradients(unit * X, labels, scaled, found, unit, fit_intercept)
    assert (reached <= 1.5 * tolerance).all()
    np.testing.assert_allclose(found.gradient_norm, reached, atol=0.5 * tolerance)
    np.testing.assert_allclose(unit * found.coef, plain.coef, atol=300 * tolerance)
    np.testing.assert_allclose(found.objective, plain.objective, rtol=1e-9, atol=3e3 * tolerance**2)


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_products_in_float32_are_good_for_an_early_stop(shift):
    X, labels = draw(60, 40, 4)
    form = form_of(X, labels, **vars(PATH))
    exact = solve(X, labels, form, tolerance=1e-10)
    early = solve(X + shift, labels, form, tolerance=1e-5 * (1 + shift), audit=False)
    assert early.converged.all()
    z, other = (
        rows @ found.coef.transpose(0, 2, 1) + found.intercept[:, None]
        for rows, found in ((X, exact), (X + shift, early))
    )
    np.testing.assert_allclose(z, other, atol=0.02 if shift else 1e-3)


def test_scaled_objectives_are_one_path():
    X, labels = draw(30, 50, 4)
    form = form_of(X, labels, **vars(PATH))
    factor = np.array([1.0, 1 / 1.1, 1 / 2, 1 / 11])
    scaled = replace(
        form,
        probability=form.probability * factor,
        target=form.target * factor,
        label=form.label * factor,
        weight_decay=form.weight_decay * factor,
    )
    for one in (form, scaled):
        guesses = {id(known) for _, known in walk(one, [0, 1, 2, 3], warm_start=True)}
        assert len(guesses) == 1
    settings = {"tolerance": 1e-10, "warm_start": True}
    np.testing.assert_allclose(
        solve(X, labels, form, **settings).coef,
        solve(X, labels, scaled, **settings).coef,
        atol=1e-7,
    )
    two = replace(form, weight_decay=form.weight_decay * [1, 1, 2, 2])
    assert len({id(known) for _, known in walk(two, [0, 1, 2, 3], warm_start=True)}) == 2
