"""``firthshot validate``: list every problem of a spec with its place."""

from __future__ import annotations

from typing import Annotated

import typer


def validate(
    source: Annotated[str, typer.Argument(metavar="SPEC", help="A TOML file or a preset.")],
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any field of the spec; may be repeated."),
    ] = None,
) -> None:
    """Check a spec without running it."""
    from firthshot.experiments.reading import (
        find_problems,
        override,
        parse_assignment,
        read_source,
    )

    fields, text = read_source(source)
    given = dict(parse_assignment(item) for item in assignments or [])
    problems = find_problems(override(fields, given), text)
    for problem in problems:
        typer.echo(f"{source}: {problem}")
    if problems:
        raise typer.Exit(2)
    typer.echo(f"{source} is in order.")
