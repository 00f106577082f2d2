"""Time against shots, ways, coefficients and d: each doubled, twice, from one base case."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.common import (
    Record,
    Report,
    Say,
    describe_machine,
    digits,
    markdown_table,
    sgemm_peak,
)
from benchmarks.engine_cases import Case
from benchmarks.engine_timing import QUICK, Effort, time_engine, trainer
from firthshot.engine import Linear

if TYPE_CHECKING:
    from rich.console import Console

BASE = Case(Linear(), 16, 5, 512)
COLUMNS = (
    "doubled", "ways", "shots", "coefficients", "d", "ms per trial", "ms per classifier",
    "× base", "GFLOP/s",
)  # fmt: skip


def scaling_cases(base: Case = BASE) -> list[tuple[str, Case]]:
    """Return the base case, and it with one size doubled and doubled again."""
    cases = [("–", base)]
    for name in ("shots", "ways", "n_coefficients", "d"):
        shown = name.removeprefix("n_")
        cases += [(shown, replace(base, **{name: getattr(base, name) * k})) for k in (2, 4)]
    return cases


def run(*, quick: bool = False, threads: int = 2, say: Say = print) -> Report:
    """Time our side alone on every case of the table."""
    effort, cases = QUICK if quick else Effort(), scaling_cases()
    trainer(BASE, BASE.episodes(threads), threads)()  # compile outside the timing
    machine, records = describe_machine(threads), list[Record]()
    for doubled, case in cases:
        records.append(_record(doubled, case, threads, effort))
        say(f"{case.name}, {case.n_coefficients} coefficients: {digits(_ms(records[-1]))} ms")
    peak = sgemm_peak(threads)
    for record in records:
        record["peak_share"] = record["gflops"] / peak
        record["relative_time"] = _ms(record) / _ms(records[0])
    return Report(machine, records, {"quick": quick, "sgemm_peak_gflops": peak})


def _record(doubled: str, case: Case, threads: int, effort: Effort) -> Record:
    trials, timing = time_engine(case, threads, effort)
    per_second = trials * case.n_coefficients / timing.median
    return {
        **case.fields(),
        "doubled": doubled,
        "classifiers_per_s": per_second,
        "gflops": per_second * case.useful_flop / 1e9,
        "spread": timing.spread,
    }


def _ms(record: Record) -> float:
    return 1e3 / float(record["classifiers_per_s"])


def show(report: Report, console: Console) -> None:
    """Print the table as Markdown."""
    console.print(scaling_markdown(report), soft_wrap=True)


def scaling_markdown(report: Report) -> str:
    """Return the table as Markdown."""
    rows = [
        (
            record["doubled"],
            *(str(record[name]) for name in ("ways", "shots", "coefficients", "d")),
            digits(_ms(record) * record["coefficients"]),
            digits(_ms(record)),
            digits(record["relative_time"], 2),
            digits(record["gflops"]),
        )
        for record in report.records
    ]
    return markdown_table(COLUMNS, rows)
