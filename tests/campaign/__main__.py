"""The command of the campaign; whatever was finished before is not done again."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # `campaign` and `experiments`, as in pytest

DEFAULT = {"kills": 1_000, "inputs": 100_000}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("what", choices=["kills", "inputs", "table"])
    parser.add_argument("--count", type=int, help="1,000 kills or 100,000 inputs unless given")
    parser.add_argument("--folder", type=Path, help="where results and state are kept")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    if given.what == "table":
        from campaign import table

        table.write(given.folder)
        return
    folder = (given.folder or Path("runs/campaign")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    count = given.count or DEFAULT[given.what]
    if given.what == "kills":
        from campaign.kills import kill
        from campaign.kinds import open_kinds

        faults = kill(folder, count, given.seed, open_kinds)
    else:
        from campaign.inputs import attack

        faults = attack(folder, count, given.seed)
    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
