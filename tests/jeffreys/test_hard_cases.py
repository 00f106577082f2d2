"""Data on which a careless solver loops, crashes, loses digits or stops at a lower maximum."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reference
from golden_data import load
from scipy.special import expit

from firthshot.jeffreys import JeffreysLogisticRegression
from firthshot.jeffreys._kernels import memory
from firthshot.jeffreys._model import make_maximum, make_model, maximise
from firthshot.jeffreys.estimator import CollinearityError

SKEWED = np.array(
    [
        0.006,
        0.039,
        0.048,
        0.074,
        0.149,
        0.166,
        0.169,
        0.181,
        0.19,
        0.286,
        0.326,
        0.384,
        0.386,
        0.397,
        0.527,
        0.541,
        0.693,
        0.805,
        0.828,
        0.9,
        1.198,
        1.238,
        1.345,
        3.216,
        3.273,
        4.326,
        7.927,
        11.425,
        13.282,
        42.662,
        56.725,
        514.185,
    ],
)
SKEWED_LABELS = (SKEWED > 3.0).astype(int)
SKEWED_LABELS[6] = 1

TWO_COLUMNS = np.array(
    [
        0.36,
        0.31,
        5.14,
        -0.03,
        0.06,
        -0.55,
        2.29,
        0.62,
        0.15,
        -1.26,
        0.9,
        1.37,
        24.99,
        0.44,
        0.03,
        1.37,
        7.33,
        0.06,
        9.76,
        0.88,
        1.59,
        0.07,
        0.11,
        -1.01,
        0.7,
        1.9,
        5.79,
        0.72,
        4.96,
        1.82,
        1.84,
        1.47,
        0.09,
        0.68,
        0.69,
        1.22,
        231.79,
        -0.28,
        1.79,
        -3.4,
        4.18,
        0.33,
        1.38,
        -1.23,
        0.01,
        -0.58,
        1.47,
        0.43,
        1.33,
        0.79,
        0.28,
        -1.31,
        16.74,
        1.15,
        1.36,
        0.12,
        22.54,
        -1.22,
        66.53,
        0.26,
        0.51,
        2.06,
    ],
).reshape(-1, 2)
TWO_COLUMNS_LABELS = np.isin(np.arange(31), [2, 4, 11, 16, 22, 25]).astype(int)


def firth(*arguments, **parameters):
    return JeffreysLogisticRegression(**parameters).fit(*arguments)


def test_profiles_without_penalty_end_in_separated_data():
    code = """
