"""A small bank and a small spec: cells of milliseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from firthshot.banks import save_bank
from firthshot.experiments.spec.checking import without_idle
from firthshot.experiments.spec.fields import Spec
from firthshot.experiments.spec.reading import build_spec

TABLES = ("parts", "bins", "trials")


def write_bank(
    path: Path,
    *,
    val: int = 6,
    novel: int = 8,
    base: int = 2,
    rows: int = 30,
    d: int = 12,
    **fields: Any,
) -> Path:
    """Save well separated classes, sorted by class."""
    rng = np.random.default_rng(0)
    splits = ["base"] * base + ["val"] * val + ["novel"] * novel
    labels = np.repeat(np.arange(len(splits)), rows)
    features = rng.normal(size=(len(splits), d))[labels] + rng.normal(size=(len(labels), d))
    classes = [f"class {c}" for c in range(len(splits))]
    save_bank(path, features, labels, classes=classes, class_splits=splits, **fields)
    return path


def toy_spec(bank: Path, **fields: Any) -> Spec:
    """Return a spec of a few cells on a bank."""
    defaults: dict[str, Any] = {
        "name": "toy",
        "banks": [str(bank)],
        "heads": ["linear", "cosine"],
        "coefficients": [0, 0.1, 1],
        "ways": [3],
        "shots": [1, 2],
        "trials": 4,
        "queries": 5,
        "references": False,
        "sgd": {"epochs": 3},
    }
    return build_spec(without_idle({**defaults, **fields}, keep=fields))


def read_tables(folder: Path) -> dict[str, pl.DataFrame]:
    """Return the three tables of a run, cell by cell in the order of their names."""
    return {
        name: pl.concat(
            [pl.read_parquet(path) for path in sorted((folder / name).glob("*.parquet"))]
        )
        for name in TABLES
    }


def assert_same_run(left: Path, right: Path) -> None:
    """Require the same cells and the same bits in every column."""
    names = [sorted(path.name for path in (folder / "parts").iterdir()) for folder in (left, right)]
    assert names[0] == names[1]
    ours, theirs = read_tables(left), read_tables(right)
    for name in TABLES:
        assert ours[name].schema == theirs[name].schema
        for column in ours[name].columns:
            assert bits(ours[name][column]) == bits(theirs[name][column]), (name, column)


def bits(column: pl.Series) -> bytes | list[Any]:
    """Return what distinguishes any two values, NaN and signed zeros included."""
    return column.to_numpy().tobytes() if column.dtype.is_numeric() else column.to_list()
