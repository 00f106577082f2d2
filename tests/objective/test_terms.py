"""Every loss and penalty on logits, by one set of checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from firthshot.objective import (
    PENALTIES,
    Confidence,
    CrossEntropy,
    Firth,
    LabelSmoothing,
    Loss,
    NoPenalty,
    Objective,
    Penalty,
    make_penalty,
)

if TYPE_CHECKING:
    from collections.abc import Callable

K = 4
PRIOR = np.array([0.5, 0.0, 0.3, 0.2])


@dataclass(frozen=True)
class Term:
    """A loss or penalty as functions of (logits, labels), built for a class prior."""

    name: str
    build: Callable[[np.ndarray], Loss | Penalty]

    def make(self, prior=PRIOR):
        return self.build(prior)

    def value(self, z, y, prior=PRIOR):
        term = self.make(prior)
        return term.value(z, y) if isinstance(term, Loss) else term.value(z)

    def gradient(self, z, y, prior=PRIOR):
        term = self.make(prior)
        return term.gradient(z, y) if isinstance(term, Loss) else term.gradient(z)

    def hvp(self, z, v, prior=PRIOR):
        return self.make(prior).hvp(z, v)


TERMS = [
    Term("none", lambda a: NoPenalty()),
    Term("cross-entropy", lambda a: CrossEntropy()),
    Term("firth", lambda a: Firth()),
    Term("firth-prior", Firth),
    Term("confidence", lambda a: Confidence()),
    Term("label-smoothing", lambda a: LabelSmoothing(0.3)),
    Term("label-smoothing-prior", lambda a: LabelSmoothing(0.3, a)),
    Term("ce+firth", lambda a: Objective(CrossEntropy(), Firth(), 2.5)),
    Term("ce+firth-prior", lambda a: Objective(CrossEntropy(), Firth(a), 0.1)),
    Term("ce+confidence", lambda a: Objective(CrossEntropy(), Confidence(), 0.7)),
    Term("smoothing+confidence", lambda a: Objective(LabelSmoothing(0.1), Confidence(), 3.0)),
]
every_term = pytest.mark.parametrize("term", TERMS, ids=lambda t: t.name)


@pytest.fixture(params=[0, 1, 2])
def rng(request):
    return np.random.default_rng(request.param)


@pytest.fixture
def sample(rng):
    return 3 * rng.normal(size=(5, K)), rng.integers(K, size=5), rng.normal(size=(5, K))


def test_every_registered_penalty_is_checked_here():
    checked = {type(term.make()) for term in TERMS}
    assert {type(make_penalty(name)) for name in PENALTIES} <= checked


@every_term
def test_gradient_is_the_derivative_of_the_value(term, sample):
    z, y, _ = sample
    gradient, step = term.gradient(z, y), 1e-5
    for k in range(K):
        e = step * np.eye(K)[k]
        slope = (term.value(z + e, y) - term.value(z - e, y)) / (2 * step)
        np.testing.assert_allclose(gradient[:, k], slope, atol=1e-8)


@every_term
def test_hvp_is_the_derivative_of_the_gradient(term, sample):
    z, y, v = sample
    step = 1e-5
    slope = (term.gradient(z + step * v, y) - term.gradient(z - step * v, y)) / (2 * step)
    np.testing.assert_allclose(term.hvp(z, v), slope, atol=1e-8)


@every_term
def test_hessian_is_symmetric(term, sample, rng):
    z, _, v = sample
    w = rng.normal(size=v.shape)
    np.testing.assert_allclose(
        (w * term.hvp(z, v)).sum(-1), (v * term.hvp(z, w)).sum(-1), rtol=1e-10, atol=1e-13
    )


@every_term
def test_a_batch_is_a_loop(term, rng):
    z, v = 3 * rng.normal(size=(2, 3, 5, K)), rng.normal(size=(2, 3, 5, K))
    y = rng.integers(K, size=(2, 3, 5))
    for at in np.ndindex(2, 3):
        np.testing.assert_array_equal(term.value(z, y)[at], term.value(z[at], y[at]))
        np.testing.assert_array_equal(term.gradient(z, y)[at], term.gradient(z[at], y[at]))
        np.testing.assert_array_equal(term.hvp(z, v)[at], term.hvp(z[at], v[at]))


@every_term
def test_labels_are_shared_over_leading_axes(term, rng):
    z, y = rng.normal(size=(3, 5, K)), rng.integers(K, size=5)
    repeated = np.tile(y, (3, 1))
    np.testing.assert_array_equal(term.value(z, y), term.value(z, repeated))
    np.testing.assert_array_equal(term.gradient(z, y), term.gradient(z, repeated))


@every_term
def test_renaming_the_classes_renames_the_result(term, sample, rng):
    z, y, v = sample
    order = rng.permutation(K)
    renamed = np.argsort(order)[y]
    args = (z[:, order], renamed, PRIOR[order])
    np.testing.assert_allclose(term.value(*args), term.value(z, y), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        term.gradient(*args), term.gradient(z, y)[:, order], rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose(
        term.hvp(z[:, order], v[:, order], PRIOR[order]), term.hvp(z, v)[:, order], atol=1e-13
    )


@every_term
def test_adding_a_constant_to_the_logits_changes_nothing(term, sample):
    z, y, v = sample
    shift = np.array([[-2.0], [0.0], [64.0], [1024.0], [-4096.0]])
    np.testing.assert_allclose(term.value(z + shift, y), term.value(z, y), atol=1e-10)
    np.testing.assert_allclose(term.gradient(z, y).sum(-1), 0, atol=1e-14)
    np.testing.assert_allclose(term.hvp(z, np.ones_like(v)), 0, atol=1e-14)


@every_term
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_type_of_the_logits_is_kept_and_inputs_are_not_changed(term, sample, dtype):
    z, y, v = (part.copy() for part in sample)
    z, v = z.astype(dtype), v.astype(dtype)
    for part in (z, y, v):
        part.setflags(write=False)
    for result in (term.value(z, y), term.gradient(z, y), term.hvp(z, v)):
        assert result.dtype == dtype
    np.testing.assert_allclose(
        term.value(z, y), term.value(z.astype(np.float64), y), rtol=1e-4, atol=1e-5
    )


@every_term
def test_value_and_gradient_agree_with_the_separate_calls(term, sample):
    z, y, _ = sample
    if isinstance(term.make(), Loss):
        value, gradient = term.make().value_and_gradient(z, y)
        np.testing.assert_array_equal(value, term.value(z, y))
        np.testing.assert_array_equal(gradient, term.gradient(z, y))


@pytest.mark.parametrize("penalty", [Firth(), Confidence()], ids=["firth", "confidence"])
def test_each_coefficient_of_an_array_goes_with_its_leading_index(penalty, rng):
    z, y, v = rng.normal(size=(3, 5, K)), rng.integers(K, size=5), rng.normal(size=(3, 5, K))
    together = Objective(CrossEntropy(), penalty, [0.0, 0.5, 8.0])
    for at, coefficient in enumerate([0.0, 0.5, 8.0]):
        alone = Objective(CrossEntropy(), penalty, coefficient)
        np.testing.assert_array_equal(together.value(z, y)[at], alone.value(z[at], y))
        np.testing.assert_array_equal(together.gradient(z, y)[at], alone.gradient(z[at], y))
        np.testing.assert_array_equal(together.hvp(z, v)[at], alone.hvp(z[at], v[at]))


def test_each_smoothing_and_prior_of_an_array_goes_with_its_leading_index(rng):
    z, y = rng.normal(size=(2, 5, K)), rng.integers(K, size=5)
    priors, epsilons = np.array([PRIOR, PRIOR[::-1]]), [0.1, 0.6]
    together = LabelSmoothing(epsilons, priors)
    for at in range(2):
        alone = LabelSmoothing(epsilons[at], priors[at])
        np.testing.assert_array_equal(together.value(z, y)[at], alone.value(z[at], y))
        np.testing.assert_array_equal(together.gradient(z, y)[at], alone.gradient(z[at], y))
