"""Options that several commands with encoders or pictures share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PublishedSplit = Annotated[
    str | None, typer.Option(help="mini-imagenet, cifar-fs, cub: take the published class split.")
]
SplitFile = Annotated[
    Path | None,
    typer.Option(help="Class split: JSON lists under base, val, novel; or a folder of lists."),
]
PixelMean = Annotated[
    str | None,
    typer.Option(
        metavar="M[,M,M]",
        help="Subtracted from pixels of 0 to 1; else the encoder's own, or ImageNet's.",
    ),
]
PixelStd = Annotated[
    str | None,
    typer.Option(metavar="S[,S,S]", help="Divides them then; --mean 0 --std 1 leaves 0 to 1."),
]


def encoder_line(
    encoder: str | None,
    size: int | None,
    mean: str | None,
    std: str | None,
    architecture: str | None,
) -> str | None:
    """Return an encoder with its options as one line, which a model file can keep.

    Options alone are for the default encoder of pictures: no other has any.
    """
    from firthshot.backbones.encoders import DEFAULTS, EncoderOptions, join_spec, three_numbers

    colours = three_numbers(mean, "--mean"), three_numbers(std, "--std")
    options = EncoderOptions(size, None, *colours, architecture)
    return join_spec(encoder or DEFAULTS["image"], options) if options.given else encoder
