"""Classifiers exactly as shipped: fit and predict_proba, and the seconds to a first answer.

Every classifier is made without an argument but those in its name, fitted to some rows per class of
a bank's novel classes, and asked for the probabilities of ten new rows per class, turn by turn in
one process, by the clock, with as many BLAS threads as the environment gives: so a user meets them.
``ratio`` is how many times as fast as ``LogisticRegression()`` `FirthClassifier` is. Slow ones are
asked once and stopped after 30 seconds, shown as ``> 30 s``: cross-validation of many classes.

A first answer is the first fit and prediction of a fresh process, imports included, or the commands
``fit`` and ``regress`` on a small table, with an empty and with a full kernel cache.
``OPENBLAS_NUM_THREADS=1`` in front of the command gives one thread.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import (
    ROOT,
    OtherWork,
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

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

    Array = NDArray[Any]

BANK = "clinc150-minilm"
BASE = "LogisticRegression"
OURS = ("FirthClassifier", "FirthCosineClassifier", "FewShotClassifier")
LEAST_SHOTS = {"LogisticRegressionCV": 5, "LDA": 2}  # rows of a class that they need
QUERIES = 10  # a class
LIMIT = 30  # seconds for one answer
SIZES = ((5, 1), (5, 5), (5, 20), (20, 1), (20, 5), (20, 20), (50, 5))
MORE = ((10, 10), (50, 20))
OTHER_BANKS = ("mini-resnet10", "cub-resnet10", "cifarfs-efficientnet-lite0")
OTHER_SIZES = ((5, 5), (20, 5))


@dataclass(frozen=True)
class Case:
    """Some rows per class of a bank's novel classes."""

    bank: str
    ways: int
    shots: int

    @property
    def name(self) -> str:
        """Return a name for tables."""
        return f"{self.bank} {self.ways} x {self.shots}"

    def draw(self) -> tuple[Array, Array, Array]:
        """Return rows (N, d) in float32, labels (N,) and new rows."""
        from firthshot.banks import load_bank

        bank, rng = load_bank(self.bank), np.random.default_rng((self.ways, self.shots))
        classes = bank.class_rows("novel")
        chosen = [classes[c] for c in rng.choice(len(classes), self.ways, replace=False)]
        rows = np.stack([rng.choice(own, self.shots + QUERIES, replace=False) for own in chosen])
        X = np.asarray(bank.features[rows.ravel()], np.float32)
        X = X.reshape(self.ways, self.shots + QUERIES, -1)
        parts = (part.reshape(-1, X.shape[2]) for part in (X[:, : self.shots], X[:, self.shots :]))
        support, query = (np.ascontiguousarray(part) for part in parts)
        return support, np.repeat(np.arange(self.ways), self.shots), query


def cases(quick: bool) -> list[Case]:
    """Return the seven sizes of the embedded bank, more of it, and other banks that are here."""
    seven = [Case(BANK, *size) for size in SIZES]
    if quick:
        return seven
    here = [bank for bank in OTHER_BANKS if _is_here(bank)]
    return [
        *seven,
        *(Case(BANK, *size) for size in MORE),
        *(Case(bank, *size) for bank in here for size in OTHER_SIZES),
    ]


def _is_here(bank: str) -> bool:
    from firthshot.banks import load_bank
    from firthshot.errors import FirthshotError

    try:
        load_bank(bank)
    except FirthshotError:
        return False
    return True


