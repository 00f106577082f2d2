"""How ``--help`` looks: options beside their meaning, flags without a type, examples whole."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

LONGEST_LABEL = 24  # a longer one has a line of its own
VALUES = {"int": "N", "float": "X", "path": "PATH", "file": "PATH", "dir": "PATH"}


class PlainCommand(TyperCommand):
    """A command whose help is one column of options and one of sentences."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return what follows the command's name: what is needed comes first."""
        return [*(argument_label(one) for one in self.params if _is_argument(one)), "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options in the groups that the help has for them."""
        from firthshot.cli._help import GROUPS

        shown = [one for one in self.get_params(ctx) if not getattr(one, "hidden", False)]
        arguments = [(argument_label(one), meaning(one)) for one in shown if _is_argument(one)]
        options = {
            one.opts[0][2:]: (option_label(one, ctx), meaning(one))
            for one in shown
            if not _is_argument(one)
        }
        wanted = GROUPS.get(ctx.command_path.removeprefix("firthshot "), {})
        groups = {
            title: [options.pop(name) for name in names if name in options]
            for title, names in wanted.items()
        }
        groups["Other" if wanted else "Options"] = list(options.values())
        _write(formatter, {"Arguments": arguments})
        _write(formatter, groups)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the examples, each on a line that can be copied, and the guide."""
        *examples, guide = (self.epilog or "").split("\n\n")
        if examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {example}\n" for example in examples))
            formatter.write(f"\n{guide}\n")


class PlainGroup(TyperGroup):
    """A group whose help lists its commands by what a person wants, then its options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the options."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name, below in self.commands.items():
            title = getattr(below, "rich_help_panel", None)
            if not below.hidden:
                row = (name, (below.help or "").split("\n\n")[0])
                groups.setdefault(title if isinstance(title, str) else "Commands", []).append(row)
        _write(formatter, groups)
        PlainCommand.format_options(self, ctx, formatter)  # type: ignore[arg-type]


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


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _write(formatter: Any, groups: dict[str, list[tuple[str, str]]]) -> None:
    """Write groups of labels with their sentences beside them, all at one indentation."""
    labels = [label for rows in groups.values() for label, _ in rows]
    widest = max((len(label) for label in labels if len(label) <= LONGEST_LABEL), default=0)
    for title, rows in groups.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl([(label.ljust(widest), words) for label, words in rows], widest)
