"""Small pictures and texts with classes, and small encoders for them."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import firthshot.backbones.encoders as encoders
from firthshot.backbones.encoders import Encoder
from own_data.small_encoders import COLOURS, PICTURES, TEXTS, WORDS


@pytest.fixture(autouse=True)
def small_encoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put encoders of a few lines in the place of the real ones."""

    def load(spec: str, **_: Any) -> Encoder:
        if spec not in ("efficientnet-lite0", "minilm-l6-v2"):
            return replace(PICTURES, fingerprint="f-other")
        return PICTURES if spec == "efficientnet-lite0" else TEXTS

    monkeypatch.setattr(encoders, "load_encoder", load)
    monkeypatch.setenv("FIRTHSHOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Return a folder of three classes with five noisy pictures each."""
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(5):
            pixels = np.clip(rng.normal(colour, 25, (10, 14, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture
def intents(tmp_path: Path) -> Path:
    rows = [
        (f"{word} number {n} {word * (n % 2)}", f"about {word}") for word in WORDS for n in range(4)
    ]
    with (tmp_path / "intents.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return tmp_path / "intents.csv"
