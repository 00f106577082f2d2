"""``python -m benchmarks engine``: the engine against a batched autograd loop, on the same trials.

How it is measured. Our side trains whole blocks of trials, scoring included, on all threads: the
median of repeats. The plain side (:mod:`.torch_loops`) would take hours. Its SGD steps cost the
same in every pass, so they are timed one by one for a few seconds (the median step, or the median
pass where a pass ends in a smaller batch) and multiplied by their number; the scoring of the query
sets, timed apart, is added. One case of 1 shot also runs in full, to check that. The number of
stacked trials (8, 64 or 256) and of torch threads (all, or one where others keep the cores busy)
is the fastest in a short probe. Both sides never run at once, and every record says how much of
the machine other processes used meanwhile: torch's threads wait for each other, so a busy core
slows the plain side many times over and would flatter ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

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
    require_torch,
    sgemm_peak,
)
from benchmarks.engine_cases import Case, all_cases, quick_cases
from benchmarks.engine_profile import profile_linear
from benchmarks.engine_report import show
from benchmarks.engine_timing import (
    QUICK,
    Effort,
    make_loop,
    time_baseline,
    time_engine,
    trainer,
)
from firthshot.engine import Linear, Mlp
from firthshot.errors import FirthshotError

__all__ = ["run", "show"]


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
    check = full_run_check(cases, records, say)
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
    if any(isinstance(case.head, Linear) for case in cases):
        say("profile of the linear step")
        extra["profile"] = profile_linear()
    return Report(machine, records, extra)


def measure(case: Case, threads: int, effort: Effort) -> Record:
    """Measure one case on both sides."""
    others = OtherWork()
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
        "baseline_threads": baseline.threads,
        "baseline_step_us": baseline.step_seconds / baseline.stack * 1e6,
        "baseline_scoring_ms": baseline.score_seconds * 1e3,
    }
    if isinstance(case.head, Linear | Mlp):
        way = (baseline.stack, baseline.threads)
        published = time_baseline(case, threads, effort, way, as_published=True)
        record["ratio_as_published"] = published.seconds * per_second
    return {**record, "others_share": others.share()}


def full_run_check(
    cases: Sequence[Case], records: Sequence[Record], say: Say
) -> dict[str, Any] | None:
    """Run the plain way in full on the first case of 1 shot; compare with steps × time per step."""
    import torch

    pair = next((p for p in zip(cases, records, strict=True) if p[0].shots == 1), None)
    if pair is None:
        return None
    case, record = pair
    torch.set_num_threads(record["baseline_threads"])
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
        work = f"from benchmarks.engine import first_call; first_call({head.name!r})"
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
            cwd=ROOT,
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
