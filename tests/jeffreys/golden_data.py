"""The golden data sets, as arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "golden"
NAMES = sorted(path.stem for path in FOLDER.glob("*nomial_*.json")) + sorted(
    path.stem for path in FOLDER.glob("binary_*.json")
)
BINARY = [name for name in NAMES if name.startswith("binary")]


@dataclass(frozen=True)
class Golden:
    X: np.ndarray  # without its intercept column
    y: np.ndarray
    weights: np.ndarray
    offset: np.ndarray | None
    columns: list[str]
    levels: list[str]
    results: dict[str, Any]


def load(name: str) -> Golden:
    raw = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    y = np.array(raw["y"])
    offset = np.array(raw["offset"], dtype=float) if "offset" in raw else None
    return Golden(
        X=np.array(raw["X"], dtype=float)[:, 1:],
        y=y,
        weights=np.array(raw.get("weights", np.ones(len(y))), dtype=float),
        offset=offset,
        columns=raw["columns"][1:],
        levels=raw.get("levels", ["0", "1"]),
        results=raw["results"],
    )
