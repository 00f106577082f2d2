"""Tables of embeddings: CSV, TSV and Parquet with a label column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import BankError
from firthshot.tables import SEPARATORS, header_fault, polars_errors, why_unreadable

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

TABLES = (".csv", ".tsv", ".parquet")


def read_table(
    path: Path, label: str, split: str | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Read a table; every column but the label and the split is a feature.

    Features are numeric columns in table order, or one column of equally long lists.

    Returns
    -------
    features : ndarray, shape (n, d)
    owners : ndarray, shape (n,)
        Whole numbers or text.
    splits : ndarray of str, shape (n,), or None
    """
    try:
        table = load_table(path)
    except polars_errors() as error:
        raise BankError(why_unreadable(error)) from None
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


def load_table(path: Path) -> pl.DataFrame:
    """Read a table; what is wrong with its header is said without the name of the file."""
    import polars as pl

    kind = path.suffix.lower()
    if kind == ".parquet":
        try:
            return pl.read_parquet(path)
        except polars_errors():
            raise BankError("the Parquet file is damaged") from None
    if (fault := header_fault(path)) is not None:
        raise BankError(f"it {fault}")
    return pl.read_csv(path, separator=SEPARATORS[kind], infer_schema_length=None)


def _owners(column: pl.Series) -> np.ndarray:
    if column.dtype.is_float():
        raise BankError(f"labels in column {column.name!r} are fractional numbers")
    values = column.to_list()
    return np.array(values if column.dtype.is_integer() else [str(value) for value in values])


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
