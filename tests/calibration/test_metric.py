"""The metric of the solver against the matrix it stands for, written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibration.made_up import statistics, task
from firthshot.calibration import Stream, draw
from firthshot.calibration._kernels.passes import curvatures
from firthshot.calibration._metric import Metrics, MomentFactor
from firthshot.calibration._task import CalibrationRows

WAYS, D = 4, 24


@pytest.fixture(scope="module")
def rows() -> CalibrationRows:
    support, labels, _ = task(ways=WAYS, shots=2)
    return draw(support, labels, statistics(), Stream(3, 1), artificial=4000)


@pytest.fixture(scope="module")
def chances(rows: CalibrationRows) -> Any:
    """Return probabilities (C, n) of some weights, surer of some classes than of others."""
    weights = np.random.default_rng(0).normal(size=(WAYS, D + 1)) * np.arange(1, 5)[:, None]
    z = 0.3 * weights @ rows.x[: rows.count, : D + 1].T
    return (np.exp(z) / np.exp(z).sum(axis=0)).astype(np.float32)


def sums_by_class(p: Any, labels: Any) -> Any:
    sums = np.empty((WAYS, WAYS, WAYS))
    curvatures(p, labels, sums)
    return sums


def test_curvatures_are_sums_over_the_rows_of_a_class(rows: CalibrationRows, chances: Any) -> None:
    wide = chances.astype(float)
    for y, found in enumerate(sums_by_class(chances, rows.labels)):
        mine = wide[:, rows.labels == y]
        np.testing.assert_allclose(found, np.diag(mine.sum(axis=1)) - mine @ mine.T, atol=1e-3)


def test_class_means_are_those_of_the_draws(rows: CalibrationRows) -> None:
    x = rows.x[: rows.count, : D + 1]
    drawn = np.array([x[rows.labels == y].mean(axis=0) for y in range(WAYS)])
    np.testing.assert_allclose(rows.class_means[:, : D + 1], drawn, atol=0.05)
    assert (rows.class_means[:, D + 1 :] == 0).all()


def test_the_inverse_is_that_of_the_matrix_it_stands_for(
    rows: CalibrationRows, chances: Any
) -> None:
    by_class, decay = sums_by_class(chances, rows.labels) / rows.count, 1e-3
    total, wide = by_class.sum(axis=0), slice(D + 1)
    shift = decay / (np.trace(total) / (WAYS - 1))
    means, shares = rows.class_means[:, wide].astype(float), np.bincount(rows.labels) / rows.count
    within = rows.moments[wide, wide] + np.diag([shift] * D + [0.0])
    within = within - np.einsum("y,yi,yj->ij", shares, means, means)
    matrix = np.kron(total, within)
    for own, mean in zip(by_class, means, strict=True):
        matrix += np.kron(own, np.outer(mean, mean))
    gradients = np.random.default_rng(1).normal(size=(2, WAYS, rows.x.shape[1]))
    gradients -= gradients.mean(axis=1, keepdims=True)  # as those of a softmax
    found = Metrics(rows).inverse(by_class, decay, gradients.astype(np.float32))
    for gradient, solved in zip(gradients[..., wide], found[..., wide], strict=True):
        back = (matrix @ solved.ravel().astype(float)).reshape(WAYS, D + 1)
        np.testing.assert_allclose(back, gradient, atol=2e-3)


def test_factors_serve_shifts_near_theirs(rows: CalibrationRows) -> None:
    metrics = Metrics(rows)
    first = metrics._factor(1e-3)
    assert metrics._factor(3e-3) is first
    assert metrics._factor(5e-3) is not first


def test_moments_that_float32_cannot_factorise_get_a_larger_shift(rows: CalibrationRows) -> None:
    flat = np.ones_like(rows.moments)
    flat[D:, :], flat[:, D:] = 0.0, 0.0
    flat[range(D, len(flat)), range(D, len(flat))] = 1.0
    same = CalibrationRows(
        rows.x, rows.labels, rows.count, rows.centre, 100 * flat, rows.class_means
    )
    solved = MomentFactor(same, 1e-12).solve(rows.class_means)
    assert np.isfinite(solved).all()
