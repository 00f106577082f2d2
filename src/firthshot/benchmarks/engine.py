"""``firthshot bench engine``: the engine against a batched autograd loop, on the same trials.

How it is measured. Our side trains whole blocks of trials, scoring included, on all threads: the
median of repeats. The plain side (:mod:`.torch_loops`) would take hours. Its SGD steps cost the
same in every pass, so they are timed one by one for a few seconds (the median step, or the median
pass where a pass ends in a smaller batch) and multiplied by their number; the scoring of the query
sets, timed apart, is added. One case of 1 shot also runs in full, to check that. The number of
stacked trials is the fastest of 8, 64 and 256 in a short probe. Both sides never run at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from firthshot.benchmarks.common import (
    Record,
    Report,
    Say,
    Timing,
    clock,
    describe_machine,
    digits,
    geometric_mean,
    repeat,
    repeat_for,
    require_torch,
    sgemm_peak,
)
from firthshot.benchmarks.engine_cases import Case, all_cases, quick_cases
from firthshot.engine import Linear, Mlp, train
from firthshot.errors import FirthshotError

if TYPE_CHECKING:
    from firthshot.benchmarks.torch_loops import StackedLoop
    from firthshot.episodes import Episodes

STACKS = (8, 64, 256)
_STACK_BYTES = 6e9
_SCORED_TRIALS = 8


@dataclass(frozen=True)
class Effort:
    """How long to measure: our seconds per repeat and repeats, the plain way's seconds."""

    seconds: float = 2.0
    repeats: int = 5
    baseline_seconds: float = 3.0
    probe_seconds: float = 0.6


QUICK = Effort(seconds=0.7, repeats=3, baseline_seconds=1.0, probe_seconds=0.3)


@dataclass(frozen=True)
class Baseline:
    """What the plain way costs: seconds per classifier, split into steps and scoring."""

    stack: int
    step_seconds: float  # of the whole stack
    steps: int
    score_seconds: float  # per trial

    @property
    def seconds(self) -> float:
        """Return the seconds per classifier."""
        return self.step_seconds * self.steps / self.stack + self.score_seconds


def run(
    *, quick: bool = False, threads: int = 2, only: str = "", say: Say = print, cold: bool = True
) -> Report:
    """Run the bench on the cases whose name contains ``only``; ``cold`` times compilation too."""
    require_torch("The plain way of the engine bench")
    cases = [case for case in (quick_cases() if quick else all_cases()) if only in case.name]
    if not cases:
        raise FirthshotError(f"No case has {only!r} in its name; see the names in a full run.")
    effort = QUICK if quick else Effort()
    machine = describe_machine(threads)
    compile_seconds = warm_up(cases, threads, say, cold and not quick)
    peak = sgemm_peak(threads)
    records = []
    for number, case in enumerate(cases, 1):
        records.append(measure(case, threads, effort))
        say(f"[{number}/{len(cases)}] {progress_line(records[-1])}")
    check = full_run_check(cases, records, threads, say)
    peak = max(peak, sgemm_peak(threads))
    for record in records:
        record["peak_share"] = record["gflops"] / peak
    extra = {
        "quick": quick,
        "sgemm_peak_gflops": peak,
        "geomeans": family_means(cases, records),
        "compile_seconds": compile_seconds,
        "full_run_check": check,
    }
    return Report(machine, records, extra)


def measure(case: Case, threads: int, effort: Effort) -> Record:
    """Measure one case on both sides."""
    trials, timing = time_engine(case, threads, effort)
    per_second = trials * case.n_coefficients / timing.median
    baseline = time_baseline(case, threads, effort)
    record = {
        **case.fields(),
        "classifiers_per_s": per_second,
        "gflops": per_second * case.useful_flop / 1e9,
        "ratio": baseline.seconds * per_second,
        "spread": timing.spread,
        "trials": trials,
        "baseline_ms": baseline.seconds * 1e3,
        "baseline_stacked": baseline.stack,
        "baseline_step_us": baseline.step_seconds / baseline.stack * 1e6,
        "baseline_scoring_ms": baseline.score_seconds * 1e3,
    }
    if isinstance(case.head, Linear | Mlp):
        published = time_baseline(case, threads, effort, baseline.stack, as_published=True)
        record["ratio_as_published"] = published.seconds * per_second
    return record


def time_engine(case: Case, threads: int, effort: Effort) -> tuple[int, Timing]:
    """Return a number of trials that takes about the time asked for, and the repeats' seconds."""
    few = 2 * threads
    each = min(repeat(trainer(case, case.episodes(few), threads), 2).seconds) / few
    trials = max(few, round(effort.seconds / each / threads) * threads)
    work = trainer(case, case.episodes(min(trials, 8192)), threads)
    return min(trials, 8192), repeat(work, effort.repeats)


def trainer(case: Case, episodes: Episodes, threads: int) -> Callable[[], None]:
    """Return the work of our side: train and score, and refuse results that are not sound."""
    features = case.bank.features

    def work() -> None:
        results = train(
            features, episodes, case.head, case.sgd, case.penalty, threads=threads, memory=6e9
        )
        problems = results.problems()
        if problems:
            raise FirthshotError(f"Case {case.name!r} cannot be timed: {problems[0]}")

    return work


