"""Print the lowest versions that pyproject.toml admits, as constraints for pip.

``make test-lowest`` installs them. Without arguments the versions are those of the dependencies;
names of extras add theirs.

usage: python scripts/lowest_versions.py [EXTRA ...]
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def lowest(project, extras):
    """Return one pin for every requirement; a requirement without a lowest version is refused."""
    listed = [*project["dependencies"]]
    for extra in extras:
        listed += project["optional-dependencies"][extra]
    pins = []
    for text in listed:
        found = re.fullmatch(r"([\w-]+)>=([\d.]+)", text)
        if found is None:
            sys.exit(f"pyproject.toml: {text!r} names no lowest version: write NAME>=VERSION.")
        pins.append(f"{found[1]}=={found[2]}")
    return pins


if __name__ == "__main__":
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    print("\n".join(lowest(settings["project"], sys.argv[1:])))
