"""FirthClassifier against scikit-learn's LogisticRegression, on the same objective.

Both minimise cross-entropy with a ridge of C = 1 (λ = 0), on one thread, turn by turn in one
process, through ``fit``: validation counts. Times are those of the processor, which other programs
lengthen less than those of the clock; on one thread of a quiet machine they are the same.

scikit-learn runs at its defaults (lbfgs, tol 1e-4, but as many iterations as it needs); ours at the
loosest tol of a list whose final objective is no worse than theirs. A path is one solution for each
of eight λ.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import (
    OtherWork,
    Record,
    Report,
    Say,
    describe_machine,
    digits,
    geometric_mean,
    machine_line,
    make_table,
)
from firthshot.objective import log_softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

    Array = NDArray[Any]

PATH = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
THEIR_TOL = 1e-4
OUR_TOLS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6, 1e-7, 1e-8)
# The objectives are means of a few units; less than this is rounding.
NO_WORSE = 1e-9
BANK = "clinc150-minilm"


@dataclass(frozen=True)
class FitCase:
    """Some rows per class: real sentence embeddings, or drawn ones of other widths.

    ``kind`` is "sentences" (rows of the embedded bank, length 1), "unit" (Gaussian classes, length
    1) or "raw" (positive, length about 20, as ResNet features are).
    """

    kind: str
    ways: int
    shots: int
    d: int

    @property
    def name(self) -> str:
        """Return a name for tables."""
        return f"{self.kind} {self.ways} x {self.shots}, d {self.d}"

    def draw(self) -> tuple[Array, Array]:
        """Return features (N, d) in float64 and labels (N,)."""
        labels = np.repeat(np.arange(self.ways), self.shots)
        rng = np.random.default_rng((self.ways, self.shots, self.d))
        if self.kind == "sentences":
            return _sentences(self.ways, self.shots, rng), labels
        X = rng.normal(size=(self.ways, self.d))[labels] + 1.5 * rng.normal(
            size=(len(labels), self.d)
        )
        if self.kind == "raw":
            X = np.maximum(X, 0.0)
        X *= (20.0 if self.kind == "raw" else 1.0) / np.linalg.norm(X, axis=1, keepdims=True)
        return X, labels


CASES = (
    *(
        FitCase("sentences", k, s, 384)
        for k, s in ((5, 1), (5, 5), (20, 5), (5, 20), (50, 8), (5, 80))
    ),
    *(
        FitCase(kind, k, s, d)
        for kind in ("unit", "raw")
        for d in (512, 2048)
        for k, s in ((5, 1), (5, 5), (20, 5), (50, 8), (5, 80))
    ),
)
QUICK_CASES = (
    *(FitCase("sentences", k, s, 384) for k, s in ((5, 1), (5, 5), (20, 5), (50, 8))),
    *(FitCase(kind, 5, 5, 2048) for kind in ("unit", "raw")),
    FitCase("raw", 20, 5, 512),
)
LARGE = (FitCase("unit", 150, 133, 384), FitCase("raw", 150, 133, 384))  # 19,950 rows
QUICK_LARGE = (FitCase("unit", 60, 50, 384),)


def _sentences(ways: int, shots: int, rng: np.random.Generator) -> Array:
    from firthshot.banks import load_bank

    bank = load_bank(BANK)
    classes = bank.class_rows("base")
    chosen = [classes[c] for c in rng.choice(len(classes), ways, replace=False)]
    rows = np.concatenate([rng.choice(rows, shots, replace=False) for rows in chosen])
    return np.asarray(bank.features[rows], np.float64)


def run(*, quick: bool = False, say: Say = print) -> Report:
    """Measure every case; see the module."""
    # Only libraries that are loaded can be limited to one thread.
    import sklearn.linear_model  # noqa: F401
    from threadpoolctl import threadpool_limits

    import firthshot.estimators  # noqa: F401

    machine, others = describe_machine(1), OtherWork()
    records, large = [], []
    with threadpool_limits(limits=1):
        for case in QUICK_CASES if quick else CASES:
            say(case.name)
            records.append(_measure(case, 0.5 if quick else 4.0))
        for case in QUICK_LARGE if quick else LARGE:
            say(f"large: {case.name}")
            large.append(_measure(case, 0.0, at_least=1 if quick else 3, path=False))
    extra = {
        "path_geomean": geometric_mean(record["path_in_fits"] for record in records),
        "slowest_ratio": min(record["ratio"] for record in records + large),
        "large": large,
        "others_share": others.share(),
    }
    return Report(machine, records, extra)


def _measure(case: FitCase, seconds: float, at_least: int = 3, path: bool = True) -> Record:
    """Time both sides turn by turn until ``seconds`` are over."""
    from sklearn.linear_model import LogisticRegression

    X, y = case.draw()
    theirs = LogisticRegression(max_iter=100_000)
    their_value = objective(theirs.fit(X, y), X, y)
    ours, our_value = _matched(X, y, their_value)
    support = ours._support(X, y, None)
    pairs = [(lam, 1.0) for lam in PATH]
    sides = [lambda: ours.fit(X, y), lambda: theirs.fit(X, y)]
    if path:
        sides.append(lambda: ours._fit_path(support, pairs))
        sides[-1]()
    times: list[list[float]] = [[] for _ in sides]
    while len(times[0]) < at_least or sum(map(sum, times)) < seconds:
        for side, taken in zip(sides, times, strict=True):
            start = process_time()
            side()
            taken.append(process_time() - start)
    fit, other, *rest = map(median, times)
    return {
        "case": case.name,
        "rows": len(X),
        "features": case.d,
        "classes": case.ways,
        "repeats": len(times[0]),
        "firthshot_ms": 1e3 * fit,
        "sklearn_ms": 1e3 * other,
        "ratio": other / fit,
        "tol": ours.tol,
        "sklearn_tol": THEIR_TOL,
        "objective_difference": our_value - their_value,
        "iterations": int(ours.n_iter_),
        "sklearn_iterations": int(theirs.n_iter_[0]),
        **({"path_ms": 1e3 * rest[0], "path_in_fits": rest[0] / fit} if rest else {}),
    }


def _matched(X: Array, y: Array, their_value: float) -> tuple[Any, float]:
    """Return our estimator at the loosest tol whose objective is no worse than theirs."""
    from firthshot.estimators import FirthClassifier

    for tol in OUR_TOLS:
        model = FirthClassifier(lam=0.0, l2=1.0, class_weight=None, tol=tol, calibrate=False)
        value = objective(model.fit(X, y), X, y)
        if value <= their_value + NO_WORSE:
            break
    return model, value


def objective(model: Any, X: Array, y: Array) -> float:
    """Return mean cross-entropy + ‖W‖² / (2N) of a fitted model with C = 1."""
    W, b = np.asarray(model.coef_, np.float64), np.asarray(model.intercept_, np.float64)
    log_p = log_softmax(X @ W.T + b)[np.arange(len(y)), y]
    return float(-log_p.mean() + 0.5 * (W**2).sum() / len(y))


def show(report: Report, console: Console) -> None:
    """Print the tables."""
    console.print(machine_line(report.machine))
    rows = [
        [
            r["case"],
            digits(r["firthshot_ms"]),
            digits(r["sklearn_ms"]),
            f"{r['ratio']:.1f}",
            f"{r['objective_difference']:.0e}",
            f"{r['path_in_fits']:.1f}" if "path_in_fits" in r else "",
        ]
        for r in report.records + report.extra["large"]
    ]
    path = report.extra["path_geomean"]
    rows.append(["geometric mean", "", "", f"{report.geomean_ratio:.1f}", "", f"{path:.1f}"])
    columns = ["ways x shots", "ms", "sklearn ms", "ratio", "objective", "path"]
    console.print(
        make_table("FirthClassifier.fit, λ = 0, C = 1, medians of CPU time", columns, rows)
    )
    console.print(
        "Objective: ours less theirs. Path: the cost of eight λ, in fits. "
        "The geometric mean leaves out the large cases."
    )
    share = report.extra["others_share"]
    if share is not None and share > 0.1:
        console.print(f"Other programs used {share:.0%} of the machine: the times are too long.")