def time_baseline(
    case: Case,
    threads: int,
    effort: Effort,
    stack: int | None = None,
    *,
    as_published: bool = False,
) -> Baseline:
    """Time the plain way with ``stack`` trials together, the fastest number by default."""
    import torch

    torch.set_num_threads(threads)
    best = fastest_stack(case, effort.probe_seconds) if stack is None else stack
    loop = make_loop(case, best, as_published=as_published)
    step = time_step(loop, effort.baseline_seconds)
    few = best if len(loop.episodes[0].query) <= 1000 else min(best, _SCORED_TRIALS)
    scoring = repeat(lambda: loop.accuracy(few), 3).median / few
    return Baseline(best, step, case.steps, scoring)


def fastest_stack(case: Case, seconds: float) -> int:
    """Return the number of stacked trials with the cheapest step per trial."""
    fitting = [stack for stack in STACKS if stack_bytes(case, stack) <= _STACK_BYTES]
    per_trial = {stack: time_step(make_loop(case, stack), seconds) / stack for stack in fitting}
    return min(per_trial, key=lambda stack: per_trial[stack])


def stack_bytes(case: Case, stack: int) -> float:
    """Estimate the memory of a stack: support rows, parameters, gradients and velocities."""
    width = case.head.hidden[0] if isinstance(case.head, Mlp) else case.ways
    return 4.0 * stack * case.d * (case.n + 5 * width)


def make_loop(case: Case, stack: int, *, as_published: bool = False) -> StackedLoop:
    """Return the plain way on the first ``stack`` trials, with a coefficient that is not 0."""
    from firthshot.benchmarks.torch_loops import StackedLoop, prepare_features

    features = prepare_features(case.bank.features, case.head)
    return StackedLoop(
        features,
        case.episodes(stack),
        stack,
        case.head,
        case.sgd,
        coefficient=1.0,
        weight_decay=case.weight_decay,
        as_published=as_published,
    )


def time_step(loop: StackedLoop, seconds: float) -> float:
    """Return the median seconds of one step of the whole stack, batch gathers included."""
    order = loop.draw_order(1)
    # Where a pass ends in a smaller batch, whole passes are the unit that repeats.
    unit = loop.batches if loop.n % loop.sgd.batch_size else 1
    steps = (step for epoch in cycle([order]) for step in loop.each_step(epoch))

    def work() -> None:
        for _ in islice(steps, unit):
            pass

    repeat(work, 2)
    return repeat_for(work, seconds, at_least=5).median / unit


def full_run_check(
    cases: Sequence[Case], records: Sequence[Record], threads: int, say: Say
) -> dict[str, Any] | None:
    """Run the plain way in full on the first case of 1 shot; compare with steps × time per step."""
    import torch

    pair = next((p for p in zip(cases, records, strict=True) if p[0].shots == 1), None)
    if pair is None:
        return None
    (case, record), _ = pair, torch.set_num_threads(threads)
    loop = make_loop(case, record["baseline_stacked"])
    order = loop.draw_order(case.sgd.epochs)
    measured = clock(lambda: loop.run(order)) / loop.stack * 1e3
    extrapolated = record["baseline_ms"] - record["baseline_scoring_ms"]
    say(
        f"check, {case.name}: the plain way in full takes {digits(measured)} ms per classifier; "
        f"steps × time per step is {digits(extrapolated)} ms"
    )
    return {"case": case.name, "full_ms": measured, "extrapolated_ms": extrapolated}


def warm_up(cases: Sequence[Case], threads: int, say: Say, cold: bool) -> dict[str, float]:
    """Compile (or load) the kernels of every head on small trials; return the seconds of each."""
    seconds = {}
    for head in dict.fromkeys(case.head for case in cases):
        work = f"from firthshot.benchmarks.engine import first_call; first_call({head.name!r})"
        if cold:
            seconds[head.name] = _cold_compile(work)
            say(f"compiling the {head.name} head from nothing: {seconds[head.name]:.1f} s")
        small = Case(head, 16, 1, 64, passes=1)
        loaded = clock(trainer(small, small.episodes(2), threads))
        say(f"first call of the {head.name} head here: {loaded:.1f} s")
        seconds.setdefault(head.name, loaded)
    return seconds


def first_call(head_name: str) -> None:
    """Train a head of this name on small trials, once."""
    head = next(case.head for case in all_cases() if case.head.name == head_name)
    small = Case(head, 16, 1, 64, passes=1)
    print(clock(trainer(small, small.episodes(2), 1)))


def _cold_compile(code: str) -> float:
    """Run ``code`` in a process of its own with an empty kernel cache; return what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise FirthshotError(f"Compiling failed: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout)


def family_means(cases: Sequence[Case], records: Sequence[Record]) -> dict[str, float]:
    """Return the geometric mean of the ratios per head and dimension."""
    families: dict[str, list[float]] = {}
    for case, record in zip(cases, records, strict=True):
        families.setdefault(case.family, []).append(record["ratio"])
    return {family: geometric_mean(ratios) for family, ratios in families.items()}


def progress_line(record: Record) -> str:
    """Return one line on a finished case."""
    return (
        f"{record['case']}: {digits(record['classifiers_per_s'])} classifiers/s, "
        f"the plain way {digits(1e3 / record['baseline_ms'])}/s, {digits(record['ratio'])}×"
    )
