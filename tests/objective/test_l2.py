"""L2 in three parametrisations, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from firthshot.errors import FirthshotError
from firthshot.objective import L2_PARAMETRISATIONS, l2_curvature
from oracles.linear_optimum import l2_value

DEFINITIONS = {
    "mean-square": lambda W, b, n: np.mean(np.concatenate([W.ravel(), b.ravel()]) ** 2),
    "ridge": lambda W, b, n: 0.5 * (W**2).sum() / n,
    "weight-decay": lambda W, b, n: 0.5 * ((W**2).sum() + (b**2).sum()),
}


@pytest.mark.parametrize("name", L2_PARAMETRISATIONS)
def test_half_the_curvature_times_squares_is_the_definition(name):
    rng = np.random.default_rng(3)
    W, b = rng.normal(size=(5, 3)), rng.normal(size=3)
    for bias in (b, np.empty(0)):
        np.testing.assert_allclose(
            l2_value(W, bias, name, 7), DEFINITIONS[name](W, bias, 7), rtol=1e-14
        )


def test_the_papers_coefficient_of_1000_is_a_small_ridge():
    """2 · 1000 / (16 · 2049) ≈ 0.061 per weight: ½ · 0.061 ‖W‖² (protocol §4.6)."""
    c = l2_curvature("mean-square", n_parameters=16 * 2049, n_samples=80)
    assert 1000 * c.weights == pytest.approx(0.0610, abs=1e-4)
    assert c.weights == c.bias


@pytest.mark.parametrize(
    ("name", "n", "message"),
    [("lasso", 5, "L2 'lasso' is unknown"), ("ridge", 0, "one sample or more")],
)
def test_bad_input_is_refused_in_a_sentence(name, n, message):
    with pytest.raises(FirthshotError, match=message):
        l2_curvature(name, n_parameters=3, n_samples=n)
