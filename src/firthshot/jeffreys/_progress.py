"""Tell whoever watches how far a long computation is; nobody need watch."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Watcher = Callable[[str, int, int], None]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Call ``watcher(what, done, total)`` now and then, as in ("coefficients tested", 12, 39)."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def tell(what: str, done: int, total: int) -> None:
    """Say that ``done`` of ``total`` are ready."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(what, done, total)
