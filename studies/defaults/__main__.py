"""Settle the default λ and l2 of FirthClassifier.

python -m studies.defaults run      trains; may be interrupted and started again
python -m studies.defaults table    writes results.csv from the parts that are there, and the
tables of README.md
python -m studies.defaults check    compares λ = 0, l2 = 1 with scikit-learn
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from firthshot.banks import load_bank
from studies.defaults.experiment import cells, check_against_sklearn, run
from studies.defaults.tables import write_tables
from studies.defaults.trials import KINDS
from studies.parts import real_banks

raw = argparse.RawDescriptionHelpFormatter
parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
commands = parser.add_subparsers(dest="what", required=True)
running = commands.add_parser("run", help="train, or go on")
running.add_argument("--bank", action="append", default=[], help="only this bank; repeatable")
running.add_argument("--ways", type=int, action="append", help="only these; repeatable")
running.add_argument("--trials", type=int, help="at most so many; all that are listed if not")
running.add_argument("--kind", action="append", choices=list(KINDS))
running.add_argument("--threads", type=int, default=os.cpu_count() or 1)
table = commands.add_parser("table", help="write the tables of the page")
for command in (running, table):
    command.add_argument("--parts", type=Path, default=Path("runs/choosing-lambda"))
commands.add_parser("check", help="compare with scikit-learn")
given = parser.parse_args()
if given.what == "run":
    chosen = cells(real_banks(given.bank), given.ways)
    run(chosen, given.parts, given.trials, given.kind or list(KINDS), given.threads)
elif given.what == "check":
    check_against_sklearn(load_bank("clinc150-minilm"))
else:
    write_tables(given.parts)
