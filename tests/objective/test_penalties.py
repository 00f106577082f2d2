"""Every registered penalty, by one set of checks: a new one is tested by being registered."""

from __future__ import annotations

import numpy as np
import pytest

from firthshot.errors import FirthshotError
from firthshot.objective import PENALTIES, Penalty, PenaltyFamily, SampleLoss, register_penalty
from oracles.penalties import registered_cases, takes

K = 4
PRIOR = np.array([0.5, 0.0, 0.3, 0.2])
every_case = pytest.mark.parametrize("case", registered_cases(), ids=str)
every_penalty = pytest.mark.parametrize("family", PENALTIES.values(), ids=PENALTIES)


@pytest.fixture(params=[0, 1, 2])
def rng(request):
    return np.random.default_rng(request.param)


@pytest.fixture
def sample(rng):
    return 3 * rng.normal(size=(5, K)), rng.integers(K, size=5), rng.normal(size=(5, K))


@every_case
def test_gradient_is_the_derivative_of_the_value(case, sample):
    z, y, _ = sample
    loss, step = case.loss(PRIOR), 1e-5
    gradient = loss.gradient(z, y)
    for k in range(K):
        e = step * np.eye(K)[k]
        slope = (loss.value(z + e, y) - loss.value(z - e, y)) / (2 * step)
        np.testing.assert_allclose(gradient[:, k], slope, atol=1e-8)


@every_case
def test_hessian_product_is_the_derivative_of_the_gradient(case, sample):
    z, y, v = sample
    loss, step = case.loss(PRIOR), 1e-5
    slope = (loss.gradient(z + step * v, y) - loss.gradient(z - step * v, y)) / (2 * step)
    np.testing.assert_allclose(loss.hessian_product(z, v), slope, atol=1e-8)


@every_case
def test_hessian_is_symmetric(case, sample, rng):
    z, _, v = sample
    w, product = rng.normal(size=v.shape), case.loss(PRIOR).hessian_product
    np.testing.assert_allclose(
        (w * product(z, v)).sum(-1), (v * product(z, w)).sum(-1), rtol=1e-10, atol=1e-13
    )


@every_case
def test_a_batch_is_a_loop(case, rng):
    z, v = 3 * rng.normal(size=(2, 3, 5, K)), rng.normal(size=(2, 3, 5, K))
    y, loss = rng.integers(K, size=(2, 3, 5)), case.loss(PRIOR)
    for at in np.ndindex(2, 3):
        np.testing.assert_array_equal(loss.value(z, y)[at], loss.value(z[at], y[at]))
        np.testing.assert_array_equal(loss.gradient(z, y)[at], loss.gradient(z[at], y[at]))
        product = loss.hessian_product(z[at], v[at])
        np.testing.assert_array_equal(loss.hessian_product(z, v)[at], product)


@every_case
def test_labels_are_shared_over_leading_axes(case, rng):
    z, y, loss = rng.normal(size=(3, 5, K)), rng.integers(K, size=5), case.loss(PRIOR)
    repeated = np.tile(y, (3, 1))
    np.testing.assert_array_equal(loss.value(z, y), loss.value(z, repeated))
    np.testing.assert_array_equal(loss.gradient(z, y), loss.gradient(z, repeated))


