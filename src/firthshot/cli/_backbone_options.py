"""Options that `backbone train` and `backbone extract` share."""

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
