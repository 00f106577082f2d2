"""Listeners that keep what they hear, or end the work at some point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firthshot.progress import ProgressListener


def interrupt() -> None:
    raise KeyboardInterrupt


class Heard(ProgressListener):
    """Keep the counts and the remarks of a piece of work."""

    def __init__(self) -> None:
        self.total = self.before = self.done = 0
        self.lines: list[str] = []

    def start(self, total: int, what: str, *, done: int = 0, **_: Any) -> None:
        self.total, self.before, self.done = total, done, done

    def advance(self, count: int = 1, **_: Any) -> None:
        self.done += count

    def say(self, line: str) -> None:
        self.lines.append(line)


class StopAt(Heard):
    """Act once so many more items are done; by default as Ctrl-C does."""

    def __init__(self, at: int, act: Callable[[], object] = interrupt) -> None:
        super().__init__()
        self.left, self.act = at, act

    def advance(self, count: int = 1, **_: Any) -> None:
        super().advance(count)
        self.left -= count
        if -count < self.left <= 0:
            self.act()
