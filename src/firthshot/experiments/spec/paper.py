"""The figures and tables of the paper by name: one command for each, however many runs it takes."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path


@cache
def paper_items() -> dict[str, tuple[str, ...]]:
    """Return the presets of every figure and table, by names like ``figure-a7``."""
    text = (Path(__file__).parent / "paper.toml").read_text("utf-8")
    return {name: tuple(presets) for name, presets in tomllib.loads(text).items()}


def presets_of(source: str) -> tuple[str, ...]:
    """Return the presets that a figure or table needs; of any other source, itself."""
    return paper_items().get(source, (source,))
