"""``firthshot bank``: look at, import, export and examine banks."""

from __future__ import annotations

import typer

app = typer.Typer(help="Feature banks: list, describe, import, export, examine.", no_args_is_help=True)
