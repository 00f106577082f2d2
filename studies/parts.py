"""What studies that train trials of their own share: banks, and parts that appear whole."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl

from firthshot.banks import Bank, list_banks
from firthshot.files import write_whole


def real_banks(names: Sequence[str] = ()) -> list[Bank]:
    """Return the banks of these names, or all that can be found, each name once."""
    found: dict[str, Bank] = {}
    for entry in list_banks():
        if entry.bank is not None and (not names or entry.name in names):
            found.setdefault(entry.name, entry.bank)
    return list(found.values())


def write_table(path: Path, table: pl.DataFrame, **options: Any) -> None:
    """Write a Parquet file that appears whole or not at all."""
    buffer = io.BytesIO()
    table.write_parquet(buffer, **options)
    write_whole(path, buffer.getvalue())


def read_parts(folder: Path) -> pl.DataFrame | None:
    """Return the rows of all parts of a folder, None where it has none."""
    files = sorted(folder.glob("*.parquet"))
    return pl.concat(map(pl.read_parquet, files)) if files else None


def placed(table: pl.DataFrame, place: Mapping[str, object]) -> pl.DataFrame:
    """Return a table with columns before its own that say where its rows belong."""
    return table.select(*(pl.lit(value).alias(name) for name, value in place.items()), pl.all())


def statistic(values: pl.Series, which: Literal["mean", "min", "max"] = "mean") -> float:
    """Return the mean, smallest or largest of a column of numbers."""
    return float(getattr(values, which)())
