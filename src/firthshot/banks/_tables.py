"""Tables of embeddings: CSV, TSV and Parquet with a label column."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import BankError
from firthshot.tables import (
    are_fractional,
    class_labels,
    header_fault,
    load_table,
    polars_errors,
    why_unreadable,
)

if TYPE_CHECKING:
    import polars as pl


def read_table(
    path: Path, label: str, split: str | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Read a table; every column but the label and the split is a feature.

    Features are numeric columns in table order, or one column of equally long lists. Returned are
    these (n, d), the owners (n,) as whole numbers or text (`firthshot.tables.class_labels`), and
    the splits (n,), None where no column is asked for.
    """
    table = _load(path, [label] if split is None else [label, split])
    for column in (label, split):
        if column is not None and column not in table.columns:
            raise BankError(
                f"it has no column {column!r}; its columns begin with "
                f"{', '.join(table.columns[:4])}"
            )
    empty = [column for column in table.columns if table[column].null_count()]
    if empty or not table.height:
        raise BankError(
            f"column {empty[0]!r} has empty cells" if empty else "the table has no rows"
        )
    splits = None if split is None else np.array(table[split].to_list(), dtype=str)
    owners = _owners(table[label])
    return _features(table.drop([label] + ([split] if split else []))), owners, splits


def _load(path: Path, texts: list[str]) -> pl.DataFrame:
    """Read a table; what is wrong with it is said without the name of the file."""
    if (fault := header_fault(path)) is not None:
        raise BankError(f"it {fault}")
    try:
        return load_table(path, texts)
    except polars_errors() as error:
        raise BankError(why_unreadable(error)) from None


def _owners(column: pl.Series) -> np.ndarray:
    texts = [str(value) for value in column.to_list()]
    if are_fractional(texts):
        raise BankError(f"labels in column {column.name!r} are fractional numbers")
    return class_labels(texts)


def _features(table: pl.DataFrame) -> np.ndarray:
    import polars as pl

    if not table.width:
        raise BankError("it has no feature columns")
    first = table.to_series(0)
    if table.width == 1 and isinstance(first.dtype, pl.List | pl.Array):
        rows = first.to_list()
        if len({len(row) for row in rows}) != 1 or any(None in row for row in rows):
            raise BankError(f"the lists in column {first.name!r} differ in length or have gaps")
        kind = first.dtype.inner
        return np.array(rows, np.float32 if kind == pl.Float32 else np.float64)
    words = [name for name, kind in table.schema.items() if not kind.is_numeric()]
    if words:
        raise BankError(f"column {words[0]!r} is not numeric; remove it or name it as the label")
    return table.to_numpy()
