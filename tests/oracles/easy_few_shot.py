"""easy-few-shot-learning's methods, where it is installed; without torchvision, which they lack.

Its package imports backbones that need torchvision, which would replace a CPU build of torch. The
methods do not: they are imported past the package's own ``__init__``.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def is_installed() -> bool:
    """Tell whether it is there (``pip install --no-deps easyfsl``)."""
    return importlib.util.find_spec("easyfsl") is not None


def method(module: str, name: str) -> Any:
    """Return a class of one of its methods."""
    found = importlib.util.find_spec("easyfsl")
    if found is None or not found.submodule_search_locations:
        raise ImportError("easyfsl is not installed: pip install --no-deps easyfsl")
    if "easyfsl.methods" not in sys.modules:
        shell = ModuleType("easyfsl.methods")
        shell.__path__ = [str(Path(found.submodule_search_locations[0]) / "methods")]
        sys.modules["easyfsl.methods"] = shell
    return getattr(importlib.import_module(f"easyfsl.methods.{module}"), name)
