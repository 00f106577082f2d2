"""The Fisher information and its amended determinant, against definitions in many digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firthshot.objective import (
    amended_log_det,
    amended_log_det_gradient,
    fisher_blocks,
    fisher_information,
    log_det_blocks,
    softmax,
    span_of,
)
from firthshot.objective._gram import multinomial_factor, whitened_classes
from firthshot.objective._softmax import log_softmax

RNG = np.random.default_rng(20)
TALL = RNG.normal(size=(6, 2))
# multiples of 1/64, so that sums of samples are exact and dependence is not a matter of rounding
WIDE = np.round(64 * RNG.normal(size=(4, 7))) / 64
DESIGNS = {
    "rank=N": WIDE,
    "duplicates": WIDE[[0, 1, 2, 0, 1]],
    "d<N": TALL,
    "dependent": np.vstack([WIDE[:3], 0.25 * WIDE[0] + 0.75 * WIDE[1]]),
    "constant-feature": np.column_stack([TALL, np.full(6, 2.0)]),
}
every_design = pytest.mark.parametrize("X", DESIGNS.values(), ids=DESIGNS)


def reference_log_pdet(X, z, rank, digits=50):
    """Return log of the product of the largest rank·J eigenvalues of F, with ``digits`` digits."""
    with mpmath.workdps(digits):
        rows = mpmath.matrix(np.column_stack([X, np.ones(len(X))]).tolist())
        (N, d), J = (rows.rows, rows.cols), z.shape[1] - 1
        F = mpmath.zeros(d * J)
        for i in range(N):
            powers = [mpmath.exp(mpmath.mpf(float(value))) for value in z[i]]
            p = [power / mpmath.fsum(powers) for power in powers][1:]
            for j, k, a, b in np.ndindex(J, J, d, d):
                weight = p[j] * ((j == k) - p[k])
                F[j * d + a, k * d + b] += weight * rows[i, a] * rows[i, b]
        values = sorted(mpmath.eigsy(F, eigvals_only=True), key=abs)[-rank * J :]
        return float(mpmath.fsum(mpmath.log(value) for value in values))


def test_blocks_are_the_covariance_of_a_one_hot_draw_without_class_zero():
    z = RNG.normal(size=(2, 3, 4))
    p = softmax(z)
    full = np.eye(4) * p[..., None] - p[..., :, None] * p[..., None, :]
    np.testing.assert_allclose(fisher_blocks(z), full[..., 1:, 1:], rtol=1e-12)


def test_log_det_of_the_blocks_is_the_sum_of_log_probabilities():
    z = 2 * RNG.normal(size=(2, 3, 4))
    np.testing.assert_allclose(log_det_blocks(z), np.linalg.slogdet(fisher_blocks(z))[1])
    tiny = [[0.0, -1e4, 3000.0]]
    np.testing.assert_array_equal(log_det_blocks(tiny), [-3000.0 - 13000.0])


def test_information_is_the_papers_kronecker_product_and_the_hessian_of_the_loss():
    """F = (X ⊗ I)ᵀ M (X ⊗ I) with classes outside here, and Σ_i x x' ⊗ M_i by differences."""
    X, W = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 3))

    def total_gradient(W):
        return X.T @ softmax(X @ W)[:, 1:]

    F, step = fisher_information(X, X @ W, intercept=False), 1e-6
    for j in range(2):
        for a in range(3):
            move = np.zeros_like(W)
            move[a, j + 1] = step
            slope = (total_gradient(W + move) - total_gradient(W - move)) / (2 * step)
            np.testing.assert_allclose(F[j * 3 + a], slope.T.ravel(), atol=1e-9)


def test_information_counts_the_intercept_and_batches():
    X, z = TALL, RNG.normal(size=(2, 6, 3))
    F = fisher_information(X, z)
    assert F.shape == (2, 6, 6)
    by_hand = fisher_information(np.column_stack([X, np.ones(6)]), z[1], intercept=False)
    np.testing.assert_allclose(F[1], by_hand, rtol=1e-14)


@every_design
@pytest.mark.parametrize("scale", [0.0, 1.0, 10.0])
def test_amended_log_det_is_the_product_of_nonzero_eigenvalues(X, scale):
    z = scale * RNG.normal(size=(len(X), 3))
    exact = reference_log_pdet(X, z, span_of(X).rank, digits=80)
    np.testing.assert_allclose(amended_log_det(X, z), exact, rtol=1e-11, atol=1e-10)


