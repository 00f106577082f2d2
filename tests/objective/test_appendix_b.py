"""Appendix B: the Jacobian of the normalisation, and how far its additive formula is off."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from firthshot.objective import softmax
from oracles.fisher import additive_formula_gap, normalisation_jacobian


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def problem(seed, N=6, d=10, K=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, d)), unit(rng.normal(size=(K, d)))


def reference_log_pdet(X, beta, rank, digits=60):
    """Return log pdet of F_C = Σ_i B_iᵀ (diag p - ppᵀ) B_i, B_i = dlogits/dβ, in many digits."""
    K, d = beta.shape
    x = unit(X)
    z = x @ unit(beta).T
    p = softmax(z)
    with mpmath.workdps(digits):
        F = mpmath.zeros(K * d)
        for i in range(len(X)):
            length = np.linalg.norm(beta, axis=1, keepdims=True)
            slope = (x[i] - z[i][:, None] * unit(beta)) / length
            B = mpmath.matrix(K, K * d)
            for k in range(K):
                for a in range(d):
                    B[k, k * d + a] = mpmath.mpf(float(slope[k, a]))
            q = [mpmath.mpf(float(value)) for value in p[i]]
            M = mpmath.diag(q) - mpmath.matrix(q) * mpmath.matrix(q).T
            F += B.T * M * B
        values = sorted(mpmath.eigsy(F, eigvals_only=True), key=abs)[-rank:]
        return float(mpmath.fsum(mpmath.log(abs(value)) for value in values))


def test_jacobian_is_the_derivative_of_the_normalisation():
    beta, step = np.random.default_rng(0).normal(size=(3, 4)), 1e-6
    jacobian = normalisation_jacobian(beta)
    for a in range(4):
        e = step * np.eye(4)[a]
        slope = (unit(beta + e) - unit(beta - e)) / (2 * step)
        np.testing.assert_allclose(jacobian[..., a], slope, atol=1e-9)


def test_jacobian_kills_beta_and_has_the_amended_determinant_of_the_paper():
    beta = np.random.default_rng(1).normal(size=(3, 5)) * [[0.1], [1.0], [30.0]]
    jacobian = normalisation_jacobian(beta)
    np.testing.assert_allclose(np.einsum("kab,kb->ka", jacobian, beta), 0, atol=1e-14)
    sizes = np.linalg.eigvalsh(jacobian)[:, 1:]
    lengths = np.linalg.norm(beta, axis=1)
    np.testing.assert_allclose(np.log(sizes).sum(1), -4 * np.log(lengths), rtol=1e-12)


@pytest.mark.parametrize("length", [1.0, 3.0])
def test_the_true_determinant_is_that_of_sixty_digits(length):
    X, beta = problem(0, N=3, d=5, K=3)
    gap = additive_formula_gap(X, length * beta)
    exact = reference_log_pdet(X, length * beta, gap.true_rank)
    np.testing.assert_allclose(gap.true, exact, rtol=1e-11)


def test_with_more_samples_than_directions_the_truth_is_a_plain_determinant():
    """N = 40, d = 3: F_C is singular only along the β_j, and the powers of ‖β_j‖ are right."""
    X, beta = problem(1, N=40, d=3, K=3)
    gap = additive_formula_gap(X, beta)
    assert gap.true_rank == gap.jacobian_rank == 6
    np.testing.assert_allclose(gap.true, reference_log_pdet(X, beta, 6), rtol=1e-11)
    longer = additive_formula_gap(X, 5 * beta)
    np.testing.assert_allclose(longer.difference, gap.difference, rtol=1e-10)
    assert abs(gap.difference) > 1


def test_the_additive_formula_is_off_and_not_by_a_constant():
    """Few-shot shape, unit β: the gap depends on the directions, so gradients differ too.

    Run with ``-s`` to see the numbers.
    """
    X, _ = problem(0)
    gaps = [additive_formula_gap(X, problem(seed)[1]).difference for seed in range(100)]
    print(
        f"\nN=6 d=10 K=3, 100 random unit beta: additive - true = {np.mean(gaps):.3f} "
        f"± {np.std(gaps):.3f} (min {np.min(gaps):.3f}, max {np.max(gaps):.3f})"
    )
    assert np.min(gaps) > 0.1
    assert np.std(gaps) > 0.1


def test_the_gradients_by_the_directions_differ():
    """The part of the gradient that turns β, by differences: it is what training would follow."""
    X, beta = problem(0)
    true, additive = np.zeros_like(beta), np.zeros_like(beta)
    for at in np.ndindex(beta.shape):
        move = np.zeros_like(beta)
        move[at] = 1e-5
        ahead, behind = (additive_formula_gap(X, unit(beta + s * move)) for s in (1, -1))
        true[at] = (ahead.true - behind.true) / 2e-5
        additive[at] = (ahead.additive - behind.additive) / 2e-5
    relative = np.linalg.norm(additive - true) / np.linalg.norm(true)
    alike = (additive * true).sum() / np.linalg.norm(additive) / np.linalg.norm(true)
    print(f"\nN=6 d=10 K=3: gradients differ by {relative:.3f} of the true one, cosine {alike:.3f}")
    assert relative > 0.1


def test_the_powers_of_the_norms_are_the_rank_of_the_truth_not_of_the_jacobian():
    X, beta = problem(0)
    one, two = additive_formula_gap(X, beta), additive_formula_gap(X, 2 * beta)
    assert (one.true_rank, one.logistic_rank, one.jacobian_rank) == (12, 12, 27)
    np.testing.assert_allclose(two.true - one.true, -2 * 12 * np.log(2), rtol=1e-10)
    np.testing.assert_allclose(two.additive - one.additive, -2 * 27 * np.log(2), rtol=1e-10)


def test_norms_and_directions_do_not_separate():
    """Scaling one β changes the truth by an amount that depends on the directions."""
    X, _ = problem(0)
    scaling = np.array([[4.0], [1.0], [1.0]])
    changes = []
    for seed in (1, 2):
        beta = problem(seed)[1]
        changes.append(
            additive_formula_gap(X, scaling * beta).true - additive_formula_gap(X, beta).true
        )
    print(
        f"\nscaling one of three beta by 4 changes the truth by {changes[0]:.4f}, {changes[1]:.4f}"
    )
    assert abs(changes[0] - changes[1]) > 0.01


def test_the_gap_shrinks_with_the_dimension_for_random_directions():
    """The projections cut away 1 of d directions, which random β do not share with the data."""
    mean = {}
    for d in (10, 100, 1000):
        gaps = [additive_formula_gap(*problem(seed, d=d)).difference for seed in range(5)]
        mean[d] = np.mean(gaps)
    print("\nadditive - true, mean, N=6 K=3:", *(f"d={d}: {g:.4f}" for d, g in mean.items()))
    assert mean[1000] < mean[100] / 5 < mean[10] / 25
    assert mean[1000] > 0


def test_the_gap_does_not_shrink_when_each_beta_points_at_its_sample():
    """Sixteen ways, one shot, β where training takes it: off by more than one unit per class."""
    X = np.abs(np.random.default_rng(0).normal(size=(16, 200)))
    gap = additive_formula_gap(X, unit(X), scale=2.0)
    print(f"\nN=K=16 d=200, beta = samples, scale 2: additive - true = {gap.difference:.2f}")
    assert gap.true_rank == gap.logistic_rank == 240
    assert gap.difference > 16


def test_scale_multiplies_the_logits():
    X, beta = problem(3)
    assert additive_formula_gap(X, beta, scale=2.0).true != additive_formula_gap(X, beta).true


def test_duplicate_samples_lower_all_ranks_alike():
    X, beta = problem(4)
    gap = additive_formula_gap(X[[0, 1, 2, 3, 0, 1]], beta)
    assert (gap.true_rank, gap.logistic_rank) == (8, 8)
    np.testing.assert_allclose(
        gap.true, reference_log_pdet(X[[0, 1, 2, 3, 0, 1]], beta, 8, digits=40), rtol=1e-10
    )
