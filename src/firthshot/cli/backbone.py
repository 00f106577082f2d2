"""``firthshot backbone``: list encoders, train a network on base classes, extract banks."""

from __future__ import annotations

import typer

from firthshot.cli._backbone_extract import extract, list_all
from firthshot.cli._backbone_train import train

app = typer.Typer(help="Networks that turn pictures and texts into features.", no_args_is_help=True)
app.command("ls")(list_all)
app.command("train")(train)
app.command("extract")(extract)
