"""The commands of the study: banks, run, table, speed."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from firthshot import FewShotClassifier
from studies.few_shot.rivals import score
from studies.few_shot.run import by_rivals, run
from studies.few_shot.settings import Setting, Trial
from studies.few_shot.table import write_table

RESULTS = Path(__file__).parent / "results"


def by_ours(trial: Trial, setting: Setting) -> np.ndarray:
    """Score our head as shipped; queries like the shots are what class_prior is for."""
    prior = "training" if setting.like_shots else "uniform"
    head = FewShotClassifier(class_prior=prior).fit(trial.X, trial.y)
    return np.array([score(head, trial)])


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m studies.few_shot", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    banks = commands.add_parser("banks", help="make the study's own banks")
    banks.add_argument("sources", type=Path, nargs="?", default=Path())
    banks.add_argument("--out", type=Path, required=True)
    runs = commands.add_parser("run", help="run the trials, or go on with them")
    runs.add_argument("--final", action="store_true", help="novel classes and all tables")
    runs.add_argument("--core", action="store_true", help="core settings alone")
    runs.add_argument("--trials", type=int, default=200)
    runs.add_argument("--only", choices=("rivals", "ours"))
    speed = commands.add_parser("speed", help="compare times with LogisticRegression()")
    speed.add_argument("names", nargs="*", help="sources; all that are there if none is named")
    table = commands.add_parser("table", help="write the table of what has been run")
    for command in (runs, table):
        command.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.command == "banks":
        from studies.few_shot.banks import build_all

        build_all(given.sources, given.out)
    elif given.command == "run":
        scorers = {
            who: by
            for who, by in (("rivals", by_rivals), ("ours", by_ours))
            if given.only in (None, who)
        }
        run(given.results, scorers, given.trials, given.final, core=given.core)
    elif given.command == "speed":
        from studies.few_shot.speed import compare

        compare(given.names)
    else:
        print(write_table(given.results))


if __name__ == "__main__":
    main()
