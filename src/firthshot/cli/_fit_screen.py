"""How the answer of ``firthshot fit`` looks, at a terminal and in a plain pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firthshot.cli._screen import facts, pair, plain

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from firthshot.own_data import Changes, FitReport

MOST_WARNINGS = 1  # the page has them all


def show_report(console: Console, report: FitReport, changes: Changes | None = None) -> None:
    """Print what was fitted, the answer, and what an update changed."""
    from firthshot.own_data import answer_lines, title_line

    console.print(plain(title_line(report), "bold"))
    updated = {} if changes is None else {"update": str(changes)}
    console.print(facts(dict(answer_lines(report)) | updated))


def show_warnings(console: Console, sentences: list[str], *, quiet: bool) -> None:
    """Print the gravest warnings, or all of them where nothing else is printed."""
    shown = sentences if quiet else sentences[:MOST_WARNINGS]
    rest = len(sentences) - len(shown)
    for sentence in shown:
        more = f" ({rest} more on the page.)" if rest else ""
        console.print(pair(plain("warning", "yellow"), plain(sentence + more), 10))


def show_next(console: Console, model: Path, page: Path, command: str) -> None:
    """Say where model and page are, and what to do with them."""
    console.print(plain(f"Wrote {model} and {page}. Next:", "bold"), soft_wrap=True)
    console.print(plain(f"  {command}"), soft_wrap=True)
