"""Exact Firth regression against firthmodels (numba), and multinomial fits against their size.

Both packages run on one thread, at the same tolerance, turn by turn in one process. Inference is
the fit, the penalised likelihood-ratio test of every coefficient and all profile intervals.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import (
    Record,
    Report,
    Say,
    clock,
    describe_machine,
    digits,
    geometric_mean,
    machine_line,
    make_table,
)
from firthshot.errors import MissingExtraError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

LARGEST_INFERENCE = 70_000_000  # rows · coefficients³; beyond, the other needs minutes
MULTINOMIAL = (
    (100, 5, 3),
    (500, 10, 3),
    (1000, 20, 3),
    (5000, 20, 3),
    (1000, 20, 5),
    (5000, 20, 5),
    (2000, 10, 10),
)
TOLERANCE = 1e-8
OTHERS_DEFAULT = 1e-4

Arrays = tuple["NDArray[np.float64]", "NDArray[np.int64]"]


def make_data(n: int, p: int, classes: int = 2, seed: int = 0) -> Arrays:
    """Draw standard normal features and labels from a logistic model of moderate strength."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    beta = rng.normal(size=(classes, p)) / np.sqrt(p)
    odds = np.exp(X @ beta.T)
    steps = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)
    return X, (steps < rng.random((n, 1))).sum(axis=1).astype(np.int64)


def make_rare(n: int, p: int, events: int) -> Arrays:
    """Draw standard normal features and a few events that do not depend on them."""
    X = np.random.default_rng(0).normal(size=(n, p))
    return X, (np.arange(n) < events).astype(np.int64)


def make_quasi_separated(n: int, p: int) -> Arrays:
    """Make every other column rare indicators, the first of which occurs in one class only."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    X[:, ::2] = X[:, ::2] > 1.2
    odds = np.exp(X @ rng.normal(size=p))
    y = (rng.random(n) < odds / (1.0 + odds)).astype(np.int64)
    return X, np.where(X[:, 0] > 0.0, 1, y)


def make_separated(n: int, p: int) -> Arrays:
    """Draw standard normal features, two of which tell the classes apart without error."""
    X = np.random.default_rng(0).normal(size=(n, p))
    return X, (X[:, 0] + 0.5 * X[:, 1] > 0.0).astype(np.int64)


Case = tuple[str, Callable[[], Arrays]]
QUICK: tuple[Case, ...] = (
    ("50x5", partial(make_data, 50, 5)),
    ("200x20", partial(make_data, 200, 20)),
    ("1000x20", partial(make_data, 1000, 20)),
)
FURTHER: tuple[Case, ...] = (
    ("5000x20", partial(make_data, 5000, 20)),
    ("rare 50000x10, 20 events", partial(make_rare, 50_000, 10, 20)),
    ("wide 300x60", partial(make_data, 300, 60)),
    ("large 20000x100", partial(make_data, 20_000, 100)),
    ("quasi-separated 273x18", partial(make_quasi_separated, 273, 18)),
    ("separated 273x18", partial(make_separated, 273, 18)),
    ("separated 40x3", partial(make_separated, 40, 3)),
)


def run(*, quick: bool = False, say: Say = print) -> Report:
    """Measure binary and multinomial fits, alone and with inference.

    Raises
    ------
    MissingExtraError
        If firthmodels is not installed.
    """
    from threadpoolctl import threadpool_limits

    if find_spec("firthmodels") is None:
        raise MissingExtraError("The other side of the jeffreys bench", "bench")
    # Only libraries that are loaded can be limited to one thread.
    import firthmodels  # noqa: F401

    import firthshot.jeffreys  # noqa: F401

    seconds = 0.5 if quick else 4.0
    cases = QUICK if quick else QUICK + FURTHER
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        records = _binary_records(cases, TOLERANCE, seconds, say)
        loose = [] if quick else _binary_records(cases, OTHERS_DEFAULT, seconds, say)
        multinomial = _multinomial_records(MULTINOMIAL[:3] if quick else MULTINOMIAL, seconds, say)
    extra = {
        **_geomeans(records, ""),
        **(_geomeans(loose, "_against_default_tolerance") if loose else {}),
        "against_default_tolerance": loose,
        "multinomial": multinomial,
    }
    return Report(describe_machine(1), records, extra)


def _geomeans(records: list[Record], suffix: str) -> dict[str, float]:
    return {
        f"geomean_{what}{suffix}": geometric_mean(r["ratio"] for r in records if r["what"] == what)
        for what in ("fit", "inference")
    }


def _binary_records(
    cases: tuple[Case, ...], others_tol: float, seconds: float, say: Say
) -> list[Record]:
    records = []
    for name, make in cases:
        X, y = make()
        n, p = X.shape
        for what, pair in _contestants(X, y, others_tol).items():
            if what == "inference" and n * (p + 1) ** 3 > LARGEST_INFERENCE:
                continue
            say(f"{what} {name}, their tolerance {others_tol:g}")
            ours, theirs = (side() for side in pair)  # also compiles
            times = _alternate(pair, seconds)
            records.append(
                {
                    "case": f"{what} {name}",
                    "what": what,
                    "rows": n,
                    "columns": p,
                    "tolerance": TOLERANCE,
                    "firthmodels_tolerance": others_tol,
                    "repeats": len(times[0]),
                    "firthshot_ms": 1e3 * median(times[0]),
                    "firthmodels_ms": 1e3 * median(times[1]),
                    "ratio": median(times[1]) / median(times[0]),
                    "largest_difference": float(np.nanmax(np.abs(ours - theirs))),
                }
            )
    return records


def _contestants(
    X: NDArray[np.float64], y: NDArray[np.int64], others_tol: float
) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Return (ours, theirs) for fit and for inference, each giving comparable numbers."""
    from firthmodels import FirthLogisticRegression

    from firthshot.jeffreys import JeffreysLogisticRegression

    def our_fit() -> JeffreysLogisticRegression:
        return JeffreysLogisticRegression(tol=TOLERANCE).fit(X, y)

    def their_fit() -> Any:
        model = FirthLogisticRegression(
            backend="numba", gtol=others_tol, xtol=others_tol, max_iter=100
        )
        return model.fit(X, y)

    def our_inference() -> NDArray[np.float64]:
        model = our_fit()
        p_values = [test.p_value for test in model.test()]
        return np.column_stack([p_values, model.conf_int()])

    def their_inference() -> NDArray[np.float64]:
        model = their_fit().lrt()
        bounds = model.conf_int(method="pl", tol=others_tol, max_iter=100)
        table = np.column_stack([model.lrt_pvalues_, bounds])
        return np.roll(table, 1, axis=0)  # their intercept comes last

    def our_coefficients() -> NDArray[np.float64]:
        return our_fit().coef_.ravel()

    return {
        "fit": (our_coefficients, lambda: their_fit().coef_),
        "inference": (our_inference, their_inference),
    }


