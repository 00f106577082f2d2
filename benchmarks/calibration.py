"""Distribution Calibration here and as it is plainly written, task by task in one process.

The plain way is that of the original code: for every support row the nearest base classes, numpy's
``multivariate_normal`` with their covariance, and for every coefficient a fit by scikit-learn's
solver, ``LogisticRegression(max_iter=1000)``. That has no Firth term; for λ > 0 its own solver
(SciPy's L-BFGS with scikit-learn's settings, in float64) minimises the same loss with it. Ours
draws other rows from the same distributions, so that accuracies agree but no row does; how often
predictions agree on *the same* rows is measured apart.

Both sides use one thread. Times are those of the processor, which other programs lengthen less than
those of the clock, and means over tasks. Ours begins with no factor kept, as a run does. The plain
way is timed on few tasks, and on fewer still for coefficients that only the longer grid has.

The profile sets the products of a task, without which it cannot be done this way, against the
processor's peak: N d² operations to colour the draws by a triangular factor, and 4 N d C for each
evaluation of loss and gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    sgemm_peak,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

    from firthshot.calibration import BaseStatistics
    from firthshot.engine import Results
    from firthshot.episodes import Episodes

    Array = NDArray[Any]

D, ROWS, BASE, NOVEL = 640, 600, 64, 20
WAYS, QUERIES, ARTIFICIAL, ALPHA = 10, 15, 750, 0.21
GRIDS = {2: (0.0, 0.01), 8: (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)}
TOLERANCE = 3e-6  # the presets'
BARS = {2: 20.0, 8: 25.0}


@dataclass(frozen=True)
class CalibrationProblem:
    """A made-up bank: features (n, d) of the novel classes, transformed, and base statistics."""

    features: Array
    bank: Any
    statistics: BaseStatistics

    def episodes(self, shots: int, trials: int) -> Episodes:
        """Return some tasks."""
        from firthshot.episodes import sample_episodes

        return sample_episodes(
            self.bank, "novel", ways=WAYS, shots=shots, trials=trials, queries=QUERIES
        )


def make_problem(base: int = BASE, rows: int = ROWS, d: int = D) -> CalibrationProblem:
    """Make features as a ReLU gives them: Gaussian classes in 128 dimensions, one random layer."""
    from firthshot.banks import make_bank
    from firthshot.calibration import BaseStatistics, tukey

    rng = np.random.default_rng(0)
    decay = 1 / np.sqrt(1 + np.arange(128))
    layer = 0.25 * rng.normal(size=(128, d))

    def draw_class() -> Array:
        hidden = 0.5 * rng.normal(size=128) + rng.normal(size=(rows, 128)) * np.exp(
            0.3 * rng.normal(size=128)
        )
        noise = 0.25 * rng.normal(size=(rows, d)) - 0.1
        return (0.55 * np.maximum((hidden * decay) @ layer + noise, 0)).astype(np.float32)

    statistics = BaseStatistics.from_rows([draw_class() for _ in range(base)], "made up")
    novel = np.concatenate([draw_class() for _ in range(NOVEL)])
    bank = make_bank(
        novel, np.repeat(np.arange(NOVEL), rows), name="novel",
        classes=[f"class {c}" for c in range(NOVEL)], class_splits=["novel"] * NOVEL,
    )  # fmt: skip
    return CalibrationProblem(tukey(novel), bank, statistics)


def run(*, quick: bool = False, say: Say = print) -> Report:
    """Measure 1 and 5 shots with 2 and with 8 coefficients."""
    import sklearn.linear_model  # noqa: F401
    from threadpoolctl import threadpool_limits

    machine, others = describe_machine(1), OtherWork()
    say("a bank of 64 base classes, 600 rows each, 640 features")
    records: list[Record] = []
    with threadpool_limits(limits=1):
        problem = make_problem()
        for shots in (1, 5):
            say(f"{WAYS}-way {shots}-shot, the plain way")
            plain = measure_plain(problem, shots, *((1, 1) if quick else (5, 2)))
            for count in GRIDS:
                say(f"{WAYS}-way {shots}-shot, {count} coefficients, here")
                records.append(compare(problem, shots, count, plain, 10 if quick else 40))
        say("the same rows for both: how often predictions agree")
        agreement = measure_agreement(problem, 2 if quick else 5)
        peak = sgemm_peak(1)
        profile = {str(shots): profile_task(problem, shots, peak) for shots in (1, 5)}
    extra = {
        "geomean_by_coefficients": {
            str(count): geometric_mean(r["ratio"] for r in records if r["coefficients"] == count)
            for count in GRIDS
        },
        "agreement": agreement,
        "sgemm_gflops": peak,
        "profile": profile,
        "others_share": others.share(),
    }
    return Report(machine, records, extra)


def measure_plain(
    problem: CalibrationProblem, shots: int, tasks: int, whole: int
) -> dict[str, Any]:
    """Return processor seconds of drawing and of each coefficient's fit, means over tasks.

    The first ``whole`` tasks are fitted with all coefficients, the others with the shorter grid.
    """
    episodes = problem.episodes(shots, tasks)
    drawing, right = 0.0, []
    fits: dict[float, list[float]] = {lam: [] for lam in GRIDS[8]}
    rng = np.random.default_rng(0)
    for t in range(tasks):
        episode = episodes[t]
        support = problem.features[episode.support].astype(np.float64)
        start = process_time()
        X, y = draw_plainly(support, episode.support_labels, problem.statistics, shots, rng)
        drawing += process_time() - start
        query = problem.features[episode.query]
        for lam in GRIDS[8] if t < whole else GRIDS[2]:
            start = process_time()
            predicted = fit_plainly(X, y, lam)(query)
            fits[lam].append(process_time() - start)
            if lam == 0:
                right.append((predicted == episode.query_labels).mean())
    return {
        "draw_s": drawing / tasks,
        "fit_s": {lam: float(np.mean(seconds)) for lam, seconds in fits.items()},
        "accuracy": float(np.mean(right)),
        "tasks": tasks,
    }


def draw_plainly(
    support: Array, labels: Array, statistics: BaseStatistics, shots: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draw artificial rows as the original code does."""
    base = statistics.means.astype(np.float64)
    parts, names = [support], [labels]
    for x, label in zip(support, labels, strict=True):
        near = np.argsort(((base - x) ** 2).sum(1))[:2]
        mean = (base[near].sum(0) + x) / 3
        covariance = statistics.covariances[near].mean(0) + ALPHA
        count = ARTIFICIAL // shots
        parts.append(rng.multivariate_normal(mean, covariance, count, check_valid="ignore"))
        names.append(np.full(count, label))
    return np.concatenate(parts), np.concatenate(names)


