"""How far a long piece of work is: every room tells it in one way, whoever listens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class ProgressListener:
    """Hear how far a piece of work is; this one keeps silent."""

    def start(
        self, total: int, what: str, *, done: int = 0, unit: str = "", units: int | None = None
    ) -> None:
        """Hear of ``total`` items of work, such as "cells"; the same items again are added.

        ``done`` were finished before. The rate counts the ``unit``, such as "classifiers", of which
        ``units`` are still to do: where items differ in cost, the time left follows them.
        """

    def advance(self, count: int = 1, *, units: int | None = None, words: str = "") -> None:
        """Hear that ``count`` more items are done, which were so many units.

        ``words`` are shown beside the count until the next call.
        """

    def doing(self, words: str) -> None:
        """Hear what begins now and cannot be counted, such as "Loading the encoder"."""

    def say(self, line: str) -> None:
        """Hear a remark."""

    def warn(self, line: str) -> None:
        """Hear of something that went wrong, which is shown even where all is to be quiet."""

    def finish(self) -> None:
        """Hear that nothing more comes."""


SILENT = ProgressListener()
_ambient: ContextVar[ProgressListener] = ContextVar("listener", default=SILENT)


@contextmanager
def heard_by(listener: ProgressListener) -> Iterator[None]:
    """Let a listener hear of work whose functions have no argument for one."""
    token = _ambient.set(listener)
    try:
        yield
    finally:
        _ambient.reset(token)


def ambient_listener() -> ProgressListener:
    """Return the listener that `heard_by` set, or the silent one."""
    return _ambient.get()


def duration(seconds: float) -> str:
    """Return a time as people say it: 40 s, 12 min, 3.5 h, 2.1 days, 4.0 years."""
    for limit, unit, name in (
        (90, 1, "s"),
        (5400, 60, "min"),
        (172800, 3600, "h"),
        (63072000, 86400, "days"),
    ):
        if seconds < limit:
            value = seconds / unit
            return f"{value:.0f} {name}" if value >= 10 or unit <= 60 else f"{value:.1f} {name}"
    return f"{seconds / 31557600:.1f} years"
