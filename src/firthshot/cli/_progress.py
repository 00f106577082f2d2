"""Show how far a piece of work is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from firthshot.cli._screen import echo, say, screen
from firthshot.progress import ProgressListener, duration, heard_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.progress import Progress

EVERY_SECONDS = 10.0
PATIENCE_SECONDS = 1.0  # work that is usually over by then is shown only if it is not
_ENOUGH = 4  # the first items may compile kernels: they say nothing of those to come


class Meter:
    """Count items and units, and work out rate and time left."""

    def __init__(self) -> None:
        self.what = ""
        self._reset()

    def _reset(self) -> None:
        self.total = self.done = self.fresh = self.units = 0
        self.units_left: int | None = 0
        self.unit = self.words = ""
        self._since = time.monotonic()

    def start(self, total: int, what: str, done: int, unit: str, units: int | None) -> None:
        """Begin to count, or go on with more of the same."""
        if what != self.what:
            self._reset()
        self.what, self.unit = what, unit
        self.total += total
        self.done += done
        known = self.units_left is not None and units is not None
        self.units_left = (self.units_left or 0) + (units or 0) if known else None

    def advance(self, count: int, units: int | None, words: str) -> None:
        """Count items that were finished now."""
        self.done += count
        self.fresh += count
        spent = count if units is None else units
        self.units += spent
        if self.units_left is not None:
            self.units_left -= spent
        self.words = words

    @property
    def left(self) -> float | None:
        """Seconds that are left, None while too little is known."""
        if self.fresh < min(_ENOUGH, self.total):
            return None
        elapsed = time.monotonic() - self._since
        if self.units_left is None or not self.units:
            return (self.total - self.done) * elapsed / self.fresh
        return self.units_left * elapsed / self.units

    def line(self) -> str:
        """Return all of it in one line without a full stop."""
        parts = [f"{self.done:,} of {self.total:,} {self.what}", self.words]
        if self.fresh:
            rate = self.units / max(time.monotonic() - self._since, 1e-9)
            parts.append(f"{rate:,.{0 if rate >= 10 else 1}f}{' ' * bool(self.unit)}{self.unit}/s")
        if self.done < self.total and self.left is not None:
            parts.append(f"{duration(self.left)} left")
        return ", ".join(filter(None, parts))


class ScreenProgress(ProgressListener):
    """Draw a bar, or print a line now and then where there is no terminal.

    It begins after some seconds of ``patience``. The first line ends with the ``hint``, such as a
    way to wait less.
    """

    def __init__(
        self, console: Console, *, quiet: bool = False, patience: float = 0.0, hint: str = ""
    ) -> None:
        self.console, self.quiet, self.hint = console, quiet or console.quiet, hint
        self.meter = Meter()
        self._bar: Progress | None = None
        self._patience, self._timer = patience, threading.Timer(0.0, print)
        self._begins = self._silent_until = time.monotonic() + patience
        self._next_line = self._begins + (0.0 if patience else EVERY_SECONDS)

    def start(
        self, total: int, what: str, *, done: int = 0, unit: str = "", units: int | None = None
    ) -> None:
        """Say what was finished before, and show the bar."""
        self.meter.start(total, what, done, unit, units)
        if done and self._begins <= time.monotonic():
            self.say(f"{done:,} of {total:,} {what} were finished before.")
        self._show()

    def advance(self, count: int = 1, *, units: int | None = None, words: str = "") -> None:
        """Move the bar, or print a line if it is time."""
        self._timer.cancel()
        self.meter.advance(count, units, words)
        self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if self.quiet or now < self._begins:
            return
        if self.console.is_terminal:
            self._draw(self._line(), self.meter.done, self.meter.total)
        elif self.meter.fresh and (now >= self._next_line or self.meter.done == self.meter.total):
            self._next_line = now + EVERY_SECONDS
            self.say(self._line() + ".")
            self.hint = ""

    def _line(self) -> str:
        return "; ".join(filter(None, (self.meter.line(), self.hint)))

    def _draw(self, words: str, done: int = 0, total: int | None = None) -> None:
        """Show the bar; without a total it moves to and fro."""
        from rich.progress import BarColumn, Progress, TextColumn

        if self._bar is None:
            columns = BarColumn(bar_width=20), TextColumn("{task.fields[words]}", markup=False)
            self._bar = Progress(*columns, console=self.console, transient=True)
            self._bar.add_task("", words="", total=None)
            self._bar.start()
        share = f"{100 * done / total:3.0f} % " if total else ""
        task = self._bar.task_ids[0]
        self._bar.update(task, completed=done, total=total, words=share + words)

    def doing(self, words: str) -> None:
        """Print what is being done, once nothing was printed for a while."""
        self._timer.cancel()
        silence = max(self._silent_until - time.monotonic(), 0.0)
        self._timer = threading.Timer(silence, self._tell, [f"{words} …"])
        self._timer.daemon = True
        self._timer.start()

    def _tell(self, words: str) -> None:
        if self.console.is_terminal and not self.quiet:
            self._draw(words)
        else:
            self.say(words)

    def say(self, line: str) -> None:
        """Print a line as it is."""
        self._silent_until = time.monotonic() + self._patience
        if not self.quiet:
            say(self.console, line)

    def warn(self, line: str) -> None:
        """Print a line in any case."""
        quiet, self.console.quiet = self.console.quiet, False
        say(self.console, line)
        self.console.quiet = quiet

    def finish(self) -> None:
        """Take the bar away."""
        self._timer.cancel()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __enter__(self) -> ScreenProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


@contextmanager
def listening(what: str, *, quiet: bool) -> Iterator[None]:
    """Show long work of the library on standard error, once it takes long, or is stopped.

    ``what`` is done first, such as "Reading pets.csv".
    """
    told = ScreenProgress(screen(stderr=True), quiet=quiet, patience=PATIENCE_SECONDS)
    try:
        with told as listener, heard_by(listener):
            listener.doing(what)
            yield
    except KeyboardInterrupt:
        echo("Stopped. Finished embeddings are kept: repeat the command to go on.", err=True)
        raise