@every_case
def test_renaming_the_classes_renames_the_result(case, sample, rng):
    z, y, v = sample
    order = rng.permutation(K)
    now, then = case.loss(PRIOR), case.loss(PRIOR[order])
    args, close = (z[:, order], np.argsort(order)[y]), {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(then.value(*args), now.value(z, y), **close)
    np.testing.assert_allclose(then.gradient(*args), now.gradient(z, y)[:, order], **close)
    np.testing.assert_allclose(
        then.hessian_product(z[:, order], v[:, order]), now.hessian_product(z, v)[:, order], **close
    )


@every_case
def test_adding_a_constant_to_the_logits_changes_nothing(case, sample):
    z, y, v = sample
    loss, shift = case.loss(PRIOR), np.array([[-2.0], [0.0], [64.0], [1024.0], [-4096.0]])
    np.testing.assert_allclose(loss.value(z + shift, y), loss.value(z, y), atol=1e-10)
    np.testing.assert_allclose(loss.gradient(z, y).sum(-1), 0, atol=1e-14)
    np.testing.assert_allclose(loss.hessian_product(z, np.ones_like(v)), 0, atol=1e-14)


@every_case
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_type_of_the_logits_is_kept_and_inputs_are_not_changed(case, sample, dtype):
    z, y, v = (part.copy() for part in sample)
    z, v, loss = z.astype(dtype), v.astype(dtype), case.loss(PRIOR)
    for part in (z, y, v):
        part.setflags(write=False)
    for result in (loss.value(z, y), loss.gradient(z, y), loss.hessian_product(z, v)):
        assert result.dtype == dtype
    np.testing.assert_allclose(
        loss.value(z, y), loss.value(z.astype(np.float64), y), rtol=1e-4, atol=1e-5
    )


@every_case
def test_each_coefficient_and_prior_of_an_array_goes_with_its_leading_index(case, rng):
    z, y, v = rng.normal(size=(2, 5, K)), rng.integers(K, size=5), rng.normal(size=(2, 5, K))
    family, priors, lams = PENALTIES[case.name], np.array([PRIOR, PRIOR[::-1]]), [0.0, case.lam]
    together = family.loss(lams, priors if case.prior else None)
    for at, lam in enumerate(lams):
        alone = family.loss(lam, priors[at] if case.prior else None)
        np.testing.assert_array_equal(together.value(z, y)[at], alone.value(z[at], y))
        np.testing.assert_array_equal(together.gradient(z, y)[at], alone.gradient(z[at], y))
        product = alone.hessian_product(z[at], v[at])
        np.testing.assert_array_equal(together.hessian_product(z, v)[at], product)


@every_case
def test_the_loss_is_linear_in_the_coefficient_and_cross_entropy_at_zero(case, sample):
    z, y, _ = sample
    plain, penalised = SampleLoss().value(z, y), case.loss(PRIOR).value(z, y)
    half = PENALTIES[case.name].loss(case.lam / 2, PRIOR if case.prior else None).value(z, y)
    np.testing.assert_allclose(2 * half, plain + penalised, rtol=1e-13)
    if case.lam == 0:
        np.testing.assert_array_equal(penalised, plain)


@every_case
@pytest.mark.parametrize("kind", ["mean-square", "ridge", "weight-decay"])
def test_tables_are_the_gradient_of_the_loss(case, sample, kind):
    """dLoss/dz = probability p − target − label y + confidence p (log p − Σ p log p)."""
    z, y, _ = sample
    prior = tuple(PRIOR) if case.prior else "uniform"
    tables = Penalty(case.name, (0.0, case.lam), prior, 0.25, kind).tables(y, K, 40)
    p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    excess = np.log(p) - (p * np.log(p)).sum(-1, keepdims=True)
    by_hand = (
        tables.probability[1] * p
        - tables.target[:, 1]
        - tables.label[1] * np.eye(K)[y]
        + tables.confidence[1] * p * excess
    )
    np.testing.assert_allclose(by_hand, case.loss(PRIOR).gradient(z, y), atol=1e-13)
    strength = np.array([0.25, 0.25 + PENALTIES[case.name].l2 * case.lam])
    np.testing.assert_array_equal(tables.weight_decay > 0, strength > 0)
    np.testing.assert_allclose(
        tables.weight_decay, strength * {"mean-square": 2 / 40, "ridge": 1 / 5}.get(kind, 1.0)
    )
    assert (tables.bias_decay[1] == 0) == (kind == "ridge")
    assert tables.decay_with_batch == (kind != "weight-decay")


@every_penalty
def test_some_of_the_coefficients_are_a_slice_of_the_tables(family):
    lams = tuple(lam for lam in (0.0, 0.3, 0.9, 2.5) if takes(family, lam))
    y = np.array([0, 1, 1, 2])
    whole = Penalty(family.name, lams, "class-frequency", 0.1).tables(y, 3, 12)
    part = Penalty(family.name, lams[:2], "class-frequency", 0.1).tables(y, 3, 12)
    for name, value in vars(whole.take(slice(0, 2))).items():
        np.testing.assert_array_equal(value, getattr(part, name))


def test_what_a_penalty_takes_follows_from_its_factors():
    known = {name: (family.takes_prior, family.below) for name, family in PENALTIES.items()}
    assert known["firth"] == (True, np.inf)
    assert known["label-smoothing"] == (True, 1.0)
    assert known["confidence"] == known["l2"] == known["none"] == (False, np.inf)


def test_a_penalty_is_registered_by_its_name(monkeypatch):
    with pytest.raises(FirthshotError, match="'halved' is unknown; choose from firth"):
        Penalty("halved", (0.5,))
    monkeypatch.setitem(PENALTIES, "halved", None)  # taken away again at the end
    register_penalty(PenaltyFamily("halved", label=-0.5, prior=0.5))
    assert PENALTIES["halved"].title == "halved"
    with pytest.raises(FirthshotError, match=r"coefficient = 2.0 must be below 2"):
        Penalty("halved", (0.5, 2.0))
    tables = Penalty("halved", (0.5,)).tables(np.array([0, 1]), 2, 4)
    np.testing.assert_array_equal(tables.target, [[0.125], [0.125]])
