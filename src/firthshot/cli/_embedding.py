"""A bar while pictures or texts are embedded, on standard error and only at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from firthshot.cli._screen import screen


@contextmanager
def embedding_progress() -> Iterator[Callable[[int, int], None]]:
    """Give a listener that draws a bar from its first call on."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("Embedding"),
        BarColumn(20),
        TextColumn("{task.completed} of {task.total}"),
    )
    console = screen(stderr=True)
    bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
    task = bar.add_task("", total=None)

    def listen(done: int, total: int) -> None:
        if console.is_terminal:
            bar.start()
            bar.update(task, completed=done, total=total)

    try:
        yield listen
    finally:
        if bar.live.is_started:  # stopping prints an empty line otherwise
            bar.stop()
