"""How ``--help`` looks, and from where it takes what it says: ``help.toml``.

Options stand beside their meaning, flags without a type, examples whole.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

OWN_DATA = "Classify your own photos, sentences and tables"
MEASURE = "Find out whether Firth helps on your features"
REGRESSION = "Estimate and test"
LONGEST_LABEL = 24  # a longer one has a line of its own
VALUES = {"int": "N", "float": "X", "path": "PATH", "file": "PATH", "dir": "PATH"}
HELP: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("help.toml").read_text("utf-8")
)
ALIASES = {
    "bank ls": "bank list",
    "bank info": "bank show",
    "bank doctor": "bank check",
    "backbone ls": "backbone list",
}
Rows = list[tuple[str, str]]


def _told(texts: Mapping[str, str]) -> Iterator[tuple[str, tuple[str | None, str]]]:
    """Yield the name of each parameter, with what it takes and what it means."""
    for key, text in texts.items():
        name, _, takes = key.partition(" ")
        yield name, (takes or None, text)


SHARED = dict(_told(HELP.pop("shared")))


def add_help(app: typer.Typer, above: str = "") -> None:
    """Give every command of an app its help screen."""
    app.info.cls = PlainGroup
    app.rich_markup_mode = None  # of two columns, and not of four
    for command in app.registered_commands:
        assert command.callback is not None
        name = f"{above}{command.name or command.callback.__name__}"
        own = {"words": HELP[ALIASES.get(name, name)]}
        command.cls = type("PlainCommand", (PlainCommand,), own)


class PlainCommand(TyperCommand):
    """A command whose help is one column of options and one of sentences."""

    words: Mapping[str, Any]  # its table in ``help.toml``

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        groups = [self.words.get("arguments", {}), *self.words.get("options", {}).values()]
        own = {name: pair for texts in groups for name, pair in _told(texts)}
        parameters: list[Any] = self.params
        for one in parameters:
            if not _is_argument(one) and one.default is False:
                one.secondary_opts = []  # who leaves a flag out says no
            takes, words = own[_name(one)]
            one.metavar, one.help = (takes, words) if words else SHARED[_name(one)]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return what follows the command's name: what is needed comes first."""
        return [*(argument_label(one) for one in self.params if _is_argument(one)), "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options in their groups."""
        arguments = [
            (argument_label(one), meaning(one)) for one in self.params if _is_argument(one)
        ]
        _write(formatter, {"Arguments": arguments})
        groups = self.words.get("options", {})
        _write_options(formatter, ctx, self.get_params(ctx), groups)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the examples, each on a line that can be copied, and the guide."""
        with formatter.section("Examples"):
            lines = (f"  firthshot {example}\n" for example in self.words["examples"])
            formatter.write("".join(lines))
        formatter.write(f"\nGuide: docs/{self.words['guide']}\n")


class PlainGroup(TyperGroup):
    """A group whose help lists its commands by what a person wants, then its options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the options."""
        groups: dict[str, Rows] = {}
        for name, below in self.commands.items():
            title = getattr(below, "rich_help_panel", None)
            if not below.hidden:
                row = (name, (below.help or "").split("\n\n")[0])
                groups.setdefault(title if isinstance(title, str) else "Commands", []).append(row)
        _write(formatter, groups)
        _write_options(formatter, ctx, self.get_params(ctx), {})


def argument_label(parameter: Any) -> str:
    """Return the name of an argument, in brackets where it may be left out."""
    name = parameter.metavar or parameter.name.upper()
    return f"{name}" if parameter.required else f"[{name}]"


def option_label(parameter: Any, ctx: Any) -> str:
    """Return an option as it is typed: a flag alone, others with what they take."""
    names = "/".join((*parameter.opts, *parameter.secondary_opts))
    if parameter.is_flag:
        return names
    if parameter.metavar:
        return f"{names} {parameter.metavar}"
    describe = getattr(parameter, "display_type", None) or parameter.make_metavar
    kind = describe(ctx).strip("<[]>").removeprefix("list[").removesuffix("...").rstrip("]")
    words = (word for part, word in VALUES.items() if kind.lower().startswith(part))
    return f"{names} {kind if '|' in kind else next(words, 'TEXT')}"


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


def _name(parameter: Any) -> str:
    return str(parameter.opts[0]).removeprefix("--")


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _write_options(
    formatter: Any, ctx: Any, parameters: Iterable[Any], groups: Mapping[str, Iterable[str]]
) -> None:
    """Write options in groups; what stands in none of them comes last."""
    rows = {
        _name(one): (option_label(one, ctx), meaning(one))
        for one in parameters
        if not _is_argument(one) and not getattr(one, "hidden", False)
    }
    found: dict[str, Rows] = {
        title: [rows.pop(key.partition(" ")[0]) for key in keys] for title, keys in groups.items()
    }
    found.setdefault("Options" if len(groups) < 2 else "Other", []).extend(rows.values())
    _write(formatter, found)


def _write(formatter: Any, groups: Mapping[str, Rows]) -> None:
    """Write groups of labels with their sentences beside them, all at one indentation."""
    labels = [label for rows in groups.values() for label, _ in rows]
    widest = max((len(label) for label in labels if len(label) <= LONGEST_LABEL), default=0)
    for title, rows in groups.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl([(label.ljust(widest), words) for label, words in rows], widest)
