"""Hold what `firthshot fit` says against rows that it did not see.

python -m studies.own_data coverage    how often the printed interval holds
python -m studies.own_data labels      planted wrong labels
python -m studies.own_data unknowns SENTENCES    rows of no class; CLINC150's data_full.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from threadpoolctl import threadpool_limits

raw = argparse.RawDescriptionHelpFormatter
parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
commands = parser.add_subparsers(dest="what", required=True)
for name, number in (("coverage", 200), ("labels", 20), ("unknowns", 20)):
    command = commands.add_parser(name)
    command.add_argument("--draws", type=int, default=number, help="draws of every bank")
commands.choices["unknowns"].add_argument("sentences", type=Path)
given = parser.parse_args()
with threadpool_limits(limits=1):
    if given.what == "coverage":
        from studies.own_data import coverage

        print(coverage.table(coverage.run(given.draws)))
    elif given.what == "labels":
        from studies.own_data import labels

        print(labels.table(labels.run(given.draws)))
    else:
        from studies.own_data import unknowns

        print(unknowns.table(unknowns.run(given.draws, given.sentences)))
