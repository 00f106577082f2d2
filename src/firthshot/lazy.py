"""Names of a room that are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    room: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a room that has an ``__all__``.

    ``homes``: module inside the room → the names there, between spaces. Type checkers read the same
    names from imports under ``TYPE_CHECKING`` and from ``__all__``.
    """
    home = {name: module for module, names in homes.items() for name in names.split()}

    def get(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(f"{room}.{home[name]}"), name)

    return get, lambda: sorted(sys.modules[room].__all__)
