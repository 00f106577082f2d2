"""Run Firth beside class weights and corrected logits where classes have unequal shots.

python -m studies.unequal_shots run      trains; may be interrupted and started again
python -m studies.unequal_shots table    writes results.csv from the parts that are there, and
the tables of README.md
"""

from __future__ import annotations

import argparse
from pathlib import Path

from threadpoolctl import threadpool_limits

from studies.parts import real_banks
from studies.unequal_shots.experiment import run
from studies.unequal_shots.tables import write_tables

raw = argparse.RawDescriptionHelpFormatter
parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
commands = parser.add_subparsers(dest="what", required=True)
running = commands.add_parser("run", help="train, or go on")
running.add_argument("--bank", action="append", default=[], help="only this bank; repeatable")
table = commands.add_parser("table", help="write the tables of the page")
for command in (running, table):
    command.add_argument("--parts", type=Path, default=Path("runs/unequal-shots"))
given = parser.parse_args()
if given.what == "run":
    with threadpool_limits(limits=1):
        run(real_banks(given.bank), given.parts)
else:
    write_tables(given.parts)
