"""Directives that write reference pages from the code: commands, and fields of specs."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import msgspec
import typer
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docutils import nodes
    from sphinx.application import Sphinx


class Commands(SphinxDirective):
    """Describe every command of firthshot as its own ``--help`` does."""

    def run(self) -> list[nodes.Node]:
        """Return a section for each command."""
        from firthshot.cli import app

        lines = _command_lines("firthshot", typer.main.get_command(app))
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def _command_lines(path: str, command: Any) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from _command_lines(f"{path} {name}", below)
        return
    context = typer.Context(command, info_name=path)
    yield f"## {path}"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    yield f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```\n"
    yield from _parameter_table(command.params, context)
    examples = "\n".join(f"firthshot {example}" for example in command.words["examples"])
    yield f"```sh\n{examples}\n```\n"


def _parameter_table(parameters: list[Any], context: typer.Context) -> Iterator[str]:
    """Yield what ``--help`` says of arguments and options, as a table."""
    from firthshot.cli._help import argument_label, meaning, option_label

    shown = [one for one in parameters if one.name != "help"]
    if not shown:
        return
    yield "| option | meaning |\n|---|---|"
    for one in shown:
        argument = one.param_type_name == "argument"
        label = argument_label(one) if argument else option_label(one, context)
        yield f"| `{_cell(label)}` | {_cell(meaning(one))} |"
    yield ""


class SpecFields(SphinxDirective):
    """List the fields of the spec classes with type, bounds and default."""

    def run(self) -> list[nodes.Node]:
        """Return a section for each class."""
        from firthshot.experiments.spec import fields

        lines: list[str] = []
        for made in (
            fields.Spec,
            fields.SgdSettings,
            fields.ConvergedSettings,
            fields.CalibrationSettings,
            fields.GeometricSpec,
        ):
            lines += _class_lines(made)
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def _class_lines(made: type[msgspec.Struct]) -> Iterator[str]:
    yield f"## {made.__name__}"
    yield f"{(made.__doc__ or '').splitlines()[0]}\n"
    yield "| field | type | default |\n|---|---|---|"
    for field, kind in zip(msgspec.structs.fields(made), _kinds(made), strict=True):
        default = "needed" if field.required else f"`{_value(field)}`"
        yield f"| `{field.name}` | {_cell(kind)} | {default} |"
    yield ""


def _kinds(made: type[msgspec.Struct]) -> Iterator[str]:
    described = msgspec.inspect.type_info(made)
    for field in described.fields:  # type: ignore[attr-defined]
        yield _kind(field.type)


def _kind(kind: Any) -> str:
    """Return a type in words: its name, its bounds, its choices."""
    if hasattr(kind, "types"):
        return " or ".join(_kind(one) for one in kind.types)
    if hasattr(kind, "values"):
        return ", ".join(f"`{value}`" for value in kind.values)
    if hasattr(kind, "item_types"):
        return f"{len(kind.item_types)} values: {_kind(kind.item_types[0])}"
    if hasattr(kind, "item_type"):
        return f"list of {_kind(kind.item_type)}"
    if hasattr(kind, "cls"):
        return f"table `{kind.cls.__name__}`"
    return _plain(kind)


def _plain(kind: Any) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    bounds = [f"{sign} {getattr(kind, key)}" for key, sign in signs.items() if _has(kind, key)]
    name = type(kind).__name__.removesuffix("Type").lower().replace("str", "text")
    return " ".join([name, ", ".join(bounds)]).strip().replace("bool", "true or false")


def _has(kind: Any, key: str) -> bool:
    return getattr(kind, key, None) is not None


def _value(field: Any) -> str:
    made = field.default is msgspec.NODEFAULT
    value = field.default_factory() if made else field.default
    if isinstance(value, msgspec.Struct):
        return "as published"
    return "none" if value is None else str(list(value) if isinstance(value, tuple) else value)


def _cell(text: str) -> str:
    """Return text that stays inside its cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*")


def _skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the directives known to Sphinx."""
    app.add_directive("commands", Commands)
    app.add_directive("spec-fields", SpecFields)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}
