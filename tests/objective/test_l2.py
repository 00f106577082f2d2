"""L2 in three parametrisations, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from firthshot.errors import FirthshotError
from firthshot.objective import L2, L2_PARAMETRISATIONS, l2_curvature

DEFINITIONS = {
    "mean-square": lambda W, b, n: np.mean(np.concatenate([W.ravel(), b.ravel()]) ** 2),
    "ridge": lambda W, b, n: 0.5 * (W**2).sum() / n,
    "weight-decay": lambda W, b, n: 0.5 * ((W**2).sum() + (b**2).sum()),
}
every = pytest.mark.parametrize("name", L2_PARAMETRISATIONS)


@pytest.fixture
def parameters():
    rng = np.random.default_rng(3)
    return rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 3))


@every
def test_value_is_the_definition_for_every_batch_entry(name, parameters):
    W, b = parameters
    expected = [DEFINITIONS[name](W[i], b[i], 7) for i in range(2)]
    np.testing.assert_allclose(L2(name, 7).value(W, b), expected, rtol=1e-14)


@every
def test_without_bias_the_bias_does_not_count(name, parameters):
    W, _ = parameters
    expected = [DEFINITIONS[name](W[i], np.empty(0), 7) for i in range(2)]
    np.testing.assert_allclose(L2(name, 7).value(W), expected, rtol=1e-14)
    assert L2(name, 7).gradient(W)[1] is None


@every
def test_gradient_and_hvp_are_derivatives(name, parameters):
    W, b = parameters
    rng = np.random.default_rng(4)
    V, v, step, penalty = rng.normal(size=W.shape), rng.normal(size=b.shape), 1e-4, L2(name, 7)
    gradient_W, gradient_b = penalty.gradient(W, b)
    along = (gradient_W * V).sum((-2, -1)) + (gradient_b * v).sum(-1)
    ahead, behind = (penalty.value(W + s * V, b + s * v) for s in (step, -step))
    np.testing.assert_allclose(along, (ahead - behind) / (2 * step), rtol=1e-8)
    for ours, up, down in zip(
        penalty.hvp(V, v),
        penalty.gradient(W + step * V, b + step * v),
        penalty.gradient(W - step * V, b - step * v),
        strict=True,
    ):
        np.testing.assert_allclose(ours, (up - down) / (2 * step), rtol=1e-8, atol=1e-12)


def test_the_papers_coefficient_of_1000_is_a_small_ridge():
    """2 · 1000 / (16 · 2049) ≈ 0.061 per weight: ½ · 0.061 ‖W‖² (protocol §4.6)."""
    c = l2_curvature("mean-square", n_parameters=16 * 2049, n_samples=80)
    assert 1000 * c.weights == pytest.approx(0.0610, abs=1e-4)
    assert c.weights == c.bias


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L2("lasso", 5), "no L2 parametrisation called 'lasso'"),
        (lambda: L2("ridge", 0), "one sample or more"),
        (lambda: L2("ridge", 5).value(np.ones(3)), "do not fit"),
        (lambda: L2("ridge", 5).value(np.ones((3, 2)), np.ones(3)), "do not fit"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(make, message):
    with pytest.raises(FirthshotError, match=message):
        make()