def contestants() -> dict[str, Callable[[], Any]]:
    """Return what makes each classifier, by name."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeClassifierCV

    import firthshot

    def shrunk() -> Any:
        return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")

    return {
        BASE: LogisticRegression,
        **{name: getattr(firthshot, name) for name in OURS},
        "LogisticRegressionCV": LogisticRegressionCV,
        "RidgeClassifierCV": RidgeClassifierCV,
        "LDA": shrunk,
    }


def answer(make: Callable[[], Any], X: Array, y: Array, query: Array) -> None:
    """Fit and predict; where a classifier has no probabilities, its decisions stand for them."""
    model = make().fit(X, y)
    if hasattr(model, "predict_proba"):
        model.predict_proba(query)
    else:
        model.decision_function(query)


def run(*, quick: bool = False, say: Say = print) -> Report:
    """Measure every case, and first answers; see the module."""
    machine, others = describe_machine(os.cpu_count() or 1), OtherWork()
    machine["blas_threads"] = _blas_threads()
    records = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases(quick):
            say(case.name)
            records.append(_measure(case, 0.5 if quick else 4.0))
    say("first answers of fresh processes")
    extra = {
        "summary": _summary(records),
        "first_answers": first_answers(1 if quick else 3),
        "others_share": others.share(),
    }
    return Report(machine, records, extra)


def _blas_threads() -> int:
    from threadpoolctl import threadpool_info

    found = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(found, default=1)


def _measure(case: Case, seconds: float) -> Record:
    """Time all classifiers turn by turn; slow ones, such as cross-validation, once."""
    rows = case.draw()
    makers = {
        name: make for name, make in contestants().items()
        if case.shots >= LEAST_SHOTS.get(name, 1)
    }  # fmt: skip
    once = {
        name: _clock_within(LIMIT, partial(answer, make, *rows)) for name, make in makers.items()
    }
    stopped = [name for name, taken in once.items() if taken is None]
    quick = [name for name, taken in once.items() if name == BASE or (taken or LIMIT) < seconds / 3]
    # The first call of the others stands: that of the quick ones pays for imports and allocations.
    times = {name: [] if name in quick else [taken] for name, taken in once.items() if taken}
    while sum(times[BASE]) < seconds / 4 or len(times[BASE]) < 3:
        for name in quick:
            times[name].append(clock(partial(answer, makers[name], *rows)))
    ms = {name: 1e3 * median(taken) for name, taken in times.items()}
    ratios = {name: ms[BASE] / taken for name, taken in ms.items()}
    return {
        "case": case.name,
        "bank": case.bank,
        "ways": case.ways,
        "shots": case.shots,
        "features": rows[0].shape[1],
        "repeats": len(times[BASE]),
        "ms": ms,
        "stopped": stopped,
        "ratios": ratios,
        "ratio": ratios[OURS[0]],
    }


def _clock_within(limit: int, run: Callable[[], object]) -> float | None:
    """Return the seconds that one call takes, or None where it was stopped at the limit."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(limit)
    try:
        return clock(run)
    except TimeoutError:
        return None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _summary(records: list[Record]) -> dict[str, dict[str, float]]:
    """Return geometric mean and least of the ratios over the seven sizes, by classifier."""
    seven = [r for r in records if (r["ways"], r["shots"]) in SIZES and r["bank"] == BANK]
    found = {}
    for name in {name: None for record in seven for name in record["ratios"]}:
        ratios = [record["ratios"][name] for record in seven if name in record["ratios"]]
        found[name] = {"geomean": geometric_mean(ratios), "lowest": min(ratios)}
    return found


# What a fresh process runs; the rows of exact Firth have three features and two classes.
PROGRAM = """
import numpy as np
rng = np.random.default_rng(0)
X, y = rng.normal(size=(25, {features})), np.arange(25) % {classes}
from {module} import {name}
model = {name}().fit(X, y)
model.predict_proba(X)
"""
FIRST = {
    **dict.fromkeys((*OURS, "FirthMLPClassifier"), ("firthshot", 384, 5)),
    BASE: ("sklearn.linear_model", 384, 5),
    "JeffreysLogisticRegression": ("firthshot", 3, 2),
    "FirthLogisticRegression": ("firthmodels", 3, 2),
}
COMMANDS = {
    "firthshot fit": ("fit", "{folder}/fit.csv", "--label", "y", "--model", "{folder}/model.firth"),
    "firthshot regress": ("regress", "{folder}/regress.csv", "y ~ x0 + x1 + x2"),
}


