"""Small pictures drawn from a seed, and folders of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def pixels(seed: int, side: int = 12) -> np.ndarray:
    """Return random pixels (side, side, 3)."""
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)


def write_folder(folder: Path, counts: dict[str, int], *, side: int = 12, start: int = 0) -> Path:
    """Write class folders of PNG files; the pixels follow from class and number."""
    for place, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True)
        for number in range(start, start + count):
            image = Image.fromarray(pixels(1000 * place + number, side))
            image.save(folder / name / f"{name}_{number:03d}.png")
    return folder
