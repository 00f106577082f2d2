"""``firthshot report``: figures, tables and one page from one or several run folders."""

from __future__ import annotations

import time
from pathlib import Path

from firthshot.cli._screen import echo


def report(folders: list[Path], out: Path | None = None, figures: bool = True) -> None:
    """Write report.html, figures/ and tables/ of run folders, finished or not."""
    from firthshot.report.build import write_report

    distinct = list({folder.resolve(): folder for folder in folders}.values())
    if out is None and len(distinct) > 1:
        names = "+".join(folder.resolve().name for folder in distinct)
        out = distinct[0].resolve().parent / names
    echo(f"report in {write_report(distinct, out, figures=figures, drawn=FigureCount())}")


class FigureCount:
    """Say now and then how many figures are drawn; how many there will be, nobody knows.

    Each pause is longer than the one before: ten minutes of figures make about ten lines.
    """

    def __init__(self, every: float = 5.0) -> None:
        self.every = every
        self.last = time.monotonic()

    def __call__(self, figures: int) -> None:
        """Say it, where the last line is long enough ago."""
        from firthshot.report.wording import counted

        now = time.monotonic()
        if now - self.last >= self.every:
            self.last = now
            self.every *= 1.5
            echo(f"{counted(figures, 'figure')} drawn so far.", err=True)
