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

from toy import toy_spec

from firthshot.experiments.runner import run


def slowly(name):
    time.sleep(0.3)
    return import_module(name)


def lazy_imports():
    """Return the module of polars that imports NumPy, whose name has changed."""
    try:
        return import_module("polars._dependencies")
    except ImportError:
        return import_module("polars.dependencies")


if __name__ == "__main__":
    lazy_imports().import_module = slowly
    print(run(toy_spec(Path(sys.argv[1])), Path(sys.argv[2]), workers=2, summary=False).failed)
