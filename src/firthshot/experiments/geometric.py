"""The geometric experiment (Fig 1), where the bias of maximum likelihood can be worked out.

A trial tosses a coin until the first head, ``sample_size`` times over; y counts the tosses. From
the first N counts it estimates p, for every N, by maximum likelihood (1 / ȳ) and by Firth's
bias-reduced estimator ((N − 1) / (N ȳ − 1)). All trials take seconds, so that nothing is resumed.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from firthshot.arrays import Array
from firthshot.errors import FirthshotError, refusing
from firthshot.experiments.run.folder_spec import open_folder
from firthshot.experiments.run.record import begin_session, put_session, read_record, write_record
from firthshot.experiments.run.workers import default_workers
from firthshot.experiments.spec import GeometricSpec, load_any
from firthshot.experiments.statistics import Z, t_quantile
from firthshot.files import write_whole, writing_to
from firthshot.progress import SILENT, ProgressListener

_TABLE, _RECORD = "geometric.csv", "geometric.json"


@dataclass(frozen=True)
class GeometricResult:
    """The result of a run."""

    spec: GeometricSpec
    # one line per sample size: the mean estimates with the half-widths of their 95 % intervals,
    # their biases, the exact expectation of the maximum-likelihood estimate, and the t-statistic of
    # Firth's bias
    table: pl.DataFrame
    # of log |bias of maximum likelihood| over log N, with the half-width of its 95 % interval
    # (delete-one-block jackknife: the sizes of a trial share draws, so their errors are not
    # independent). NaN where it is not known
    slope: float
    slope_ci: float
    exact_slope: float  # the same slope of the exact biases

    @property
    def trials(self) -> int:
        """Return the number of trials."""
        return self.spec.trials

    @property
    def largest_t(self) -> tuple[int, float]:
        """Return the size from 2 at which Firth's bias is farthest from 0, and its t."""
        tested = self.table.filter(pl.col("size") >= 2, pl.col("firth_t").is_finite())
        if tested.is_empty():
            return 2, float("nan")
        worst = tested.sort(pl.col("firth_t").abs(), descending=True).row(0, named=True)
        return worst["size"], worst["firth_t"]

    @property
    def bound_of_t(self) -> float:
        """Return what |t| exceeds somewhere with at most 5 % chance if there is no bias.

        Student's t rather than the normal, which would find a bias in few trials too often; NaN
        where one trial leaves nothing to estimate the noise from.
        """
        from scipy.special import stdtrit

        if self.trials < 2:
            return float("nan")
        return float(-stdtrit(self.trials - 1, 0.025 / (self.spec.sample_size - 1)))

    @property
    def firth_is_biased(self) -> bool:
        """Return whether noise does not explain Firth's bias, at some size from 2."""
        return abs(self.largest_t[1]) > self.bound_of_t

    @property
    def likelihood_is_biased(self) -> bool:
        """Return whether the bias of maximum likelihood shows; where it does not, nothing would."""
        rows = self.table.filter(pl.col("size") >= 2, pl.col("mle_ci") > 0)
        t = (rows["mle_bias"] / rows["mle_ci"] * t_quantile(self.trials)).abs()
        return bool((t > self.bound_of_t).any())

    def sentences(self) -> list[str]:
        """Say the result in words."""
        first, last = self.spec.slope
        size, t = self.largest_t
        noun = "trial" if self.trials == 1 else "trials"
        about = f"{self.trials:,} {noun}; p = {self.spec.p:g}."
        if not np.isfinite([self.slope, self.slope_ci, t]).all():
            return [about, "That is too few trials for the slope and its interval."]
        likelihood = (
            f"Maximum likelihood: log |bias| over N = {first}…{last} has slope "
            f"{signed(self.slope)} ± {self.slope_ci:.3f} (95 %); exactly "
            f"{signed(self.exact_slope)}, and −1 in the limit."
        )
        firth = (
            f"Firth: the bias is farthest from 0 at N = {size}, t = {signed(t, 2)}, of "
            f"{self.spec.sample_size - 1} sizes from N = 2 (without bias, |t| stays below "
            f"{self.bound_of_t:.2f} everywhere in 95 % of runs or more)."
        )
        return [about, likelihood, firth]

    def write(self, folder: Path) -> None:
        """Write ``geometric.csv`` and ``geometric.json``."""
        size, t = self.largest_t
        record = {name: getattr(self, name) for name in ("trials", "slope", "slope_ci")}
        record |= {"exact_slope": self.exact_slope, "largest_t": t, "largest_t_size": size}
        with writing_to(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / _TABLE, self.table.write_csv().encode())
        write_record(folder / _RECORD, record | {"bound_of_t": self.bound_of_t})