def first_answers(times: int) -> list[Record]:
    """Return the median seconds of fresh processes with an empty and with a full kernel cache."""
    with tempfile.TemporaryDirectory() as folder:
        _write_table(f"{folder}/fit.csv", features=64, classes=5)
        _write_table(f"{folder}/regress.csv", features=3, classes=2)
        return [_first_answer(name, command, times) for name, command in _fresh_commands(folder)]


def _fresh_commands(folder: str) -> Iterator[tuple[str, list[str]]]:
    """Yield what is asked of a fresh interpreter, by name."""
    for name, (module, features, classes) in FIRST.items():
        if find_spec(module.split(".")[0]) is not None:
            program = PROGRAM.format(module=module, name=name, features=features, classes=classes)
            yield name, ["-c", program]
    for name, words in COMMANDS.items():
        yield name, ["-m", "firthshot", *(word.format(folder=folder) for word in words)]


def _write_table(path: str, *, features: int, classes: int) -> None:
    rng, y = np.random.default_rng(0), np.arange(25) % classes
    rows = np.column_stack([y, rng.normal(size=(25, features))])
    names = ",".join(["y", *(f"x{number}" for number in range(features))])
    np.savetxt(path, rows, "%g", ",", header=names, comments="")


def _first_answer(name: str, command: list[str], times: int) -> Record:
    empty, full = [], []
    for _ in range(times):
        with tempfile.TemporaryDirectory() as cache:
            empty.append(_fresh(command, cache))
            full.append(_fresh(command, cache))
    return {"case": name, "empty": median(empty), "full": median(full)}


def _fresh(command: list[str], cache: str) -> float:
    """Return the seconds of a fresh process whose compiled kernels are in ``cache``."""
    env = {**os.environ, "NUMBA_CACHE_DIR": cache, "FIRTHSHOT_CACHE": cache}
    words = [sys.executable, "-W", "ignore", *command]
    return clock(lambda: subprocess.run(words, check=True, env=env, cwd=ROOT, capture_output=True))


def show(report: Report, console: Console) -> None:
    """Print the tables."""
    console.print(machine_line(report.machine))
    console.print(f"BLAS threads: {report.machine['blas_threads']}")
    names, titles = (
        list(contestants()),
        ["LR", "Firth", "cosine", "few-shot", "LR-CV", "ridge", "LDA"],
    )
    console.print("As shipped, ms for fit + predict_proba. LR is LogisticRegression().")
    for bank in {r["bank"]: None for r in report.records}:
        rows = [_row(r, names) for r in report.records if r["bank"] == bank]
        if bank == BANK:
            rows += _summary_rows(report.extra["summary"], names)
        console.print(make_table(bank, ["ways x shots", *titles], rows))
    first = [[r["case"], f"{r['empty']:.1f}", f"{r['full']:.1f}"] for r in _first(report)]
    columns = ["fresh process", "empty cache, s", "full cache, s"]
    console.print(make_table("From start to the first probabilities", columns, first))
    share = report.extra["others_share"]
    if share is not None and share > 0.1:
        console.print(f"Other programs used {share:.0%} of the machine: the times are too long.")


def _row(record: Record, names: list[str]) -> list[str]:
    """Return a case and the milliseconds of each classifier; what was not asked is empty."""
    found = {name: digits(ms) for name, ms in record["ms"].items()}
    found |= dict.fromkeys(record["stopped"], f"> {LIMIT} s")
    return [f"{record['ways']} x {record['shots']}", *(found.get(name, "") for name in names)]


def _summary_rows(summary: dict[str, dict[str, float]], names: list[str]) -> list[list[str]]:
    rows = (("geomean", "mean, 7 sizes"), ("lowest", "lowest, 7"))
    return [[word, *(f"{summary[name][key]:.2f}x" for name in names)] for key, word in rows]


def _first(report: Report) -> list[Record]:
    found: list[Record] = report.extra["first_answers"]
    return found
