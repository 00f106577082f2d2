"""What commands put on the screen: text as it is, facts, tables and lines."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

import typer

from firthshot.errors import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.table import Table
    from rich.text import Text

    from firthshot.errors import Advice, FirthshotError


def echo(line: str = "", *, err: bool = False) -> None:
    """Print one line; control characters in the names of somebody's file are escaped."""
    typer.echo(one_line(line), err=err)


def echo_data(text: str) -> None:
    """Print the content of a file: as it is into a pipe, but harmless at a terminal."""
    if sys.stdout.isatty():
        text = _visible_lines(text)
    typer.echo(text, nl=False)


def echo_json(data: object) -> None:
    """Print a result for another program."""
    import json

    typer.echo(json.dumps(data, indent=1, ensure_ascii=False, default=str))


def with_options(words: Advice | FirthshotError | str) -> str:
    """Return a sentence with the options of the command that it is about, at its end."""
    flags = [_option(argument) for argument in getattr(words, "arguments", ())]
    return f"{str(words).removesuffix('.')} ({', '.join(flags)})." if flags else str(words)


def _option(argument: str) -> str:
    """Return the option for a Python argument: ``drop=my age`` is ``--drop 'my age'``."""
    name, _, value = argument.partition("=")
    return f"--{name.replace('_', '-')}" + (f" {shlex.quote(value)}" if value else "")


def screen(**options: Any) -> Console:
    """Return a console that takes nothing for markup, and obeys no control character of a name."""
    from rich.console import Console

    class Screen(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                shown = segment.text if segment.control else _visible_lines(segment.text)
                yield segment._replace(text=shown)

    return Screen(markup=False, emoji=False, highlight=False, **options)


def _visible_lines(text: str) -> str:
    return "\n".join(map(visible, text.split("\n")))


def plain(words: str, style: str = "") -> Text:
    """Return text as it is: no markup, and control characters escaped."""
    from rich.text import Text

    return Text(visible(words), style)


def facts(lines: Mapping[str, str]) -> Table:
    """Return names in bold, each with what is to be said of it, which may take several lines."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, words in lines.items():
        grid.add_row(plain(name, "bold"), plain(words))
    return grid


def pair(left: Text, right: Text, width: int) -> Table:
    """Return a short word in a column of its own and a sentence beside it."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=width, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(left, right)
    return grid


def table(*columns: str, right: Collection[str] = (), one_line: bool = False) -> Table:
    """Return an empty table; ``one_line`` keeps its rows from wrapping and its columns close."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0) if one_line else (0, 1))
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="ellipsis" if one_line else "fold",
            no_wrap=one_line,
        )
    return made


def say(console: Console, line: str) -> None:
    """Print a line as it is; the terminal breaks it, so that paths can be copied."""
    console.print(plain(one_line(line)), soft_wrap=True)