def _alternate(sides: tuple[Callable[[], Any], ...], seconds: float) -> list[list[float]]:
    """Time the sides turn by turn until ``seconds`` are over, at least three times each."""
    times: list[list[float]] = [[] for _ in sides]
    while len(times[0]) < 3 or sum(map(sum, times)) < seconds:
        for side, taken in zip(sides, times, strict=True):
            taken.append(clock(side))
    return times


def _multinomial_records(
    sizes: tuple[tuple[int, int, int], ...], seconds: float, say: Say
) -> list[Record]:
    from firthshot.jeffreys import JeffreysLogisticRegression

    def fit(data: Arrays) -> JeffreysLogisticRegression:
        return JeffreysLogisticRegression(tol=TOLERANCE).fit(*data)

    def infer(data: Arrays) -> None:
        model = fit(data)
        model.test()
        model.conf_int()

    records = []
    for n, p, classes in sizes:
        say(f"multinomial {n} x {p}, {classes} classes")
        data = make_data(n, p, classes)
        iterations = fit(data).n_iter_
        fit_times = _alternate((partial(fit, data),), seconds / 4)[0]
        infer_times = _alternate((partial(infer, data),), seconds / 4)[0]
        records.append(
            {
                "case": f"multinomial {n}x{p}x{classes}",
                "rows": n,
                "columns": p,
                "classes": classes,
                "parameters": (classes - 1) * (p + 1),
                "iterations": int(iterations),
                "fit_ms": 1e3 * median(fit_times),
                "inference_ms": 1e3 * median(infer_times),
            }
        )
    return records


def show(report: Report, console: Console) -> None:
    """Print the tables."""
    console.print(machine_line(report.machine))
    titles = {TOLERANCE: "the same tolerance", OTHERS_DEFAULT: "firthmodels at its looser default"}
    for records in (report.records, report.extra["against_default_tolerance"]):
        if not records:
            continue
        tolerance = records[0]["firthmodels_tolerance"]
        rows = [
            [r["case"], digits(r["firthshot_ms"]), digits(r["firthmodels_ms"]), f"{r['ratio']:.2f}"]
            for r in records
        ]
        means = _geomeans(records, "")
        rows += [[f"geometric mean, {k[8:]}", "", "", f"{v:.2f}"] for k, v in means.items()]
        title = f"Exact Firth, {titles[tolerance]} ({tolerance:g}), one thread"
        console.print(make_table(title, ["case", "ms", "firthmodels ms", "ratio"], rows))
    rows = [
        [
            f"{r['rows']} x {r['columns']}, K = {r['classes']}",
            str(r["parameters"]),
            str(r["iterations"]),
            digits(r["fit_ms"]),
            digits(r["inference_ms"]),
        ]
        for r in report.extra["multinomial"]
    ]
    columns = ["multinomial", "parameters", "steps", "fit ms", "inference ms"]
    console.print(make_table("Multinomial", columns, rows))
