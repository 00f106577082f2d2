"""Tell how a training goes: a bar on a terminal, plain lines elsewhere, and curves on disk."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from firthshot.backbones.training import Watcher, best_record, draw_curves, write_history
from firthshot.cli._screen import Bar, say
from firthshot.experiments.wording import duration

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from firthshot.backbones.training import EpochRecord

PLAIN_SECONDS = 60.0


class TellingWatcher(Watcher):
    """Print a line per epoch and, while one runs, how far it is.

    Parameters
    ----------
    console : Console
        Where to print.
    folder : Path
        Where ``curves.png`` and ``history.csv`` are kept.
    title : str
        Heading of the curves.
    """

    def __init__(self, console: Console, folder: Path, title: str) -> None:
        self.console, self.folder, self.title = console, folder, title
        self._done = self._total = self._fresh = self._batches = self._size = 0
        self._began = self._spoke = time.monotonic()
        self._bar = Bar(console)

    def __enter__(self) -> TellingWatcher:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def start(self, done: int, total: int, batches: int, size: int) -> None:
        """Note how much there is to do."""
        self._done, self._total = done * batches, total * batches
        self._batches, self._size = batches, size
        self._began = self._spoke = time.monotonic()

    def batch(self, epoch: int, batch: int, loss: float) -> None:
        """Move the bar; elsewhere print a line a minute."""
        self._done += 1
        self._fresh += 1
        words = self._words(epoch, batch, loss)
        self._bar.move(self._done, self._total, words)
        if not self.console.is_terminal and time.monotonic() - self._spoke > PLAIN_SECONDS:
            self._spoke = time.monotonic()
            say(self.console, words)

    def _words(self, epoch: int, batch: int, loss: float) -> str:
        pace = (time.monotonic() - self._began) / self._fresh
        left = duration(pace * (self._total - self._done))
        epochs = self._total // self._batches
        return (
            f"epoch {epoch} of {epochs}, batch {batch} of {self._batches}, loss {loss:.3f}, "
            f"{self._size / pace:.0f} pictures/s, {left} left"
        )

    def epoch(self, history: list[EpochRecord]) -> None:
        """Print what the epoch gave and redraw the curves."""
        record = history[-1]
        self._spoke = time.monotonic()
        best = ", the best so far" if best_record(history) is record else ""
        say(
            self.console,
            f"Epoch {record.epoch} ({record.objective}): loss {record.loss:.3f}, "
            f"accuracy {100 * record.accuracy:.1f} %; monitored {record.monitored_loss:.3f}, "
            f"{100 * record.monitored_accuracy:.1f} %{best} ({duration(record.seconds)}).",
        )
        write_history(history, self.folder / "history.csv")
        draw_curves(history, self.folder / "curves.png", self.title)
