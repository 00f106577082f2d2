"""Resume a run as a user who may not write to it (root may always: give the right up first)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from toy import toy_spec

from firthshot.errors import FirthshotError
from firthshot.experiments.runner import run


def main() -> None:
    bank, folder = Path(sys.argv[1]), Path(sys.argv[2])
    spec = toy_spec(bank, heads=["linear"])
    if os.geteuid() == 0:
        for parent in folder.parents:
            if parent.stat().st_uid == 0 and parent != Path("/") and "pytest" in str(parent):
                parent.chmod(0o755)
        os.setegid(65534)
        os.seteuid(65534)
    try:
        run(spec, folder, workers=1, summary=False)
    except FirthshotError as error:
        print(error)
