from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from firthshot.banks import Bank, save_bank

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPLITS = ["base"] * 3 + ["val"] * 3 + ["novel"] * 4


@pytest.fixture
def clusters() -> tuple[np.ndarray, np.ndarray]:
    """Ten well separated classes of forty rows in sixteen dimensions, sorted by class."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 40)
    X = 3 * rng.normal(size=(10, 16))[y] + rng.normal(size=(400, 16))
    return X.astype(np.float32), y


@pytest.fixture
def make(tmp_path: Path, clusters: tuple[np.ndarray, np.ndarray]) -> Callable[..., Bank]:
    """Save a bank of the clusters, with anything replaced."""

    def build(
        X: np.ndarray | None = None, y: np.ndarray | None = None, name: str = "toy", **fields: Any
    ) -> Bank:
        fields.setdefault("classes", [f"c{i}" for i in range(10)])
        fields.setdefault("class_splits", SPLITS)
        X = clusters[0] if X is None else X
        y = clusters[1] if y is None else y
        return save_bank(tmp_path / f"{name}.bank", X, y, **fields)

    return build