import warnings; warnings.simplefilter("ignore")
from golden_data import load
from firthshot.jeffreys import JeffreysLogisticRegression
data = load("binary_endometrial")
print(JeffreysLogisticRegression(tau=0.0).fit(data.X, data.y).conf_int().tolist())
"""
    # Compiled code cannot be interrupted from within: a loop without end needs a process.
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "[-0.13707" in done.stdout


@pytest.mark.parametrize("spoiled", [np.nan, np.inf])
def test_a_spoiled_start_ends_the_solver(spoiled):
    model = make_model(np.arange(6.0)[:, None], np.array([0, 1, 0, 1, 0, 1]), 2, intercept=True)
    work = model.make_work()
    assert not maximise(model, work, np.full(2, spoiled), 1e-8, 50).converged
    found = model.run(
        "profile_bound", model.data, work, np.zeros(2), np.array([[spoiled, 1.0]]),
        (-6.0, 2.0), 1.0, 1e-8, 50,
    )  # fmt: skip
    assert found[-1] != memory.CONVERGED


def test_bounds_of_a_skewed_column_in_separated_data():
    model = firth(TWO_COLUMNS, TWO_COLUMNS_LABELS)
    bounds = model.conf_int()
    assert model.penalised_loglik_ == pytest.approx(-2.3515, abs=1e-3)
    assert np.all(bounds[:, 0] < model.params_)
    assert np.all(bounds[:, 1] > model.params_)
    for k, name in enumerate(model.parameter_names_):
        for bound in bounds[k]:
            assert model.test({name: bound}).p_value == pytest.approx(0.05, abs=1e-4)


def test_a_profile_higher_than_the_fit_is_told(monkeypatch):
    monkeypatch.setattr(
        "firthshot.jeffreys._several_maxima.highest", lambda fitted, max_iter: fitted
    )
    model = firth(TWO_COLUMNS, TWO_COLUMNS_LABELS)
    assert model.penalised_loglik_ == pytest.approx(-6.8631, abs=1e-3)
    assert np.isnan(model.conf_int()[2]).any()
    assert "not the\nhighest" in str(model.summary())


@pytest.mark.parametrize("constant", [-60.0, -300.0, 80.0])
def test_large_offsets(constant):
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    model = firth(X, y, None, np.full(20, constant))
    assert model.converged_
    np.testing.assert_allclose(model.params_, firth(X, y).params_ - [constant, 0.0, 0.0], rtol=1e-6)


def test_the_solver_leaves_a_flat_place():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    model = make_model(X, y, 2, intercept=True, offset=np.full((20, 1), -60.0))
    end = maximise(model, model.make_work(), np.zeros(3), 1e-8, 100)
    assert end.converged
    assert model.to_beta(end.theta)[0, 0] == pytest.approx(60.1023, abs=1e-3)


def test_a_failed_line_search_is_no_convergence():
    model = make_model(np.arange(6.0)[:, None], np.array([0, 1, 0, 1, 0, 1]), 2)
    theta = np.zeros(1)
    ended = make_maximum(model, theta, (-4.0, 0.3, 2, memory.NO_ASCENT))
    assert not ended.converged
    ended = make_maximum(model, theta, (-4.0, 3e-6, 2, memory.NO_ASCENT))
    assert ended.converged
    assert "3.0e-06" in ended.reason


def test_powers_of_a_raw_year():
    rng = np.random.default_rng(3)
    year, x = rng.integers(1990, 2021, 100).astype(float), rng.normal(size=100)
    y = (rng.random(100) < expit(x + 0.1 * (year - 2005))).astype(int)
    designs = [np.column_stack([x, t, t**2, t**3, t**4]) for t in (year - 2005.0, year)]
    centred, raw = (firth(X, y) for X in designs)
    assert raw.params_[1] == pytest.approx(centred.params_[1], rel=1e-5)
    np.testing.assert_allclose(raw.conf_int()[1], centred.conf_int()[1], rtol=1e-5)
    assert np.all(np.isfinite(raw.bse()))
    np.testing.assert_allclose(raw.bse()[[1, 5]], centred.bse()[[1, 5]], rtol=1e-4)
    np.testing.assert_allclose(raw.predict_proba(designs[1])[:, 1], raw.fit_.P[0], atol=1e-4)
    with pytest.raises(CollinearityError, match="centre"):
        firth(np.column_stack([designs[1], year**5]), y, collinear="refuse")


def test_milliseconds_since_1970():
    rng = np.random.default_rng(4)
    x, seconds = rng.normal(size=100), np.floor(rng.random(100) * 86400)
    y = (rng.random(100) < expit(x + seconds / 28800 - 1.5)).astype(int)
    X = np.column_stack([x, 1.7e12 + 1000 * seconds])
    model, plain = firth(X, y), firth(np.column_stack([x, seconds]), y)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], plain.fit_.P[0], atol=1e-6)
    np.testing.assert_allclose(model.bse()[1:] * [1, 1000], plain.bse()[1:], rtol=1e-5)
    assert np.isfinite(model.bse()[0])


@pytest.mark.filterwarnings("ignore::firthshot.jeffreys.CollinearityWarning")
def test_what_is_collinear_does_not_depend_on_units():
    rng = np.random.default_rng(0)
    a, b, y = rng.normal(size=30), rng.normal(size=30), np.arange(30) % 2
    model = firth(np.column_stack([a, 1e6 * a, b]), y)
    assert np.isfinite(model.bse()).tolist() == [True, False, False, True]


def test_the_highest_maximum_of_a_skewed_column():
    model = firth(SKEWED[:, None], SKEWED_LABELS)
    assert model.converged_
    assert model.penalised_loglik_ == pytest.approx(-4.633028, abs=1e-5)
    np.testing.assert_allclose(model.params_, [-3.30862, 1.37562], atol=1e-4)
    direct = reference.penalised_loglik(
        model.params_[None], np.column_stack([np.ones(32), SKEWED]), SKEWED_LABELS,
        np.ones(32), np.zeros((32, 1)), 0.5,
    )  # fmt: skip
    assert direct == pytest.approx(model.penalised_loglik_, abs=1e-8)
    assert model.test("x0").p_value < 1e-4


@pytest.mark.parametrize("seed", range(4))
def test_no_drawn_start_ends_higher(seed):
    rng = np.random.default_rng(seed)
    x = np.exp(2.5 * rng.normal(size=(60, 1)))
    y = (rng.random(60) < expit(3.0 * (x[:, 0] - 1.0))).astype(int)
    fitted = firth(x, y).fit_
    work = fitted.model.make_work()
    for start in rng.normal(size=(40, 2)) * [3.0, 300.0]:
        end = maximise(fitted.model, work, start, 1e-6, 100)
        assert not end.converged or end.penalised_loglik < fitted.penalised_loglik + 1e-6


def test_ordinary_data_are_fitted_once(monkeypatch):
    def refuse(*_):
        raise AssertionError("a second start")

    monkeypatch.setattr("firthshot.jeffreys._several_maxima._add_ends", refuse)
    rng = np.random.default_rng(0)
    dummies = (rng.random((200, 2)) < [0.01, 0.5]).astype(float)
    dummies[0, 0] = 1.0
    X = np.column_stack([rng.normal(size=(200, 2)), rng.exponential(size=200), dummies])
    assert firth(X, np.arange(200) % 2).converged_


def test_null_calibrated_knows_the_intercept():
    rng = np.random.default_rng(1)
    x, z, year = rng.normal(size=200), rng.normal(size=200), 2000.0 + rng.integers(0, 20, 200)
    y = (rng.random(200) < expit(x + 0.2 * (year - 2010) - 3.0)).astype(int)
    chi2 = [
        firth(np.column_stack([x, z, t, t**2]), y).test("x0", penalty="null-calibrated").chi2
        for t in (year - 2010.0, year, 100.0 * year)
    ]
    np.testing.assert_allclose(chi2, chi2[0], rtol=1e-5)


@pytest.mark.parametrize("penalty", ["null-calibrated", "drop-column"])
def test_weak_variables_have_a_statistic_of_zero(penalty):
    lowest = np.inf
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
        if penalty == "drop-column":
            X[:, 1] *= 1e-3  # in these units the larger model lies lower
        found = firth(X, y).test("x1", penalty=penalty)
        assert found.converged
        assert found.p_value == 1.0 or found.chi2 > 0.0
        lowest = min(lowest, found.chi2)
    assert lowest == 0.0


@pytest.mark.filterwarnings("ignore")
def test_a_profile_does_not_invent_bounds():
    x, y = np.array([0, 0, 0, 0, 1, 1, 1, 1, 0.0]), np.array([0, 0, 1, 1, 1, 1, 1, 1, 0])
    model = firth(x[:, None], y, tau=0.0)
    profile = model.profile("x0")
    np.testing.assert_array_equal(profile.interval, model.conf_int()[1])
    assert not np.all(np.isfinite(profile.interval))
    model.plot_profile("x0")


def test_rows_of_weight_zero_count_in_the_mask_of_separation():
    X, y = np.array([[0], [0], [0], [1], [1], [1], [2]]), [0, 0, 0, 1, 1, 1, 1]
    found = firth(X, y, [0, 1, 1, 1, 1, 1, 1]).separation()
    assert found.separated.tolist() == [False] + [True] * 6
    assert "6 of 6 rows" in str(found)


def test_golden_data_are_not_moved_by_more_starts():
    data = load("binary_endometrial")
    assert not firth(data.X, data.y).fit_.others