def fit_plainly(X: Array, y: Array, lam: float, tol: float = 1e-4) -> Any:
    """Return the prediction of a fit: scikit-learn's, or its solver on the loss with Firth."""
    if lam == 0:
        from sklearn.linear_model import LogisticRegression

        return (
            LogisticRegression(max_iter=20_000 if tol < 1e-4 else 1000, tol=tol).fit(X, y).predict
        )
    from scipy.optimize import minimize

    n, d = X.shape
    targets = np.eye(WAYS)[y] + lam / WAYS

    def loss(flat: Array) -> tuple[float, Array]:
        theta = flat.reshape(WAYS, d + 1)
        z = X @ theta[:, :d].T + theta[:, d]
        z -= z.max(axis=1, keepdims=True)
        p = np.exp(z)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        g = ((1 + lam) * p - targets) / n
        value = ((1 + lam) * np.log(total).sum() - (targets * z).sum()) / n
        gradient = np.column_stack([g.T @ X + theta[:, :d] / n, g.sum(axis=0)])
        return value + 0.5 * (theta[:, :d] ** 2).sum() / n, gradient.ravel()

    settings = {"maxiter": 20_000 if tol < 1e-4 else 1000, "gtol": tol, "maxls": 50}
    settings["ftol"] = 64 * np.finfo(float).eps
    start = np.zeros(WAYS * (d + 1))
    theta = minimize(loss, start, method="L-BFGS-B", jac=True, options=settings).x
    theta = theta.reshape(WAYS, d + 1)
    return lambda rows: (rows @ theta[:, :d].T + theta[:, d]).argmax(axis=1)


def train_here(
    problem: CalibrationProblem, episodes: Episodes, coefficients: tuple[float, ...]
) -> Results:
    """Train and score tasks with the engine."""
    from firthshot.calibration import CalibratedLinear
    from firthshot.engine import Converged, Penalty, train

    head = CalibratedLinear(problem.statistics, ARTIFICIAL, 2, ALPHA)
    penalty = Penalty("firth", coefficients, l2=1.0, l2_kind="ridge")
    return train(
        problem.features, episodes, head, Converged(tolerance=TOLERANCE), penalty, threads=1
    )


def compare(
    problem: CalibrationProblem, shots: int, count: int, plain: dict[str, Any], tasks: int
) -> Record:
    """Time our tasks, factors of covariances from scratch, and set both sides beside another."""
    from firthshot.calibration import FACTORS

    train_here(problem, problem.episodes(shots, 1), GRIDS[count])  # compiles
    FACTORS.clear()
    episodes = problem.episodes(shots, tasks)
    start = process_time()
    results = train_here(problem, episodes, GRIDS[count])
    ours = (process_time() - start) / tasks
    theirs = plain["draw_s"] + sum(plain["fit_s"][lam] for lam in GRIDS[count])
    return {
        "case": f"{WAYS}-way {shots}-shot, {count} λ",
        "shots": shots,
        "coefficients": count,
        "plain_s": theirs,
        "plain_draw_s": plain["draw_s"],
        "ours_s": ours,
        "ours_tasks": tasks,
        "plain_tasks": plain["tasks"],
        "not_converged": int((results.status != 0).sum()),
        "accuracy": float(results.accuracy[:, 0].mean()),
        "plain_accuracy": plain["accuracy"],
        "ratio": theirs / ours,
    }


