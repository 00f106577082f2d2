"""Run folders made by hand, row by row, without the runner."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from firthshot.experiments.run.store import sealed_parquet
from firthshot.experiments.schema import BINS, KEYS, ROW, TRIALS

KEY: dict[str, Any] = {
    "bank": "toy",
    "dataset": "Toy",
    "backbone": "ResNet-50",
    "extraction": "eval",
    "split": "novel",
    "transform": "none",
    "head": "linear",
    "solver": "sgd",
    "penalty": "firth",
    "prior": "uniform",
    "l2_kind": "mean-square",
    "l2": 0.0,
    "ways": 5,
    "actual_ways": 5,
    "shots": 1,
    "shots_scheme": "balanced",
    "query_rule": "15",
    "source": "",
    "artificial": 0,
}


def _frame(rows: list[dict[str, Any]], schema: dict[str, str]) -> pl.DataFrame:
    kinds = {
        name: pl.List(pl.UInt16) if kind.startswith("List") else getattr(pl, kind)
        for name, kind in schema.items()
    }
    return pl.DataFrame(rows, schema=kinds, orient="row")


def row(coefficient: float, trial: int, accuracy: float, **other: Any) -> dict[str, Any]:
    """Make one row of a part; what is not given is that of KEY."""
    scores = {"nll": 1 - accuracy, "brier": accuracy / 2, "ece": 0.1, "norm": 1.0}
    about = {"coefficient": coefficient, "theory": False, "theory_exact": False, "trial": trial}
    return {**KEY, **about, "accuracy": accuracy, **scores, "status": "ok", **other}


def failed(coefficient: float, trial: int, **other: Any) -> dict[str, Any]:
    """Make a row of a trial that diverged."""
    nothing = dict.fromkeys(("nll", "brier", "ece", "norm"), float("nan"))
    return row(coefficient, trial, float("nan"), **{**nothing, "status": "diverged", **other})


def grid(accuracies: dict[float, Iterable[float]], **other: Any) -> list[dict[str, Any]]:
    """Make the rows of a block of trials: coefficient → accuracy of trials 0, 1, 2, …"""
    return [
        row(coefficient, trial, accuracy, **other)
        for coefficient, values in accuracies.items()
        for trial, accuracy in enumerate(values)
    ]


def write(
    folder: Path,
    *parts: list[dict[str, Any]],
    classes: dict[int, list[int]] | None = None,
    bins: list[dict[str, Any]] | None = None,
    start: int = 0,
) -> Path:
    """Write each list of rows as a part; with `classes`, also the tables of the trials' classes."""
    for name in ("parts", "bins", "trials"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(parts, start):
        name = f"{number:05d}.parquet"
        if classes is not None:
            place = {key: rows[0][key] for key in TRIALS if key in KEYS}
            told = [{**place, "trial": t, "classes": c} for t, c in classes.items()]
            (folder / "trials" / name).write_bytes(sealed_parquet(_frame(told, TRIALS)))
        if bins is not None:
            pooled = _frame([{**KEY, **one} for one in bins], BINS)
            (folder / "bins" / name).write_bytes(sealed_parquet(pooled))
        (folder / "parts" / name).write_bytes(sealed_parquet(_frame(rows, ROW)))
    return folder
