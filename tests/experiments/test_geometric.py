"""The geometric experiment against exact expectations, loops and interruptions."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest, nbinom

from firthshot.errors import FirthshotError
from firthshot.experiments.geometric import (
    error_sums,
    exact_mle_mean,
    jackknife_slope,
    read_geometric,
    result_of,
    run_geometric,
)
from firthshot.experiments.run.status import read_status
from firthshot.experiments.spec import (
    GeometricSpec,
    SpecError,
    build_any,
    load_any,
    load_spec,
    preset_names,
)
from firthshot.kernels.streams import NOISE, philox, stream_key


def small(**fields: object) -> GeometricSpec:
    given = {"kind": "geometric", "name": "toy", "sample_size": 12, "slope": [3, 12], "trials": 230}
    spec = build_any({**given, **fields})
    assert isinstance(spec, GeometricSpec)
    return spec


def preset(**fields: object) -> GeometricSpec:
    spec = load_any("geometric", fields)
    assert isinstance(spec, GeometricSpec)
    return spec


def mean_by_sum(size: int, p: float) -> float:
    """Sum N / s over the negative binomial distribution of s."""
    failures = np.arange(200_000)
    return float((size / (size + failures) * nbinom.pmf(failures, size, p)).sum())


@pytest.mark.parametrize("p", [0.5, 0.1, 0.9])
@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_exact_mean_is_that_of_the_negative_binomial(size: int, p: float) -> None:
    assert exact_mle_mean(np.array([size]), p)[0] == pytest.approx(mean_by_sum(size, p), rel=1e-9)


def test_exact_mean_of_one_draw_and_the_limit_of_many() -> None:
    assert exact_mle_mean(np.array([1]), 0.5)[0] == pytest.approx(np.log(2), rel=1e-12)
    sizes = np.array([10**4, 10**5])
    bias = exact_mle_mean(sizes, 0.5) - 0.5
    np.testing.assert_allclose(bias * 4 * sizes, 1, rtol=1e-3)  # the paper's 1 / (4N)


def draws_of(trial: int, count: int, p: float) -> list[int]:
    """Toss by the definition: the smallest k with (1 − p)^k ≤ u, in exact arithmetic."""
    out, miss = [], Fraction(1) - Fraction(p)
    words = np.empty(4, np.uint64)
    for i in range(count):
        philox(np.uint64(stream_key("geometric")), i // 4, 0, trial, NOISE, words, 0)
        u = (Fraction(int(words[i % 4])) + Fraction(1, 2)) / 2**32
        k = 1
        while miss**k > u:
            k += 1
        out.append(k)
    return out


@pytest.mark.parametrize("p", [0.5, 0.25])
def test_sums_are_those_of_the_plain_loop(p: float) -> None:
    spec = small(p=p)
    expected = np.zeros((12, 4))
    for trial in range(3, 30):
        y = draws_of(trial, 12, p)
        for n in range(1, 13):
            size, mean = (1.01 if n == 1 else n), np.mean(y[:n])
            firth = (size - 1) / (size * mean - 1) - p
            mle = 1 / mean - p
            expected[n - 1] += mle, mle**2, firth, firth**2
    np.testing.assert_allclose(error_sums(spec, (3, 30)), expected, rtol=1e-11, atol=1e-12)


def test_draws_are_geometric() -> None:
    y = np.array([draws_of(trial, 20, 0.5) for trial in range(100)]).ravel()
    counts = np.bincount(y, minlength=6)[1:6] / len(y)
    np.testing.assert_allclose(counts, 0.5 ** np.arange(1, 6), atol=0.04)


@pytest.fixture(scope="module")
def result():
    spec = preset(trials=300_000)
    return result_of(spec, np.stack([error_sums(spec, block) for block in spec.blocks()]))


def test_mean_estimates_are_the_exact_ones_within_noise(result) -> None:
    table = result.table
    t = 1.96 * (table["mle"] - table["mle_exact"]) / table["mle_ci"]
    assert t.abs().max() < 4.5
    assert result.bound_of_t == pytest.approx(3.48, abs=0.01)
    assert abs(result.largest_t[1]) < 4.5  # Firth has no bias from N = 2
    assert result.largest_t[0] >= 2


def test_intervals_of_few_trials_are_those_of_students_t() -> None:
    spec = preset(trials=5, sample_size=12, slope=[2, 12])
    blocks = np.stack([error_sums(spec, block) for block in spec.blocks()])
    found, sums = result_of(spec, blocks).table.row(3, named=True), blocks.sum(0)
    variance = (sums[3, 1] - sums[3, 0] ** 2 / 5) / 4
    assert found["mle_ci"] == pytest.approx(2.7764451 * np.sqrt(variance / 5))  # t of 4 degrees


def test_firth_at_one_follows_the_papers_rule(result) -> None:
    y = np.arange(1, 200)
    expected = (0.5**y * 0.01 / (1.01 * y - 1)).sum()
    first = result.table.row(0, named=True)
    assert abs(first["firth"] - expected) < 2 * first["firth_ci"]
    assert expected > 0.503  # so it is biased, unlike from N = 2


def test_slope_is_minus_one_and_its_interval_holds_the_exact_one(result) -> None:
    assert result.exact_slope == pytest.approx(-0.9988, abs=1e-4)
    assert abs(result.slope - result.exact_slope) < 2 * result.slope_ci
    assert result.slope_ci < 0.05


def test_jackknife_interval_has_the_width_of_repeated_runs() -> None:
    rng = np.random.default_rng(0)
    sizes, trials = np.arange(10, 21), np.full(50, 1000)
    slopes, widths = [], []
    for _ in range(200):
        errors = trials[:, None] / sizes + rng.normal(size=(50, len(sizes))) * 3
        slope, width = jackknife_slope(sizes, trials, errors)
        slopes.append(slope)
        widths.append(width)
    assert np.mean(slopes) == pytest.approx(-1, abs=0.01)
    assert np.mean(widths) == pytest.approx(1.96 * np.std(slopes), rel=0.15)
    assert kstest((np.array(slopes) + 1) / np.std(slopes), "norm").pvalue > 1e-3


def test_workers_do_not_change_the_files_and_all_is_read_again(tmp_path: Path) -> None:
    spec = small()
    result = run_geometric(spec, tmp_path / "three", workers=3)
    run_geometric(spec, tmp_path / "one", workers=1)
    for name in ("spec.toml", "summary/geometric.csv", "summary/geometric.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "three" / name).read_bytes()
    again = read_geometric(tmp_path / "one")
    assert again.table.equals(result.table)
    assert (again.spec, again.slope, again.slope_ci) == (spec, result.slope, result.slope_ci)
    assert again.sentences() == result.sentences()
    status = read_status(tmp_path / "one")
    assert status.complete
    assert status.summarised
    assert status.machines


def test_few_trials_have_no_slope(tmp_path: Path) -> None:
    run_geometric(small(trials=1), tmp_path / "one")
    assert "too few trials" in read_geometric(tmp_path / "one").sentences()[1]


def test_folders_of_another_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FirthshotError, match="is no preset"):
        read_geometric(tmp_path)
    run_geometric(small(), tmp_path)
    with pytest.raises(FirthshotError, match=r"p was 0\.5, is 0\.4"):
        run_geometric(small(p=0.4), tmp_path)
    with pytest.raises(SpecError, match="is the geometric experiment"):
        load_spec(str(tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    (other / "spec.toml").write_text('name = "x"\n')
    with pytest.raises(FirthshotError, match="holds a run of another kind"):
        run_geometric(small(), other)
    with pytest.raises(FirthshotError, match="holds no geometric experiment"):
        read_geometric(other)
    (tmp_path / "summary" / "geometric.json").write_text("[")
    with pytest.raises(FirthshotError, match="is damaged: run the experiment again"):
        read_geometric(tmp_path)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"p": 1.0}, "p: Expected"),
        ({"slope": [10, 30]}, "30 is above sample_size = 12"),
        ({"slope": [9, 9]}, "9 is not below 9"),
        ({"name": "a/b"}, "names no folder"),
        ({"ways": [5]}, "ways: There is no such field"),
        ({"trials": 0}, "trials: Expected"),
    ],
)
def test_problems_are_named(fields: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        small(**fields)


def test_kinds_of_sources(tmp_path: Path) -> None:
    assert preset_names("geometric") == ["geometric"]
    assert "geometric" not in preset_names()
    assert isinstance(load_any("geometric"), GeometricSpec)
    file = tmp_path / "x.toml"
    file.write_text('kind = "geometrik"\n')
    with pytest.raises(SpecError, match="'geometrik' is no kind of run"):
        load_any(file)


def test_few_trials_have_a_wider_bound(result) -> None:
    """Student's t at 4 degrees of freedom, from its table; nothing from one trial."""
    few = dataclasses.replace(result, spec=preset(trials=5, sample_size=3, slope=[1, 3]))
    assert few.bound_of_t == pytest.approx(3.495, abs=1e-3)  # two sizes: 1.25 % in each tail
    one = dataclasses.replace(result, spec=preset(trials=1))
    assert np.isnan(one.bound_of_t)
    assert not one.firth_is_biased
    assert not one.likelihood_is_biased
    assert result.likelihood_is_biased