def measure_agreement(problem: CalibrationProblem, tasks: int) -> dict[str, float]:
    """Return the share of queries predicted alike on the same rows, by tolerance of the other.

    scikit-learn's default tolerance, 1e-4, ends well before its own optimum.
    """
    from firthshot.calibration import CalibratedLinear, CalibrationTerms, solve_path

    head = CalibratedLinear(problem.statistics, ARTIFICIAL, 2, ALPHA)
    episodes = problem.episodes(1, tasks)
    alike: dict[str, list[float]] = {"default tol 1e-4": [], "tol 1e-7": []}
    for t in range(tasks):
        episode = episodes[t]
        rows = head.draw(
            problem.features[episode.support], episode.support_labels, episodes.key, episode.trial
        )
        terms = CalibrationTerms(1.0, 1.0, np.zeros(WAYS), 1 / rows.count)
        optimum = solve_path(rows, WAYS, [terms], TOLERANCE, 200)[0]
        coef, intercept = rows.weights(optimum.theta)
        query = problem.features[episode.query]
        ours = (query @ coef.T + intercept).argmax(axis=1)
        X = rows.x[: rows.count, : rows.d] + rows.centre
        for name, tol in (("default tol 1e-4", 1e-4), ("tol 1e-7", 1e-7)):
            alike[name].append(float((fit_plainly(X, rows.labels, 0.0, tol)(query) == ours).mean()))
    return {name: float(np.mean(shares)) for name, shares in alike.items()}


def profile_task(
    problem: CalibrationProblem, shots: int, peak: float
) -> dict[str, dict[str, float]]:
    """Return milliseconds of drawing and of fitting 2 and 8 coefficients, factors kept.

    Beside them: what the products alone would take at the peak, as a share, and evaluations.
    """
    from firthshot.calibration import CalibratedLinear, CalibrationTerms, solve_path

    head = CalibratedLinear(problem.statistics, ARTIFICIAL, 2, ALPHA)
    episode = problem.episodes(shots, 1)[0]
    support = problem.features[episode.support]
    times: dict[str, list[float]] = {"draw": [], "fit 2": [], "fit 8": []}
    evaluations = {"draw": 0}
    for _ in range(5):
        start = process_time()
        rows = head.draw(support, episode.support_labels, 0, 0)
        times["draw"].append(process_time() - start)
        for count, grid in GRIDS.items():
            path = [
                CalibrationTerms(1 + l, 1.0, np.full(WAYS, l / WAYS), 1 / rows.count) for l in grid
            ]
            start = process_time()
            found = solve_path(rows, WAYS, path, TOLERANCE, 200)
            times[f"fit {count}"].append(process_time() - start)
            evaluations[f"fit {count}"] = sum(1 + one.iterations for one in found)
    profile = {}
    for name, seconds in times.items():
        each = rows.d if name == "draw" else 4 * WAYS * evaluations[name]
        least = each * rows.count * rows.d / (1e9 * peak)
        took = float(np.median(seconds))
        profile[name] = {
            "ms": 1e3 * took, "peak_share": least / took, "evaluations": evaluations[name],
        }  # fmt: skip
    return profile


def show(report: Report, console: Console) -> None:
    """Print the tables."""
    rows = [
        (
            record["case"], digits(record["plain_s"]), digits(record["ours_s"]),
            digits(1 / record["ours_s"]), digits(100 * record["plain_accuracy"]),
            digits(100 * record["accuracy"]), digits(record["ratio"]),
        )
        for record in report.records
    ]  # fmt: skip
    columns = ("case", "plain s", "ours s", "tasks/s", "plain %", "ours %", "ratio")
    title = "Distribution Calibration, 750 artificial rows per class, d = 640"
    console.print(make_table(title, columns, rows))
    for count, bar in BARS.items():
        ratio = report.extra["geomean_by_coefficients"][str(count)]
        console.print(f"{count} coefficients: {digits(ratio)} × in geometric mean (bar: {bar:g})")
    for name, share in report.extra["agreement"].items():
        console.print(f"same rows, scikit-learn at its {name}: {100 * share:.2f} % of predictions")
    console.print(
        f"a task, factors kept, and how much of it its products take at the sgemm peak "
        f"({report.extra['sgemm_gflops']:.0f} GFLOP/s):"
    )
    for shots, parts in report.extra["profile"].items():
        listed = ", ".join(
            f"{name} {digits(part['ms'])} ms ({100 * part['peak_share']:.0f} %)"
            for name, part in parts.items()
        )
        console.print(f"  {shots}-shot: {listed}")
    console.print(machine_line(report.machine))
