"""Write ``losses.md``: ``python -m studies.rivals [--trials N]``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from studies.rivals.losses import BANKS, charges_of, page


def main() -> None:
    """Run every bank, and write the page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--trials", type=int, default=20)
    options.add_argument("--folder", type=Path, help="where the runs go, to be gone on with")
    given = options.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp())
    found = {bank: charges_of(bank, folder / Path(bank).stem, given.trials) for bank in BANKS}
    (Path(__file__).parent / "losses.md").write_text(page(found, given.trials), "utf-8")


if __name__ == "__main__":
    main()
