"""``firthshot demo``: the main job on the embedded bank."""

from __future__ import annotations


def demo() -> None:
    """Run the main job on the embedded bank."""
