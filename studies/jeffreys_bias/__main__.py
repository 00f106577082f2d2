"""Measure the bias of exact Firth regression.

python -m studies.jeffreys_bias run      simulates, writes results.csv, then as below
python -m studies.jeffreys_bias table    writes the table and the figure of README.md
"""

from __future__ import annotations

import argparse

from studies.jeffreys_bias.page import FOLDER, write_page
from studies.jeffreys_bias.simulation import simulate_all

raw = argparse.RawDescriptionHelpFormatter
parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
commands = parser.add_subparsers(dest="what", required=True)
running = commands.add_parser("run", help="simulate")
running.add_argument("--replicates", type=int, default=100_000)
commands.add_parser("table", help="write table and figure")
given = parser.parse_args()
if given.what == "run":
    simulate_all(given.replicates).write_csv(FOLDER / "results.csv")
write_page()
