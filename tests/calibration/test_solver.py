"""The solver for many rows against scikit-learn and against a literal implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from calibration.made_up import statistics, task
from firthshot.calibration import CalibratedLinear, CalibrationTerms, Stream, draw, solve_path
from firthshot.engine import Converged, Linear, Penalty, train
from firthshot.engine.results import Status
from firthshot.episodes import sample_episodes

PATH = (0.0, 0.03, 0.3, 3.0)


def literal(X: Any, y: Any, lam: float, ways: int) -> LogisticRegression:
    """Fit scikit-learn with Firth as weighted copies: row i also counts λ/K for every class."""
    copies = np.tile(X, (ways + 1, 1))
    labels = np.concatenate([y, np.repeat(np.arange(ways), len(X))])
    weights = np.concatenate([np.ones(len(X)), np.full(ways * len(X), lam / ways)])
    if lam == 0:
        copies, labels, weights = X, y, None
    # Of two classes scikit-learn has one row, the difference: ½‖w‖² is twice our ½‖W‖².
    C = 2.0 if ways == 2 else 1.0
    return LogisticRegression(C=C, tol=1e-9, max_iter=20_000).fit(copies, labels, weights)


@pytest.mark.parametrize(("ways", "shots"), [(4, 1), (10, 5), (2, 2)])
def test_the_same_optimum_as_scikit_learn(ways: int, shots: int) -> None:
    support, labels, query = task(ways=ways, shots=shots)
    rows = draw(support, labels, statistics(), Stream(3, 1), artificial=80)
    path = [
        CalibrationTerms(1 + lam, 1.0, np.full(ways, lam / ways), 1 / rows.count) for lam in PATH
    ]
    found = solve_path(rows, ways, path, 1e-7, 200)
    X = rows.x[: rows.count, :24].astype(float) + rows.centre
    for lam, one in zip(PATH, found, strict=True):
        assert one.status == Status.OK
        coef, intercept = rows.weights(one.theta)
        theirs = literal(X, rows.labels, lam, ways)
        public = coef[1:] - coef[:1] if ways == 2 else coef
        np.testing.assert_allclose(public, theirs.coef_, atol=2e-3)
        ours = (query @ coef.T + intercept).argmax(1)
        assert (ours == theirs.predict(query)).mean() >= 0.99


def test_coefficients_do_not_depend_on_their_company() -> None:
    support, labels, _ = task()
    rows = draw(support, labels, statistics(), Stream(3, 1), artificial=80)
    path = [CalibrationTerms(1 + lam, 1.0, np.full(4, lam / 4), 1 / rows.count) for lam in PATH]
    together = solve_path(rows, 4, path, 1e-7, 200)
    for terms, one in zip(path, together, strict=True):
        alone = solve_path(rows, 4, [terms], 1e-7, 200)[0]
        np.testing.assert_allclose(alone.theta, one.theta, atol=5e-4)


def test_too_few_iterations_are_told() -> None:
    support, labels, _ = task()
    rows = draw(support, labels, statistics(), Stream(3, 1), artificial=80)
    (one,) = solve_path(rows, 4, [CalibrationTerms(1.0, 1.0, np.zeros(4), 1 / rows.count)], 1e-7, 2)
    assert one.status == Status.NOT_CONVERGED
    assert one.iterations == 2


@pytest.fixture(scope="module")
def bank() -> Any:
    from firthshot.banks import make_bank

    rng = np.random.default_rng(5)
    means = rng.normal(size=(8, 24))
    X = np.sqrt(np.maximum(0.8 * means.repeat(60, axis=0) + rng.normal(size=(480, 24)) + 0.5, 0))
    return make_bank(
        X,
        np.repeat(np.arange(8), 60),
        name="toy",
        classes=[f"c{i}" for i in range(8)],
        class_splits=["novel"] * 8,
    )


def trained(bank: Any, head: Any, trials: int, threads: int = 1, keep: Any = ()) -> Any:
    episodes = sample_episodes(bank, "novel", ways=4, shots=2, trials=trials, queries=15)
    penalty = Penalty("firth", (0.0, 0.3), l2=1.0, l2_kind="ridge")
    solver = Converged(tolerance=1e-6)
    return train(bank.features, episodes, head, solver, penalty, threads=threads, keep=keep)


def test_without_artificial_rows_it_is_the_plain_head(bank: Any) -> None:
    plain = trained(bank, Linear(), 5)
    none = trained(bank, CalibratedLinear(statistics(), artificial=0), 5)
    for name in ("accuracy", "nll", "norm", "status"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(none, name))


def test_the_same_bits_on_any_number_of_threads(bank: Any) -> None:
    head = CalibratedLinear(statistics(), artificial=60)
    one, two = trained(bank, head, 8), trained(bank, head, 8, threads=3)
    assert (one.status == 0).all()
    for name in ("accuracy", "nll", "brier", "norm"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()


def literal_tasks(bank: Any, trials: int, artificial: int) -> tuple[float, float, Any, Any]:
    """Compare with a literal implementation: on the same rows, and on rows of its own."""
    base, head = statistics(), CalibratedLinear(statistics(), artificial=artificial)
    episodes = sample_episodes(bank, "novel", ways=4, shots=2, trials=trials, queries=15)
    ours = trained(bank, head, trials, threads=2, keep=("predictions",))
    rng, alike, theirs = np.random.default_rng(0), [], []
    for t in range(trials):
        episode = episodes[t]
        support, query = bank.features[episode.support], bank.features[episode.query]
        rows = head.draw(support, episode.support_labels, episodes.key, episode.trial)
        X = rows.x[: rows.count, :24] + rows.centre
        same = literal(X, rows.labels, 0.0, 4).predict(query)
        alike.append((same == ours.kept["predictions"][t][0]).mean())
        parts, labels = [support], [episode.support_labels]
        for x, label in zip(support.astype(float), episode.support_labels, strict=True):
            near = np.argsort(((base.means - x) ** 2).sum(1))[:2]
            covariance = base.covariances[near].mean(0, dtype=float) + 0.21
            mean = (base.means[near].sum(0) + x) / 3
            parts.append(rng.multivariate_normal(mean, covariance, artificial // 2))
            labels.append(np.full(artificial // 2, label))
        own = LogisticRegression(max_iter=1000).fit(np.concatenate(parts), np.concatenate(labels))
        theirs.append((own.predict(query) == episode.query_labels).mean())
    differences = ours.accuracy[:, 0] - np.array(theirs)
    return float(np.mean(alike)), float(differences.mean()), differences, theirs


def test_a_literal_implementation_agrees(bank: Any) -> None:
    alike, gap, differences, _ = literal_tasks(bank, 15, 100)
    assert alike >= 0.995
    assert abs(gap) < 4 * differences.std(ddof=1) / np.sqrt(len(differences)) + 1e-9


@pytest.mark.slow
def test_a_literal_implementation_agrees_over_200_tasks(bank: Any) -> None:
    alike, gap, differences, _ = literal_tasks(bank, 200, 750)
    assert alike >= 0.995
    assert abs(gap) < 2 * differences.std(ddof=1) / np.sqrt(len(differences))
