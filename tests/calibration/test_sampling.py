"""Calibrated distributions and the rows drawn from them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from calibration.made_up import base_rows, statistics, task
from firthshot.calibration import BaseStatistics, Stream, calibrate, draw, tukey
from firthshot.calibration._sampling import FactorCache, factorise
from firthshot.errors import FirthshotError


def test_calibration_is_the_textbook_one() -> None:
    base, (support, labels, _) = statistics(), task()
    made = calibrate(support, labels, base, artificial=75, neighbours=2)
    for s, x in enumerate(support):
        near = np.argsort(((base.means - x) ** 2).sum(1))[:2]
        assert set(near) == set(made.neighbours[s])
        np.testing.assert_allclose(made.means[s], (base.means[near].sum(0) + x) / 3, rtol=1e-6)
    assert (made.draws == 37).all()  # 75 over two rows; the odd one is dropped


@pytest.mark.parametrize("rows", [60, 8])  # 8 rows: singular covariances
def test_moments_of_the_draws(rows: int) -> None:
    """Mean and covariance of 40,000 draws lie within five standard errors of what is asked."""
    base, (support, labels, _) = statistics(rows=rows), task(ways=2, shots=1)
    n, alpha = 40_000, 0.21
    made = draw(support, labels, base, Stream(9, 4), artificial=n, alpha=alpha)
    drawn = made.x[:n, :24].astype(float) + made.centre
    asked = calibrate(support, labels, base, artificial=n, neighbours=2)
    covariance = base.covariances[asked.neighbours[0]].mean(0, dtype=float) + alpha
    variances = np.diag(covariance)
    assert (np.abs(drawn.mean(0) - asked.means[0]) < 5 * np.sqrt(variances / n)).all()
    error = np.sqrt((np.outer(variances, variances) + covariance**2) / n)
    assert (np.abs(np.cov(drawn.T) - covariance) < 5 * error + 1e-5).all()
    # The solver is told the second moments of these rows before they are drawn.
    x = made.x[: made.count, :25].astype(float)
    np.testing.assert_allclose(made.moments[:25, :25], x.T @ x / made.count, atol=0.05)


def test_rows_are_laid_out_for_the_solver() -> None:
    base, (support, labels, _) = statistics(), task()
    made = draw(support, labels, base, Stream(1, 2), artificial=30)
    assert made.x.shape == (128, 32)  # 4 classes × 30 + 8 rows; 24 features and a one
    assert made.count == 128
    np.testing.assert_allclose(made.x[120:, :24] + made.centre, support, atol=1e-5)
    assert (made.x[:, 24] == 1).all()
    assert (made.x[:, 25:] == 0).all()
    assert (made.labels[120:] == labels).all()


def test_draws_depend_on_the_trial_alone() -> None:
    base, (support, labels, _) = statistics(), task()

    def rows(trial: int) -> bytes:
        return draw(support, labels, base, Stream(1, trial), artificial=30).x.tobytes()

    with ThreadPoolExecutor(4) as pool:
        many = list(pool.map(rows, [0, 1, 2, 3, 0, 1, 2, 3]))
    assert many[:4] == many[4:]
    assert len(set(many)) == 4
    fresh = BaseStatistics.from_rows(base_rows(), "made up")
    assert draw(support, labels, fresh, Stream(1, 3), artificial=30).x.tobytes() == many[3]


def test_factors_are_kept_within_a_budget() -> None:
    base = statistics()
    cache = FactorCache(budget=2 * 24 * 24 * 4)
    first = cache.get(base, (0, 1))
    assert cache.get(base, (0, 1)) is first
    cache.get(base, (0, 2))
    cache.get(base, (1, 2))
    assert cache.get(base, (0, 1)) is not first
    np.testing.assert_array_equal(cache.get(base, (0, 1)), first)


def test_a_singular_covariance_is_changed_below_its_rounding() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 30))
    covariance = np.cov(rows.T)
    factor = factorise(covariance[None].astype(np.float32)).astype(float)
    size = np.linalg.norm(covariance)
    assert np.abs(factor @ factor.T - covariance).max() < 1e-6 * size
    assert not factorise(np.zeros((2, 4, 4), np.float32)).any()


def test_no_covariance() -> None:
    with pytest.raises(FirthshotError, match="indefinite"):
        factorise(-np.eye(3, dtype=np.float32)[None])


@pytest.mark.parametrize(
    ("change", "words"),
    [({"neighbours": 7}, "between 1 and the 6 base classes"), ({"d": 20}, "same backbone")],
)
def test_what_does_not_fit(change: dict[str, int], words: str) -> None:
    support, labels, _ = task(d=change.get("d", 24))
    with pytest.raises(FirthshotError, match=words):
        draw(support, labels, statistics(), Stream(0, 0), neighbours=change.get("neighbours", 2))


def test_tukey() -> None:
    X = np.array([-4.0, -0.0, 0.0, 2.25])
    np.testing.assert_allclose(tukey(X), [-2, 0, 0, 1.5])
    np.testing.assert_allclose(tukey(X, 2), [-16, 0, 0, 5.0625])
    assert tukey(X, 1) is X
    np.testing.assert_allclose(tukey(np.array([1.0, np.e]), 0), [0, 1])
    with pytest.raises(FirthshotError, match="not above zero"):
        tukey(X, 0)
    with pytest.raises(FirthshotError, match="must not be negative"):
        tukey(X, -1)