@every_design
def test_amended_log_det_keeps_its_digits_when_probabilities_are_tiny(X):
    """Probabilities down to e^-400: 400 digits for the reference, double precision for us."""
    z = np.random.default_rng(5).uniform(-200, 200, size=(len(X), 3))
    exact = reference_log_pdet(X, z, span_of(X).rank, digits=400)
    np.testing.assert_allclose(amended_log_det(X, z), exact, rtol=1e-12)


def test_eigenvalues_of_the_information_are_off_by_hundreds():
    """Why nothing here goes through them: all of it is rounding once P is tiny."""
    X = WIDE
    z = np.random.default_rng(5).uniform(-200, 200, size=(4, 3))
    values = np.linalg.eigvalsh(fisher_information(X, z))[-8:]
    through_eigenvalues = np.log(np.abs(values)).sum()
    assert abs(through_eigenvalues - amended_log_det(X, z)) > 200


def test_independent_samples_have_the_closed_form():
    z = 5 * RNG.normal(size=(3, 4, 5))
    X1 = np.column_stack([WIDE, np.ones(4)])
    closed = np.log(softmax(z)).sum((-2, -1)) + 4 * np.linalg.slogdet(X1 @ X1.T)[1]
    np.testing.assert_allclose(amended_log_det(WIDE, z), closed, rtol=1e-13)


@every_design
def test_gradient_is_the_derivative(X):
    z, step = 2 * RNG.normal(size=(len(X), 4)), 1e-5
    gradient = amended_log_det_gradient(X, z)
    for at in np.ndindex(z.shape):
        move = np.zeros_like(z)
        move[at] = step
        slope = (amended_log_det(X, z + move) - amended_log_det(X, z - move)) / (2 * step)
        np.testing.assert_allclose(gradient[at], slope, atol=1e-8)


@every_design
def test_gradient_stays_bounded_at_extreme_logits(X):
    z = np.random.default_rng(6).uniform(-1e4, 1e4, size=(len(X), 4))
    gradient = amended_log_det_gradient(X, z)
    assert np.isfinite(amended_log_det(X, z))
    np.testing.assert_allclose(gradient.sum(-1), 0, atol=1e-12)
    assert np.abs(gradient).max() <= 4


@every_design
def test_a_batch_of_logits_is_a_loop(X):
    z = RNG.normal(size=(2, 3, len(X), 4))
    for function in (amended_log_det, amended_log_det_gradient):
        together = function(X, z)
        for at in np.ndindex(2, 3):
            np.testing.assert_allclose(together[at], function(X, z[at]), rtol=1e-13, atol=1e-13)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.sampled_from([0.1, 3.0, 1000.0]))
def test_the_reference_class_and_the_order_of_samples_do_not_matter(seed, K, scale):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5, 2))
    z = scale * rng.normal(size=(5, K))
    classes, samples = rng.permutation(K), rng.permutation(5)
    np.testing.assert_allclose(
        amended_log_det(X[samples], z[samples][:, classes]),
        amended_log_det(X, z),
        rtol=1e-11,
        atol=1e-10,
    )


@settings(deadline=None)
@given(st.lists(st.floats(-300, 300), min_size=2, max_size=6))
def test_the_factor_of_the_covariance_is_exact_and_its_whitening_orthonormal(z):
    log_p = log_softmax([z])
    log_weights, rows = multinomial_factor(log_p)
    p, K = np.exp(log_p[0]), len(z)
    rebuilt = np.einsum("j,jk,jl->kl", np.exp(2 * log_weights[0]), rows[0], rows[0])
    np.testing.assert_allclose(rebuilt, np.diag(p) - np.outer(p, p), atol=1e-15)
    np.testing.assert_allclose(2 * log_weights.sum(), log_p.sum(), rtol=1e-12, atol=1e-12)
    V = whitened_classes(log_p)[0]
    np.testing.assert_allclose(V @ V.T, np.eye(K - 1), atol=1e-11)
    np.testing.assert_allclose(V @ np.sqrt(p), 0, atol=1e-11)


def test_rank_counts_the_intercept_and_finds_duplicates():
    assert span_of(np.eye(3)).independent
    assert span_of(np.eye(3), intercept=False).rank == 3
    assert not span_of(WIDE[[0, 1, 1]]).independent
    assert span_of([[1.0], [2.0]]).independent
    assert not span_of([[1.0], [2.0]], intercept=False).independent
