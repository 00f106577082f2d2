"""How ``--help`` looks: options beside their meaning, flags without a type, examples whole."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

MOST_COLUMNS = 100
LONGEST_LABEL = 24  # a longer one has a line of its own
VALUES = {"int": "N", "float": "X", "path": "PATH", "file": "PATH", "dir": "PATH"}


class PlainCommand(TyperCommand):
    """A command whose help is one column of options and one of sentences."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return what follows the command's name: what is needed comes first."""
        named = [argument_label(one) for one in self.params if _is_argument(one)]
        return [*named, "[OPTIONS]"]

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Print the help."""
        console = _console()
        _print_head(console, self, ctx)
        arguments = [one for one in self.params if _is_argument(one)]
        rows = [(argument_label(one), meaning(one)) for one in arguments]
        _print_rows(console, "Arguments", rows, _left_column(rows))
        _print_options(console, self, ctx)
        _print_examples(console, self.epilog or "")


class PlainGroup(TyperGroup):
    """A group whose help lists its commands by what a person wants, then its options."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Print the help."""
        console = _console()
        _print_head(console, self, ctx)
        groups = self._by_group()
        left = _left_column(row for rows in groups.values() for row in rows)
        for title, rows in groups.items():
            _print_rows(console, title, rows, left)
        _print_options(console, self, ctx)

    def _by_group(self) -> dict[str, list[tuple[str, str]]]:
        """Return names and first sentences of the commands that are shown."""
        found: dict[str, list[tuple[str, str]]] = {}
        for name, below in self.commands.items():
            title = getattr(below, "rich_help_panel", None)
            if not below.hidden:
                row = (name, (below.help or "").split("\n\n")[0])
                found.setdefault(title if isinstance(title, str) else "Commands", []).append(row)
        return found


def argument_label(parameter: Any) -> str:
    """Return the name of an argument, in brackets where it may be left out."""
    name = parameter.metavar or parameter.name.upper()
    return f"{name}" if parameter.required else f"[{name}]"


def option_label(parameter: Any, ctx: Any) -> str:
    """Return an option as it is typed: a flag alone, others with what they take."""
    names = "/".join((*parameter.opts, *parameter.secondary_opts))
    return names if parameter.is_flag else f"{names} {_value(parameter, ctx)}"


def _value(parameter: Any, ctx: Any) -> str:
    """Return what an option takes: its choices, or a word for its type."""
    if parameter.metavar:
        return str(parameter.metavar)
    describe = getattr(parameter, "display_type", None) or parameter.make_metavar
    kind = describe(ctx).strip("<[]>").removeprefix("list[").removesuffix("...").rstrip("]")
    if "|" in kind:
        return str(kind)
    return next((word for part, word in VALUES.items() if kind.lower().startswith(part)), "TEXT")


def meaning(parameter: Any) -> str:
    """Return the sentence of a parameter, and its default where there is one to tell."""
    words = parameter.help or ""
    if parameter.required:
        return words if _is_argument(parameter) else f"{words} Required."
    value = getattr(parameter.default, "value", parameter.default)
    if value is True and parameter.secondary_opts:
        value = parameter.opts[0]
    untold = value is None or isinstance(value, bool) or value in ("", (), []) or callable(value)
    return words if untold or "default" in words.lower() else f"{words} Default: {value}."


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _console() -> Console:
    from firthshot.cli._screen import screen

    made = screen()
    made.width = min(made.width, MOST_COLUMNS)
    return made


def _print_head(console: Console, command: Any, ctx: Any) -> None:
    """Print the usage line and what the command does."""
    pieces = " ".join(command.collect_usage_pieces(ctx))
    console.print(_lines(f"Usage: {ctx.command_path} {pieces}", console.width), style="bold")
    for paragraph in (command.help or "").split("\n\n"):
        console.print()
        console.print(_lines(paragraph, console.width))


def _print_options(console: Console, command: Any, ctx: Any) -> None:
    """Print the options of a command, in the groups that its help has for them."""
    from firthshot.cli._help import GROUPS

    wanted = GROUPS.get(ctx.command_path.removeprefix("firthshot "), {})
    shown = [one for one in command.get_params(ctx) if not _is_argument(one) and not one.hidden]
    rows = {one.opts[0][2:]: (option_label(one, ctx), meaning(one)) for one in shown}
    left = _left_column(rows.values())
    for title, names in wanted.items():
        _print_rows(console, title, [rows.pop(name) for name in names if name in rows], left)
    _print_rows(console, "Other" if wanted else "Options", list(rows.values()), left)


def _left_column(rows: Iterable[tuple[str, str]]) -> int:
    """Return the width of the labels, but for those that have a line of their own."""
    return 4 + max((len(label) for label, _ in rows if len(label) <= LONGEST_LABEL), default=8)


def _print_rows(console: Console, title: str, rows: list[tuple[str, str]], left: int) -> None:
    """Print a title and, under it, labels with their sentences beside them."""
    if not rows:
        return
    from rich.text import Text

    console.print()
    console.print(title, style="bold underline")
    for label, words in rows:
        first, *more = textwrap.wrap(words, console.width - left, break_long_words=False) or [""]
        label = f"  {label}".ljust(left)
        if len(label) > left:
            label += "\n" + " " * left
        lines = "\n".join((first, *(" " * left + line for line in more)))
        console.print(Text.assemble((label, "cyan"), lines), soft_wrap=True)


def _print_examples(console: Console, epilog: str) -> None:
    """Print the examples, each on a line that can be copied, and the guide."""
    title, *examples, guide = epilog.split("\n\n") if epilog else ("", "")
    if examples:
        console.print()
        console.print(title.removesuffix(":"), style="bold underline")
        for line in examples:
            console.print("  " + line, soft_wrap=True)
        console.print()
        console.print(guide)


def _lines(text: str, width: int) -> str:
    return textwrap.fill(" ".join(text.split()), width, break_on_hyphens=False)
