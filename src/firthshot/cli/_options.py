"""Types of options that several commands share, and the check of a file that they are to write.

What each option is for stands in ``help.toml``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from firthshot.errors import FirthshotError

IdColumn = Annotated[str | None, typer.Option("--id")]
AsJson = Annotated[bool, typer.Option("--json")]
BankNames = Annotated[list[str] | None, typer.Option("--bank")]
Assignments = Annotated[list[str] | None, typer.Option("--set")]
Count = Annotated[int | None, typer.Option(min=1)]
Side = Annotated[int | None, typer.Option(min=8)]  # of pictures, in pixels
Precision = Literal["float16", "float32"]
Device = Literal["auto", "cpu", "cuda", "mps"]
PublishedSplit = Literal["mini-imagenet", "cifar-fs", "cub"] | None


def spec_fields(assignments: list[str] | None, **flags: Any) -> dict[str, Any]:
    """Return the fields that ``--set`` and other flags set over those of a spec."""
    from firthshot.experiments.spec import parse_assignment

    given: dict[str, Any] = dict(parse_assignment(text) for text in assignments or [])
    return given | {name: value for name, value in flags.items() if value not in (None, [])}


def check_target(
    option: str, path: Path, inputs: dict[str, list[str | Path]], kinds: tuple[str, ...] = ()
) -> None:
    """Refuse a file that cannot or must not be written, before any work is done.

    ``inputs`` is what the command reads, such as "data", with its files; ``kinds`` are the endings
    that the file may have, any by default.
    """
    for what, files in inputs.items():
        found = (Path(file) for file in files if os.path.exists(file))  # noqa: PTH110 - or a text
        if any(file.resolve() == path.resolve() for file in found):
            raise FirthshotError(f"{option} {path} would overwrite the {what}: give another name.")
    if path.is_dir():
        raise FirthshotError(f"{option} {path} is a folder: give the name of a file.")
    if kinds and path.suffix.lower() not in kinds:
        known = " or ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))
        raise FirthshotError(f"{option} {path} is of no known kind: end its name in {known}.")
    if not path.parent.is_dir():
        raise FirthshotError(f"The folder {path.parent} of {option} does not exist: create it.")
