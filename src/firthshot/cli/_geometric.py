"""The geometric experiment behind ``run``, ``presets`` and ``validate``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from firthshot.cli._screen import echo, screen

if TYPE_CHECKING:
    from firthshot.experiments.spec.geometric import GeometricSpec


def run_here(
    source: str,
    foreign: dict[str, Any],
    trials: int | None,
    assignments: list[str] | None,
    out: Path | None,
    workers: int | None,
    quiet: bool,
) -> Path:
    """Run the experiment into a folder, print what it found and return the folder."""
    from firthshot.cli._results import resume_command
    from firthshot.experiments.geometric.run import run_geometric
    from firthshot.experiments.geometric.summary import read_geometric
    from firthshot.experiments.spec.geometric import load_geometric
    from firthshot.experiments.spec.reading import parse_assignment

    _refuse(foreign)
    given: dict[str, Any] = dict(parse_assignment(text) for text in assignments or [])
    given |= {} if trials is None else {"trials": trials}
    spec = load_geometric(source, given)
    folder = out or (Path(source) if Path(source).is_dir() else Path("runs") / spec.name)
    if not quiet:
        echo(f"{spec.name}: {_size(spec)}. Into {folder}.")
    try:
        shown = None if quiet else _GeometricProgress()
        run_geometric(spec, folder, workers=workers, progress=shown, say=echo)
    except KeyboardInterrupt:
        echo(f"Stopped. Finished blocks are kept; go on with: {resume_command(folder)}")
        raise typer.Exit(130) from None
    if not quiet:
        for line in read_geometric(folder).sentences():
            echo(line)
        echo(f"The table is in {folder}/summary.")
    return folder


def describe(source: str, foreign: dict[str, Any]) -> None:
    """Tell what the preset reproduces and its settings."""
    from rich.table import Table

    from firthshot.experiments.spec.geometric import load_geometric

    _refuse(foreign)
    spec = load_geometric(source)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    rows = {
        "preset": spec.name,
        "reproduces": spec.reproduces,
        "remark": spec.remark,
        "estimators": "maximum likelihood 1/ȳ, Firth (N − 1)/(Nȳ − 1); N = 1 is taken as 1.01",
        "p": f"{spec.p:g}",
        "sample_size": f"{spec.sample_size}; all sizes from 1 up, from the same draws of a trial",
        "slope": f"fitted from N = {spec.slope[0]} to {spec.slope[1]}",
        "trials": f"{spec.trials:,} in {len(spec.blocks())} blocks",
        "time": _time(spec),
    }
    for what, words in rows.items():
        if words:
            table.add_row(what, words)
    screen().print(table)


def check(source: str, fields: dict[str, Any], text: str, foreign: dict[str, Any]) -> None:
    """Print every problem of a spec's fields, or that there is none."""
    from firthshot.experiments.spec.geometric import build_geometric, geometric_problems

    _refuse(foreign)
    problems = geometric_problems(fields, text)
    for problem in problems:
        echo(f"{source}: {problem}")
    if problems:
        raise typer.Exit(2)
    echo(f"{_size(build_geometric(fields))}.")
    echo(f"{source} is in order.")


def _refuse(foreign: dict[str, Any]) -> None:
    """Refuse options that the experiment has no use for."""
    from firthshot.errors import FirthshotError

    for option, value in foreign.items():
        if value:
            raise FirthshotError(
                f"The geometric experiment has no use for {option}: it draws its own samples here."
            )


def _size(spec: GeometricSpec) -> str:
    noun = "trial" if spec.trials == 1 else "trials"
    draws = f"{spec.sample_size:,} geometric draws each"
    return f"{spec.trials:,} {noun} of {draws}, p = {spec.p:g}"


def _time(spec: GeometricSpec) -> str:
    """Estimate the time from a small block, timed here and now."""
    from firthshot.experiments.geometric.run import error_sums
    from firthshot.experiments.run.workers import default_workers
    from firthshot.experiments.wording import duration

    error_sums(spec, (0, 1))  # compiled before the clock starts
    few = min(spec.trials, max(1, 500_000 // spec.sample_size))
    start = time.perf_counter()
    error_sums(spec, (0, few))
    seconds = (time.perf_counter() - start) / few * spec.trials
    cores = default_workers()
    return f"about {duration(seconds / cores)} on {cores} cores"


class _GeometricProgress:
    """Say every few seconds how far the run is."""

    def __init__(self, every: float = 5.0) -> None:
        self.every = every
        self.begun = self.last = time.monotonic()
        self.before: int | None = None

    def __call__(self, done: int, blocks: int) -> None:
        from firthshot.experiments.wording import duration

        now = time.monotonic()
        if self.before is None:
            self.before = done
            if done:
                echo(f"{done} of {blocks} blocks were finished before.")
        elif done < blocks and now - self.last >= self.every:
            self.last = now
            left = (now - self.begun) / (done - self.before) * (blocks - done)
            echo(f"{done} of {blocks} blocks, {duration(left)} left")
