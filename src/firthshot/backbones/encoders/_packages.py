"""Libraries and weights inside installed packages; code of a file of weights never runs."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import re
from pathlib import Path
from typing import Any

from firthshot.errors import FirthshotError, MissingExtraError, install_line, reason
from firthshot.guard import load_tensors


def installed(*modules: str) -> bool:
    """Tell whether all these modules can be imported, without importing them."""
    return all(importlib.util.find_spec(module) is not None for module in modules)


def require(module: str, what: str, extra: str) -> Any:
    """Import a module, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if (error.name or module).split(".")[0] == module.split(".", maxsplit=1)[0]:
            raise MissingExtraError(f"Encoder {what}", extra) from None
        why = reason(error)
    except RuntimeError as error:  # torchvision beside a torch of another build
        why = reason(error)
    raise FirthshotError(
        f"Encoder {what} needs {module}, which cannot be imported ({why}): install it again with "
        f"{install_line(extra)}."
    )


def package_file(module: str, inside: str, what: str, extra: str) -> Path:
    """Return a file of an installed package; nothing of the package is imported."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(f"Encoder {what}", extra)
    path = Path(next(iter(spec.submodule_search_locations))) / inside
    if not path.is_file():
        raise FirthshotError(
            f"Encoder {what} has no weights at {path}: the package {module} has changed; "
            f"install it again with {install_line(extra)}."
        )
    return path


def load_weights(path: Path) -> Any:
    """Load a state dict from a torch file: tensors only, nothing that runs."""
    try:
        return load_tensors(path)
    except pickle.UnpicklingError as error:
        # torch's own words say how to run the file's code: the opposite of what is right here
        found = re.search(r"GLOBAL (\S+)", str(error))
        named = f" ({found[1]})" if found else ""
        raise FirthshotError(
            f"{path} is damaged or holds more than tensors{named}, such as a whole network, whose "
            "loading would run code: save net.state_dict(), or torch.jit.trace(net, x).save(…)."
        ) from None
    except Exception as error:  # noqa: BLE001 - a damaged file may raise anything
        raise FirthshotError(f"{path} is damaged, or no file of torch: {reason(error)}.") from None
