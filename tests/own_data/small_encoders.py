"""Encoders of a few lines that stand in the place of the real ones."""

from __future__ import annotations

import numpy as np

from firthshot.backbones.encoders import Encoder, Network
from firthshot.backbones.images import Preparation

COLOURS = {"red": (220, 30, 30), "green": (30, 220, 30), "blue": (30, 30, 220)}
WORDS = ("card", "rain", "bread")


def letters(texts: list[str]) -> np.ndarray:
    return np.array([[text.count(word) for word in WORDS] for text in texts], np.float32)


PICTURES = Encoder(
    "image",
    "efficientnet-lite0",
    3,
    "f-image",
    Network(lambda pixels: pixels.mean((2, 3)), Preparation(8)),
    side=8,
)
TEXTS = Encoder("text", "minilm-l6-v2", 3, "f-text", Network(letters))
