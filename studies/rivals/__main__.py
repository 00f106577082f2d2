"""Make the pages anew: ``python -m studies.rivals losses`` or ``… results FOLDER …``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from studies.rivals import results
from studies.rivals.losses import BANKS, charges_of, page


def main() -> None:
    """Run every bank and write ``losses.md``, or take the results of runs into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_subparsers(dest="what", required=True)
    losses = what.add_parser("losses", help="run every bank and write losses.md")
    losses.add_argument("--trials", type=int, default=20)
    losses.add_argument("--folder", type=Path, help="where the runs go, to be gone on with")
    taken = what.add_parser("results", help="take over runs of the preset rivals")
    taken.add_argument("folders", type=Path, nargs="*")
    taken.add_argument("--least", type=int, default=1, help="lines with fewer trials stay out")
    given = parser.parse_args()
    if given.what == "results":
        results.main(given.folders, given.least)
        return
    folder = given.folder or Path(tempfile.mkdtemp())
    found = {bank: charges_of(bank, folder / Path(bank).stem, given.trials) for bank in BANKS}
    (Path(__file__).parent / "losses.md").write_text(page(found, given.trials), "utf-8")


if __name__ == "__main__":
    main()
