"""Rerun the paper on our banks, and write the tables of README.md.

    python -m studies.reproduction specs        writes specs/ from plan.toml
    python -m studies.reproduction run          trains; may be stopped and started again
    python -m studies.reproduction run --tenth  a tenth of the trials; keeps nothing here
    python -m studies.reproduction keep         keeps the summaries of all finished runs, which
                                                `run` does after each of them
    python -m studies.reproduction page         fills in the tables of README.md, draws its figures;
                                                with --tenth beside the runs of a tenth
    python -m studies.reproduction budget       prints what each study took here, and what the
                                                published number of trials would take; with
                                                --measure one trial of every shape is trained

Runs are in runs/reproduction/ (or runs/reproduction-tenth/), below the folder that this is called
in; their summaries go to kept/. A bank that is not there yet is left out, with a
sentence.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from studies.reproduction.budget import budget, measure_published
from studies.reproduction.figures import draw_figures
from studies.reproduction.keep import collect
from studies.reproduction.kept import Kept
from studies.reproduction.page import PAGES, write_pages
from studies.reproduction.plan import FOLDER, read_tasks, write_specs
from studies.reproduction.run import Where, run_tasks

FULL, TENTH = Path("runs/reproduction"), Path("runs/reproduction-tenth")
KEPT = FOLDER / "kept"


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    arguments = parse(words)
    return int(arguments.do(arguments))


def specs(_: argparse.Namespace) -> int:
    """Write the spec files."""
    print(f"Wrote {write_specs()} specs.")
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Train, or go on."""
    tasks = [t for t in read_tasks() if not arguments.study or t.study.name in arguments.study]
    failed = run_tasks(tasks, where_to(arguments), arguments.tenth, arguments.workers)
    print(f"{len(tasks) - failed} of {len(tasks)} tasks succeeded or were left out.", flush=True)
    return int(failed > 0)


def where_to(arguments: argparse.Namespace) -> Where:
    """Return where runs and kept tables go: those of a tenth stay among its runs."""
    runs = arguments.runs or (TENTH if arguments.tenth else FULL)
    return Where(runs, runs / "kept" if arguments.tenth else arguments.kept)


def keep(arguments: argparse.Namespace) -> int:
    """Keep the summaries of all finished runs."""
    where = where_to(arguments)
    print(f"Kept the summaries of {len(collect(where.runs, where.kept))} runs in {where.kept}.")
    return 0


def page(arguments: argparse.Namespace) -> int:
    """Write tables and figures of all pages."""
    out = TENTH / "page" if arguments.tenth else FOLDER
    out.mkdir(parents=True, exist_ok=True)
    kept = TENTH / "kept" if arguments.tenth else KEPT
    write_pages(kept, out)
    figures = draw_figures(Kept(kept), out / "images")
    print(f"Wrote {len(PAGES)} pages and {len(figures)} figures into {out}.")
    return 0


def print_budget(arguments: argparse.Namespace) -> int:
    """Print what it took and what the paper would take."""
    folder = TENTH / "kept" if arguments.tenth else KEPT
    if arguments.measure:
        measure_published(folder)
    print("\n".join(budget(Kept(folder))))
    return 0


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    commands.add_parser("specs", help="write the spec files").set_defaults(do=specs)
    running = commands.add_parser("run", help="train, or go on")
    running.set_defaults(do=run)
    running.add_argument("study", nargs="*", help="only these studies")
    running.add_argument("--workers", type=int, default=None, help="threads; else all cores")
    keeping = commands.add_parser("keep", help="keep the summaries of all finished runs")
    keeping.set_defaults(do=keep)
    for command in (running, keeping):
        command.add_argument("--tenth", action="store_true", help="a tenth of the trials")
        command.add_argument("--runs", type=Path, default=None, help="folder of the runs")
        command.add_argument("--kept", type=Path, default=KEPT, help="folder of the kept tables")
    for name, do, about in (
        ("page", page, "write tables and figures of all pages"),
        ("budget", print_budget, "print what it took and what the paper would take"),
    ):
        command = commands.add_parser(name, help=about)
        command.add_argument("--tenth", action="store_true", help="of the runs of a tenth")
        command.set_defaults(do=do)
    command.add_argument("--measure", action="store_true", help="train a trial of every shape")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
