"""The bench of Distribution Calibration on a tiny bank: both sides solve the same problem."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from benchmarks import calibration as bench


@pytest.fixture(scope="module")
def problem() -> bench.CalibrationProblem:
    return bench.make_problem(base=4, rows=40, d=16)


def test_the_plain_fit_with_firth_is_scikit_learns_on_weighted_copies() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(bench.WAYS), 6)
    X = rng.normal(size=(bench.WAYS, 5))[y] + rng.normal(size=(60, 5))
    copies = np.tile(X, (bench.WAYS + 1, 1))
    labels = np.concatenate([y, np.repeat(np.arange(bench.WAYS), 60)])
    weights = np.concatenate([np.ones(60), np.full(600, 0.5 / bench.WAYS)])
    theirs = LogisticRegression(tol=1e-8, max_iter=5000).fit(copies, labels, weights)
    query = rng.normal(size=(200, 5))
    assert (bench.fit_plainly(X, y, 0.5, tol=1e-8)(query) == theirs.predict(query)).all()


def test_a_case_is_compared(
    problem: bench.CalibrationProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(bench.GRIDS, 8, bench.GRIDS[2])
    plain = bench.measure_plain(problem, 1, 2, 1)
    record = bench.compare(problem, 1, 2, plain, 2)
    assert record["not_converged"] == 0
    assert record["ratio"] == pytest.approx(record["plain_s"] / record["ours_s"])
    assert bench.measure_agreement(problem, 1)["tol 1e-7"] >= 0.98
