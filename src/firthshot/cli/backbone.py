"""``firthshot backbone``: list and train backbones, extract features."""

from __future__ import annotations

import typer

from firthshot.cli import _backbone_extract

app = typer.Typer(
    help="Backbones: list encoders and architectures, train, extract features.",
    no_args_is_help=True,
)
app.command("ls")(_backbone_extract.list_all)
app.command("extract")(_backbone_extract.extract)
