"""Tell how a run goes: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from firthshot.cli._screen import say
from firthshot.experiments.plan.cell import Cell
from firthshot.experiments.run.workers import Done
from firthshot.experiments.wording import duration

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_SECONDS = 10.0


class Meter:
    """Count cells, and work out rate and time left."""

    def __init__(self) -> None:
        self.total = self.done = self.failed = self.classifiers = 0
        self.fresh = 0
        self._since = time.monotonic()

    def begin(self, cells: list[Cell], finished: list[Cell]) -> None:
        """Add the cells of a round."""
        if self.total == 0:
            self._since = time.monotonic()
        self.total += len(cells)
        self.done += len(finished)

    def count(self, done: Done) -> None:
        """Add a cell that ended."""
        self.done += 1
        self.fresh += 1
        self.failed += done.tables is None
        self.classifiers += done.cell.classifiers if done.tables is not None else 0

    @property
    def elapsed(self) -> float:
        """Return the seconds since the first round began."""
        return time.monotonic() - self._since

    @property
    def rate(self) -> float:
        """Return classifiers per second of this session."""
        return self.classifiers / max(self.elapsed, 1e-9)

    @property
    def left(self) -> float | None:
        """Return the seconds left, None while too little is known; cells cost about the same.

        The first cells compile kernels: they say nothing of those to come.
        """
        if self.fresh < min(4, self.total):
            return None
        return (self.total - self.done) * self.elapsed / self.fresh

    def words(self) -> str:
        """Return all of it in one line."""
        failed = f", {self.failed} failed" if self.failed else ""
        left = "" if self.left is None else f", {duration(self.left)} left"
        return (
            f"{self.done:,} of {self.total:,} cells{failed}, {self.rate:,.0f} classifiers/s{left}"
        )


class PlainProgress:
    """Print a line now and then."""

    def __init__(self, console: Console, every: float = PLAIN_SECONDS) -> None:
        self.console, self.every = console, every
        self.meter = Meter()
        self._last = time.monotonic()

    def begin(self, cells: list[Cell], finished: list[Cell]) -> None:
        """Say how much there is to do."""
        self.meter.begin(cells, finished)
        before = f", {len(finished):,} of them finished before" if finished else ""
        self.say(f"{len(cells):,} cells{before}.")

    def done(self, done: Done) -> None:
        """Count a cell, and say so every few seconds."""
        self.meter.count(done)
        if done.tables is None:
            self.say(f"Failed: {done.cell.words}: {done.reason}")
        over = self.meter.done == self.meter.total
        if over or time.monotonic() - self._last >= self.every:
            self._last = time.monotonic()
            self.say(self.meter.words() + ".")

    def say(self, line: str) -> None:
        """Print a line as it is."""
        say(self.console, line)

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class QuietProgress(PlainProgress):
    """Say only what went wrong."""

    def begin(self, cells: list[Cell], finished: list[Cell]) -> None:
        """Count in silence."""
        self.meter.begin(cells, finished)

    def done(self, done: Done) -> None:
        """Count, and tell failures."""
        self.meter.count(done)
        if done.tables is None:
            super().say(f"Failed: {done.cell.words}: {done.reason}")

    def say(self, line: str) -> None:
        """Keep remarks to itself."""


class BarProgress(PlainProgress):
    """Draw a bar with cells, classifiers per second and time left."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        from rich.progress import BarColumn, Progress, TextColumn

        self._bar = Progress(
            BarColumn(bar_width=20),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[words]}"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("", words="", total=None)

    def begin(self, cells: list[Cell], finished: list[Cell]) -> None:
        """Lengthen the bar."""
        super().begin(cells, finished)
        self._update()

    def done(self, done: Done) -> None:
        """Move the bar."""
        self.meter.count(done)
        if done.tables is None:
            self.say(f"Failed: {done.cell.words}: {done.reason}")
        self._update()

    def _update(self) -> None:
        fields: dict[str, Any] = {"total": self.meter.total, "completed": self.meter.done}
        self._bar.update(self._task, words=self.meter.words(), **fields)

    def __enter__(self) -> BarProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def make_progress(console: Console, quiet: bool) -> PlainProgress:
    """Return the way of telling that suits the console."""
    if quiet:
        return QuietProgress(console)
    return BarProgress(console) if console.is_terminal else PlainProgress(console)
