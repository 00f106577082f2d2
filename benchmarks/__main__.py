"""``python -m benchmarks``: how fast it is here, against the plain way, in one process."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from firthshot.cli._screen import echo, echo_data, screen

if TYPE_CHECKING:
    from benchmarks.common import Report

app = typer.Typer(
    help="Measure our speed against the plain way on this machine.", no_args_is_help=True
)

JSON = typer.Option(None, "--json", metavar="FILE", help="Write the records to this file.")
QUICK = typer.Option(False, "--quick", help="Fewer cases and repeats: a look in a minute or two.")


@app.command("engine")
def engine(
    json: Path | None = JSON,
    quick: bool = QUICK,
    scaling: bool = typer.Option(
        False, "--scaling", help="Print time against shots, ways, coefficients and d instead."
    ),
    case: str = typer.Option("", "--case", help="Only cases with this in their name."),
    threads: int = typer.Option(2, "--threads", min=1, help="Threads, the same for both sides."),
) -> None:
    """Train heads with the engine and with a batched PyTorch autograd loop."""
    _check_writable(json)
    if scaling:
        from benchmarks.engine_scaling import run_scaling, scaling_markdown

        report = run_scaling(quick=quick, threads=threads, say=_say)
        echo_data(scaling_markdown(report) + "\n")
    else:
        report = _engine_report(quick, threads, case)
    _write(json, report)


def _engine_report(quick: bool, threads: int, case: str) -> Report:
    from benchmarks.common import require_torch

    require_torch("The plain way of the engine bench")
    from benchmarks.engine import run
    from benchmarks.engine_profile import profile_linear
    from benchmarks.engine_report import show

    report = run(quick=quick, threads=threads, only=case, say=_say)
    if any(record["head"] == "linear" for record in report.records):
        _say("profile of the linear step")
        report.extra["profile"] = profile_linear()
    show(report, screen())
    return report


@app.command("jeffreys")
def jeffreys(json: Path | None = JSON, quick: bool = QUICK) -> None:
    """Fit exact Firth regressions here and with other packages."""
    _run_and_show("jeffreys", json, quick)


@app.command("estimators")
def estimators(json: Path | None = JSON, quick: bool = QUICK) -> None:
    """Fit linear heads here and with scikit-learn's LogisticRegression."""
    _run_and_show("estimators", json, quick)


@app.command("calibration")
def calibration(json: Path | None = JSON, quick: bool = QUICK) -> None:
    """Train on calibrated tasks here and with numpy's draws and scikit-learn's solver."""
    _run_and_show("calibration", json, quick)


@app.command("sweep")
def sweep(json: Path | None = JSON, quick: bool = QUICK) -> None:
    """Measure what a run costs beside training, its memory, and a cluster's part."""
    _run_and_show("sweep", json, quick)


def _run_and_show(name: str, json: Path | None, quick: bool) -> None:
    bench: Any = import_module(f"benchmarks.{name}")
    _check_writable(json)
    report = bench.run(quick=quick, say=_say)
    bench.show(report, screen())
    _write(json, report)


def _say(line: str) -> None:
    """Print a progress line where it does not mix with the results."""
    echo(line, err=True)


def _check_writable(path: Path | None) -> None:
    """Refuse a folder that is not there before minutes of work, not after."""
    from firthshot.errors import FirthshotError

    if path is not None and not path.resolve().parent.is_dir():
        raise FirthshotError(f"The folder of {path} does not exist; create it or choose another.")


def _write(path: Path | None, report: Any) -> None:
    from benchmarks.common import write_json

    if path is not None:
        write_json(path, report)
        _say(f"wrote {path}")


if __name__ == "__main__":
    app()
