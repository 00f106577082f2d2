"""Options that several commands share, and the check of a file that they are to write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from firthshot.errors import FirthshotError

Label = Annotated[str, typer.Option(metavar="COLUMN", help="Column with the class of each row.")]
IdColumn = Annotated[
    str | None,
    typer.Option("--id", metavar="COLUMN", help="Column that names the rows. Default: id, if any."),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column to leave out; may be repeated."),
]
BankSplit = Annotated[str | None, typer.Option(metavar="SPLIT", help="Only this split of a bank.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
BankNames = Annotated[
    list[str] | None,
    typer.Option("--bank", metavar="BANK", help="Name or path; may be repeated."),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any field of the spec; may be repeated."),
]
Precision = Literal["float16", "float32"]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out pictures that cannot be read.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print errors only.")]
EncoderName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Name (see `backbone list`) or path of an encoder. Options may follow, as in "
        "'net.ts?size=32&mean=0&std=1'.",
    ),
]
Device = Annotated[
    Literal["auto", "cpu", "cuda", "mps"],
    typer.Option(help="Where the encoder runs. Devices other than a CPU use half precision."),
]
Offline = Annotated[bool, typer.Option("--offline", help="Never download an encoder.")]
EncoderSize = Annotated[
    int | None, typer.Option(min=8, help="Side of the pictures that the encoder sees, in pixels.")
]
Architecture = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Network of a state dict that does not name its own."),
]
PublishedSplit = Annotated[
    Literal["mini-imagenet", "cifar-fs", "cub"] | None,
    typer.Option(help="Use the published class split of this data set."),
]
SplitFile = Annotated[
    Path | None,
    typer.Option(
        help="Class split: a JSON file with lists base, val and novel, or a folder of lists."
    ),
]
PixelMean = Annotated[
    str | None,
    typer.Option(
        metavar="M[,M,M]",
        help="Per-channel mean of pixels from 0 to 1. Default: the encoder's, or ImageNet's.",
    ),
]
PixelStd = Annotated[
    str | None,
    typer.Option(
        metavar="S[,S,S]",
        help="Per-channel standard deviation. --mean 0 --std 1 keeps pixels from 0 to 1.",
    ),
]


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
