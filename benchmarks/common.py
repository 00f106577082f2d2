"""What all benches share: machine, timing, the sgemm peak, the report, its file and its table."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from firthshot.errors import FirthshotError, MissingExtraError
from firthshot.experiments.run.record import instruction_set, processor_name
from firthshot.files import write_whole

if TYPE_CHECKING:
    from rich.table import Table

ROOT = Path(__file__).parents[1]  # where child processes find this package
Record = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Timing:
    """Seconds of every repeat of one measurement."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Return the median of the repeats."""
        return median(self.seconds)

    @property
    def spread(self) -> float:
        """Return (largest − smallest) / median of the repeats."""
        return (max(self.seconds) - min(self.seconds)) / self.median


@dataclass(frozen=True)
class Report:
    """What a bench found: one record per case (each with ``case`` and ``ratio``), and remarks."""

    machine: dict[str, Any]
    records: list[Record]
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def geomean_ratio(self) -> float | None:
        """Return the geometric mean of the records' ratios, None where no record has one."""
        ratios = [record["ratio"] for record in self.records if record.get("ratio") is not None]
        return geometric_mean(ratios) if ratios else None


def clock(run: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def repeat(run: Callable[[], object], times: int) -> Timing:
    """Time ``times`` calls one by one."""
    return Timing(tuple(clock(run) for _ in range(times)))


def repeat_for(run: Callable[[], object], seconds: float, at_least: int = 3) -> Timing:
    """Time calls one by one until ``seconds`` are over, and never fewer than ``at_least``."""
    taken: list[float] = []
    while sum(taken) < seconds or len(taken) < at_least:
        taken.append(clock(run))
    return Timing(tuple(taken))


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive numbers."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def sgemm_peak(threads: int, size: int = 2048, repeats: int = 7) -> float:
    """Return the GFLOP/s of numpy's product of two float32 matrices, best of several."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    left = np.random.default_rng(0).random((size, size), dtype=np.float32)
    right, out = left.T.copy(), np.empty_like(left)
    with threadpool_limits(limits=threads):
        best = min(repeat(lambda: np.matmul(left, right, out=out), repeats + 1).seconds)
    return 2 * size**3 / best / 1e9


def describe_machine(threads: int) -> dict[str, Any]:
    """Return processor, instruction set, cores, load, system, and versions of what computes."""
    return {
        "cpu": processor_name(),
        "simd": instruction_set(),
        "cores": os.cpu_count(),
        "threads": threads,
        "load_at_start": round(_load(), 2),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in ("firthshot", "numpy", "numba", "torch")},
    }


class OtherWork:
    """Watch how much of the machine others use meanwhile: timings taken on busy cores mislead."""

    def __init__(self) -> None:
        self._start = self._read()

    def share(self) -> float | None:
        """Return the others' share of all cores since the start, None where it is not known."""
        start, now = self._start, self._read()
        if start is None or now is None or now[0] <= start[0]:
            return None
        total, busy, own = (after - before for after, before in zip(now, start, strict=True))
        return min(1.0, max(0.0, (busy - own) / total))

    @staticmethod
    def _read() -> tuple[float, float, float] | None:
        """Return seconds of all cores, of all work and of this process, since boot (Linux)."""
        if not Path("/proc/stat").exists():
            return None
        ticks = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        second, idle, times = os.sysconf("SC_CLK_TCK"), ticks[3] + ticks[4], os.times()
        own = times.user + times.system + times.children_user + times.children_system
        return sum(ticks) / second, (sum(ticks) - idle) / second, own


def _load() -> float:
    """Return the load average of the last minute, NaN where the system has none."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def require_torch(what: str) -> None:
    """Raise `MissingExtraError` where torch is not installed."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise MissingExtraError(what, "bench")


def write_json(path: Path, report: Report) -> None:
    """Write ``{"machine": …, "records": […], "geomean_ratio": …}`` and what the bench adds."""
    content = {
        "machine": report.machine,
        "records": report.records,
        "geomean_ratio": report.geomean_ratio,
        **report.extra,
    }
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise FirthshotError(f"Cannot write {path}: {error.strerror}.") from None


def machine_line(machine: dict[str, Any]) -> str:
    """Return the machine in one line."""
    packages = ", ".join(f"{name} {machine[name]}" for name in ("numpy", "numba", "torch"))
    load = machine["load_at_start"]
    names = ", ".join(filter(None, (machine["cpu"], machine["simd"])))
    return f"{names}, {machine['cores']} cores, load {load:g}; {packages}"


def make_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a plain table for the terminal: first column left, numbers right."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.min_width = len(title)
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the rows as a Markdown table, numbers to the right."""
    lines = ["| " + " | ".join(columns) + " |", "|---|" + "---:|" * (len(columns) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def digits(value: float, significant: int = 3) -> str:
    """Write a number with so many significant digits and no exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = significant - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, places):,.{max(0, places)}f}"
