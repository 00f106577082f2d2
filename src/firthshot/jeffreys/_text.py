"""Words that messages share; light to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def listed(names: Iterable[object], most: int = 12) -> str:
    """Return names with commas between; a list that goes on ends in "…"."""
    texts = [str(name) for name in names]
    return ", ".join(texts[:most] + ["…"] * (len(texts) > most))
