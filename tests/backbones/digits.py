"""Real pictures that need no download: scikit-learn's handwritten digits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firthshot.backbones.pixels import Pixels

if TYPE_CHECKING:
    from pathlib import Path


def digit_pixels(classes: int = 3, per_class: int = 40, side: int = 16) -> Pixels:
    """Return the first pictures of the first digits, enlarged from 8 x 8, as grey RGB."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    rows = np.concatenate([np.flatnonzero(digits.target == c)[:per_class] for c in range(classes)])
    grey = (digits.images[rows] * (255 / 16)).astype(np.uint8)
    grey = np.kron(grey, np.ones((1, side // 8, side // 8), np.uint8))
    images = np.repeat(grey[..., None], 3, axis=3)
    return Pixels(
        images, digits.target[rows].astype(np.int64), [f"digit {c}" for c in range(classes)]
    )


def write_digits(folder: Path, classes: int = 3, per_class: int = 40, side: int = 16) -> Path:
    """Write the same pictures as class folders of PNG files."""
    from PIL import Image

    pixels = digit_pixels(classes, per_class, side)
    for number, (image, label) in enumerate(zip(pixels.images, pixels.labels, strict=True)):
        home = folder / pixels.classes[label]
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(home / f"{number:04d}.png")
    return folder
