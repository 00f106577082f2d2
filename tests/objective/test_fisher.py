"""The Fisher information against its definition, and the determinants of the oracle."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from firthshot.objective import fisher_blocks, fisher_information, sample_rank, softmax
from oracles.fisher import amended_log_det

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
@pytest.mark.parametrize("scale", [0.0, 1.0, 5.0])
def test_the_oracle_has_the_product_of_nonzero_eigenvalues(X, scale):
    z = scale * RNG.normal(size=(len(X), 3))
    exact = reference_log_pdet(X, z, sample_rank(X), digits=80)
    np.testing.assert_allclose(amended_log_det(X, z), exact, rtol=1e-8, atol=1e-8)


def test_independent_samples_have_the_closed_form():
    """Log det(F|r) = Σ_i Σ_j log P_ij + (K-1) log det XXᵀ, the paper's Eq. detfim2."""
    z = 2 * RNG.normal(size=(4, 5))
    X1 = np.column_stack([WIDE, np.ones(4)])
    closed = np.log(softmax(z)).sum() + 4 * np.linalg.slogdet(X1 @ X1.T)[1]
    np.testing.assert_allclose(amended_log_det(WIDE, z), closed, rtol=1e-9)


def test_rank_counts_the_intercept_and_finds_duplicates():
    assert sample_rank(np.eye(3)) == 3
    assert sample_rank(np.eye(3), intercept=False) == 3
    assert sample_rank(WIDE[[0, 1, 1]]) == 2
    assert sample_rank([[1.0], [2.0]]) == 2
    assert sample_rank([[1.0], [2.0]], intercept=False) == 1