def run_geometric(
    spec: GeometricSpec,
    out: Path,
    *,
    workers: int | None = None,
    listener: ProgressListener = SILENT,
) -> GeometricResult:
    """Run the experiment and write its spec and summary into a folder.

    The results do not depend on the number of threads, all cores by default.
    """
    open_folder(out, spec).claim([])
    session, started = begin_session(), time.perf_counter()
    blocks = spec.blocks()
    listener.start(len(blocks), "blocks")
    sums = np.empty((len(blocks), spec.sample_size, 4))
    with ThreadPoolExecutor(workers or default_workers()) as pool:
        for at, found in enumerate(pool.map(lambda block: error_sums(spec, block), blocks)):
            sums[at] = found
            listener.advance()
    result = result_of(spec, sums)
    result.write(out / "summary")
    seconds = round(time.perf_counter() - started, 1)
    put_session(out, msgspec.structs.replace(session, seconds=seconds))
    return result


def read_geometric(folder: Path) -> GeometricResult:
    """Return the result that a run folder holds."""
    spec = load_any(folder)
    there, again = folder / "summary", "run the experiment again"
    if not isinstance(spec, GeometricSpec) or not (there / _TABLE).is_file():
        raise FirthshotError(f"{folder} holds no geometric experiment: run one into it first.")
    record = read_record(there / _RECORD, dict[str, float | None], again)
    with refusing(f"{there / _TABLE} is damaged, {again}"):
        table = pl.read_csv(there / _TABLE, infer_schema_length=None)
    slopes = [record.get(name) for name in ("slope", "slope_ci", "exact_slope")]
    return GeometricResult(spec, table, *(np.nan if one is None else one for one in slopes))


def error_sums(spec: GeometricSpec, block: tuple[int, int]) -> Array:
    """Return Σ e and Σ e² of maximum likelihood, then of Firth, over a block: (sample_size, 4)."""
    from firthshot.experiments._geometric_kernel import add_errors
    from firthshot.kernels.streams import stream_key

    sums: Array = np.zeros((spec.sample_size, 4))
    add_errors(np.uint64(stream_key("geometric")), *block, spec.p, sums)
    return sums


def result_of(spec: GeometricSpec, sums: Array) -> GeometricResult:
    """Return the result of the sums of all blocks, (B, sizes, 4)."""
    table = _table(spec, spec.trials, sums.sum(0))
    first, last = spec.slope
    used, sizes = slice(first - 1, last), np.arange(first, last + 1)
    trials = np.array([stop - start for start, stop in spec.blocks()])
    slope, slope_ci = jackknife_slope(sizes, trials, sums[:, used, 0])
    exact = table["mle_exact"].to_numpy()[used] - spec.p
    return GeometricResult(spec, table, slope, slope_ci, float(_log_slope(sizes, exact)))


def _table(spec: GeometricSpec, trials: int, sums: Array) -> pl.DataFrame:
    sizes = np.arange(1, spec.sample_size + 1)
    columns: dict[str, Any] = {"size": sizes, "trials": np.full(len(sizes), trials)}
    for name, (errors, squares) in {"mle": sums[:, :2].T, "firth": sums[:, 2:].T}.items():
        bias = errors / trials
        variance = np.maximum(squares - trials * bias**2, 0) / max(trials - 1, 1)
        error = np.sqrt(variance / trials) if trials > 1 else np.full(len(sizes), np.nan)
        ci = t_quantile(trials) * error
        columns |= {name: spec.p + bias, f"{name}_ci": ci, f"{name}_bias": bias}
        if name == "mle":
            columns["mle_exact"] = exact_mle_mean(sizes, spec.p)
        else:
            ratio = np.divide(bias, error, out=np.full(len(sizes), np.nan), where=error > 0)
            columns["firth_t"] = ratio
    return pl.DataFrame(columns)


def exact_mle_mean(sizes: Array, p: float) -> Array:
    """Return E[1 / ȳ] of samples of these sizes.

    With S = Σ y (negative binomial) and q = 1 − p,

        E[N / S] = N ∫₀¹ E[t^(S−1)] dt = p ₂F₁(1, 1; N + 1; q) = p (1 + q/(N+1) + …).
    """
    from scipy.special import hyp2f1

    mean: Array = p * hyp2f1(1.0, 1.0, np.asarray(sizes) + 1.0, 1.0 - p)
    return mean


def jackknife_slope(sizes: Array, trials: Array, errors: Array) -> tuple[float, float]:
    """Return the slope of log |bias| over log N and the half-width of its 95 % interval.

    Of sizes (n,), trials (B,) and sums of errors (B, n) of each block.
    """
    total = errors.sum(0)
    slope = float(_log_slope(sizes, total / trials.sum()))
    if len(trials) < 2:
        return slope, float("nan")
    without = (total - errors) / (trials.sum() - trials)[:, None]
    slopes = _log_slope(sizes, without)
    variance = (len(slopes) - 1) * np.mean((slopes - slopes.mean()) ** 2)
    return slope, float(Z * np.sqrt(variance))


def _log_slope(sizes: Array, biases: Array) -> Array:
    """Return the least-squares slope of log |bias| (…, n) over log N (n,); NaN if a bias is 0."""
    x = np.log(sizes)
    x -= x.mean()
    y = np.log(np.abs(biases), out=np.full(biases.shape, np.nan), where=biases != 0)
    slope: Array = (y @ x) / (x @ x)
    return slope


def signed(value: float, digits: int = 3) -> str:
    """Return a number with a real minus sign."""
    return f"{value:.{digits}f}".replace("-", "−")
