"""The ``firthshot`` command: one file per command, heavy imports inside the functions."""

from __future__ import annotations

import logging
import sys

import typer

from firthshot import __version__
from firthshot.cli import (
    backbone,
    bank,
    cache,
    fit,
    predict,
    presets,
    regress,
    report,
    run,
    status,
    validate,
)
from firthshot.cli._help import MEASURE, OWN_DATA, REGRESSION, add_help
from firthshot.cli._screen import echo, with_options
from firthshot.errors import FirthshotError

app = typer.Typer(
    name="firthshot",
    help="Train classifiers from few examples, and measure whether Firth bias reduction helps.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for group, commands in {
    OWN_DATA: (fit.fit, predict.predict, cache.cache),
    MEASURE: (run.run, report.report, status.status, presets.presets, validate.validate),
    REGRESSION: (regress.regress,),
}.items():
    for command in commands:
        app.command(rich_help_panel=group)(command)
app.add_typer(bank.app, name="bank", rich_help_panel=MEASURE)
app.add_typer(backbone.app, name="backbone", rich_help_panel=OWN_DATA)
for below, above in ((app, ""), (bank.app, "bank "), (backbone.app, "backbone ")):
    add_help(below, above)


def _print_version(wanted: bool) -> None:
    if wanted:
        echo(f"firthshot {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    version: bool = typer.Option(
        False,
        "--version",
        help="Print the version and stop.",
        callback=_print_version,
        is_eager=True,
    ),
) -> None:
    pass


def _show_log() -> None:
    """Put what the library logs, such as a long compilation, on standard error."""
    log = logging.getLogger("firthshot")
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.ERROR if "--quiet" in sys.argv else logging.INFO)


def main() -> None:
    """Run the command line; an error of ours is one sentence on standard error and exit code 2."""
    _show_log()
    try:
        app()
    except FirthshotError as error:
        if "--debug" in sys.argv:
            raise
        echo(f"Error: {with_options(error)}", err=True)
        raise SystemExit(2) from None
    except OSError as error:  # of a file that nobody looked at before
        if "--debug" in sys.argv:
            raise
        echo(f"Error: {error.filename or 'A file'}: {error.strerror or error}.", err=True)
        raise SystemExit(2) from None
