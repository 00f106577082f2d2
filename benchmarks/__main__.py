"""``python -m benchmarks WHAT``: how fast it is here, against the plain way, in one process."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from firthshot.errors import FirthshotError

# Each is a module of this package with run(quick, say, …) and show(report, console).
BENCHES = {
    "engine": "train heads with the engine and with a batched PyTorch autograd loop",
    "estimators": "fit linear heads here and with scikit-learn's LogisticRegression",
    "shipped": "fit classifiers as shipped, here and in scikit-learn, and time first answers",
    "jeffreys": "fit exact Firth regressions here and with other packages",
    "calibration": "train on calibrated tasks here and with numpy and scikit-learn",
    "extract": "turn pictures into features here and with the plain loop of transformers",
    "rivals": "classify tasks here and with easy-few-shot-learning",
    "sweep": "measure what a run costs beside training, its memory, and a cluster's part",
}


def main(words: Sequence[str] | None = None) -> None:
    """Run a bench; an error of ours is one sentence on standard error."""
    given = vars(parse(words))
    try:
        measure(**given)
    except FirthshotError as error:
        raise SystemExit(f"Error: {error}") from None


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; a bench has no option that it does not use."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    for name, about in BENCHES.items():
        bench = commands.add_parser(name, help=about, description=about)
        bench.add_argument("--json", type=Path, metavar="FILE", help="write the records here")
        bench.add_argument("--quick", action="store_true", help="fewer cases: a look in minutes")
        if name == "engine":
            _add_engine_options(bench)
        if name == "extract":
            bench.add_argument("--pictures", type=Path, required=True, help="folder of them")
    return parser.parse_args(words)


def _add_engine_options(bench: argparse.ArgumentParser) -> None:
    bench.add_argument("--threads", type=int, default=2, help="for both sides (default: 2)")
    either = bench.add_mutually_exclusive_group()
    either.add_argument(
        "--case", dest="only", default=argparse.SUPPRESS, help="only cases with this in the name"
    )
    either.add_argument(
        "--scaling",
        dest="what",
        action="store_const",
        const="engine_scaling",
        default="engine",
        help="time against shots, ways, coefficients and d, our side alone",
    )


def measure(what: str, json: Path | None, quick: bool, **options: Any) -> None:
    """Run a bench, print its tables, and write its file where one is asked for."""
    from rich.console import Console

    from benchmarks.common import write_json

    if json is not None and not json.resolve().parent.is_dir():  # before minutes of work
        raise FirthshotError(f"The folder of {json} does not exist; create it or choose another.")
    bench: Any = import_module(f"benchmarks.{what}")
    report = bench.run(quick=quick, say=_say, **options)
    bench.show(report, Console(markup=False, emoji=False, highlight=False))
    if json is not None:
        write_json(json, report)
        _say(f"wrote {json}")


def _say(line: str) -> None:
    """Print a progress line where it does not mix with the results."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
