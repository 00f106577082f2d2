"""What ``run``, ``presets`` and ``validate`` say of the geometric experiment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firthshot.experiments.spec.fields import GeometricSpec


def size(spec: GeometricSpec) -> str:
    """Say what a run of the spec draws."""
    noun = "trial" if spec.trials == 1 else "trials"
    draws = f"{spec.sample_size:,} geometric draws each"
    return f"{spec.trials:,} {noun} of {draws}, p = {spec.p:g}"


def settings(spec: GeometricSpec) -> dict[str, str]:
    """Return the settings in words, and the time that the run takes here."""
    return {
        "preset": spec.name,
        "question": spec.question,
        "reproduces": spec.reproduces,
        "remark": spec.remark,
        "estimators": "maximum likelihood 1/ȳ, Firth (N − 1)/(Nȳ − 1); N = 1 is taken as 1.01",
        "p": f"{spec.p:g}",
        "sample_size": f"{spec.sample_size}; all sizes from 1 up, from the same draws of a trial",
        "slope": f"fitted from N = {spec.slope[0]} to {spec.slope[1]}",
        "trials": f"{spec.trials:,}",
        "time": _time(spec),
    }


def _time(spec: GeometricSpec) -> str:
    """Estimate the time from a small block, timed here and now."""
    from firthshot.experiments.geometric import error_sums
    from firthshot.experiments.run.workers import default_workers
    from firthshot.progress import duration

    error_sums(spec, (0, 1))  # compiled before the clock starts
    few = min(spec.trials, max(1, 500_000 // spec.sample_size))
    start = time.perf_counter()
    error_sums(spec, (0, few))
    seconds = (time.perf_counter() - start) / few * spec.trials
    cores = default_workers()
    return f"about {duration(seconds / cores)} on {cores} cores"
