"""Run a spec on two threads where polars was imported before NumPy and loads it slowly.

usage: polars_first.py BANK FOLDER
"""

from __future__ import annotations

import polars  # noqa: F401 - first: then it stands in for NumPy until it is used

# isort: split
import sys
import time
from importlib import import_module
from pathlib import Path

from polars import _dependencies
from toy import toy_spec

from firthshot.experiments.runner import run


def slowly(name):
    time.sleep(0.3)
    return import_module(name)


if __name__ == "__main__":
    _dependencies.import_module = slowly
    print(run(toy_spec(Path(sys.argv[1])), Path(sys.argv[2]), workers=2, summary=False).failed)
