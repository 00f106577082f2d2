"""Tables: reading them, and what to do with rows in which a value is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError, check_choice
from firthshot.tables import SEPARATORS, naming_table, read_parquet, refuse_foreign

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl

_MISSING = ["NA", "NaN", "nan", ""]
MISSING_CHOICES = ("error", "drop")
MOST_LEVELS = 10  # a factor of numbers rarely has more


def read_table(path: Path) -> pl.DataFrame:
    """Read a table by the suffix of its name; text such as "NA" is a missing value."""
    import polars as pl

    readers: dict[str, Callable[[Path], pl.DataFrame]] = {
        ".csv": _read_text,
        ".tsv": _read_text,
        ".parquet": read_parquet,
        ".json": pl.read_json,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise FirthshotError(f"{path} is of no known kind: give a .csv, .tsv, .parquet or .json.")
    if not path.is_file():
        raise FirthshotError(f"There is no file {path}: check the path.")
    with naming_table(path):
        refuse_foreign(path)
        table = reader(path)
    if table.height == 0:
        raise FirthshotError(f"{path} has no rows: give a table with data below its header.")
    text = pl.col(pl.String)
    return table.with_columns(pl.when(~text.str.strip_chars().is_in(_MISSING)).then(text))


def _read_text(path: Path) -> pl.DataFrame:
    import polars as pl

    separator = SEPARATORS[path.suffix.lower()]
    # All rows decide the type of a column: 1.5 may follow after a thousand whole numbers.
    return pl.read_csv(path, separator=separator, null_values=_MISSING, infer_schema_length=None)


def as_pandas(data: Any) -> pd.DataFrame:
    """Return a pandas frame, rows numbered from 0, of a pandas or polars frame or a mapping."""
    table = _converted(data)
    if not len(table):
        raise FirthshotError("The table has no rows: give one with data.")
    return table


def _converted(data: Any) -> pd.DataFrame:
    import pandas as pd
    import polars as pl

    if isinstance(data, pl.DataFrame):
        return pd.DataFrame({column.name: _series(column) for column in data})
    if isinstance(data, pd.DataFrame):
        return data.reset_index(drop=True).rename(columns=str)
    if isinstance(data, Mapping):
        return pd.DataFrame(dict(data)).reset_index(drop=True).rename(columns=str)
    if isinstance(data, str | Path):
        raise FirthshotError(
            f"The data are {str(data)!r}: give the formula first, then a table, such as "
            "pandas.read_csv(…)."
        )
    kind = type(data).__name__
    lazily = " (call .collect() first)" * (kind == "LazyFrame")
    raise FirthshotError(
        f"The data are of type {kind}: give a pandas or polars frame{lazily}, or a dict."
    )


def _series(column: pl.Series) -> Any:
    """Return a column for pandas; whole numbers and levels survive missing values."""
    import pandas as pd
    import polars as pl

    if isinstance(column.dtype, pl.Enum):
        return pd.Categorical(column.to_list(), categories=column.dtype.categories.to_list())
    if column.null_count() and column.dtype.is_integer():
        return pd.array(column.to_list(), dtype="Int64")
    if column.null_count() and column.dtype == pl.Boolean:
        return pd.array(column.to_list(), dtype="boolean")
    return column.to_numpy()


def complete_rows(
    frame: pd.DataFrame, names: Sequence[str], missing: str, *, fitting: bool = True
) -> pd.DataFrame:
    """Return the named columns, in the rows that have all their values.

    ``missing`` is "error", which refuses missing values by column and row, or "drop", which leaves
    such rows out. Infinite values are refused always. The advice may name ``missing='drop'`` if
    ``fitting``: only a fit has it.
    """
    import pandas as pd

    check_choice("missing", missing, MISSING_CHOICES)
    used = frame[list(dict.fromkeys(names))]
    absent = used.isna().to_numpy()
    if missing == "drop":
        used = used[~absent.any(axis=1)]
        if not len(used):
            raise FirthshotError("Every row has a missing value in some column of the model.")
        _refuse(used, _infinite(used), "mend or remove such rows.")
    elif not fitting:
        _refuse(used, absent | _infinite(used), "fill what is missing, or remove such rows.")
    else:
        way_out = "fill what is missing, or leave such rows out with missing='drop'."
        _refuse(used, absent | _infinite(used), way_out, "missing=drop")
    return pd.DataFrame({name: _settled(used[name]) for name in used.columns})


def refuse_stray_text(frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Refuse a column of measurements that a few cells of text would make a factor.

    It has more than `MOST_LEVELS` different numbers, in nine of ten rows or more.
    """
    import pandas as pd

    for name in names:
        if frame[name].dtype.kind in "biuf" or hasattr(frame[name], "cat"):
            continue
        numbers = pd.to_numeric(frame[name], errors="coerce")
        stray = numbers.isna()
        if numbers.nunique() > MOST_LEVELS and 0 < stray.mean() <= 0.1:
            first = stray.idxmax()
            raise FirthshotError(
                f"Column {name!r} has numbers in all but {int(stray.sum())} of {len(stray)} rows, "
                f"and {str(frame[name][first])!r} in row {first + 1}: correct or empty that "
                f"cell, or write C({name}) for a factor."
            )


def _infinite(frame: pd.DataFrame) -> Any:
    marks = np.zeros(frame.shape, dtype=bool)
    for k, name in enumerate(frame.columns):
        if frame[name].dtype.kind == "f":
            marks[:, k] = np.isinf(frame[name].to_numpy(dtype=float, na_value=np.nan))
    return marks


def _refuse(frame: pd.DataFrame, bad: Any, way_out: str, *arguments: str) -> None:
    """Name every column in which a value is bad, with its first such row."""
    found = []
    for name, marks in zip(frame.columns, bad.T, strict=True):
        if marks.any():
            more = f" and {int(marks.sum()) - 1} more" if marks.sum() > 1 else ""
            lacks = "has no finite value" if frame[name].dtype.kind in "iuf" else "is missing"
            found.append(f"{name!r} {lacks} in row {frame.index[marks][0] + 1}{more}")
    if found:
        raise FirthshotError(f"Column {', column '.join(found)}: {way_out}", *arguments)


def _settled(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a complete column in its plain type, without levels that no row has."""
    plain = getattr(column.dtype, "numpy_dtype", None)  # pandas' types with room for NA have one
    if plain is not None:
        return column.astype(plain)
    return column.cat.remove_unused_categories() if hasattr(column, "cat") else column
