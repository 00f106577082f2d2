"""Tables of features: every cell is a finite number, or its row and column are named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from firthshot.errors import FirthshotError, listed
from firthshot.own_data._examples import Array, Columns, Examples, unknown_column
from firthshot.tables import are_fractional, class_labels, load_table, naming_table, plain_number

_INDICES = ("", "unnamed: 0", "__index_level_0__")  # what pandas calls an index that it wrote


def read_examples_table(path: Path, columns: Columns, *, needs_label: bool) -> Examples:
    """Read a .csv, .tsv or .parquet file; one without labels is refused if they are needed."""
    if path.is_file() and not path.stat().st_size:
        raise FirthshotError(f"{path} is empty: give a table with a header and rows.")
    with naming_table(path):
        table = load_table(path, [columns.label])
    return table_examples(table, str(path), columns, needs_label=needs_label)


def table_examples(
    table: pl.DataFrame, source: str, columns: Columns, *, needs_label: bool
) -> Examples:
    """Take a table apart into features, labels and ids."""
    if not table.height:
        raise FirthshotError(f"{source} has no rows: give a table with data below its header.")
    label = columns.label if needs_label or columns.label in table.columns else None
    id_column = columns.id or _own_id(table, label)
    special = [name for name in (label, id_column) if name is not None]
    for name in (*special, *columns.drop):
        if name not in table.columns:
            sentence = unknown_column(name, table.columns, source)
            if name == label:
                raise FirthshotError(f"{sentence} Name the column of the classes.", "label")
            raise FirthshotError(sentence)
    index = [name for name in table.columns if index_column(name)]
    rest = table.drop([*dict.fromkeys([*special, *columns.drop, *index])])
    chosen = _chosen(rest, columns.features, source)
    features, names = _features(chosen, source)
    return Examples(
        source,
        features,
        None if label is None else read_labels(table[label], source, columns.classes),
        names,
        None if id_column is None else read_ids(table[id_column], source),
        "row" if id_column is None or index_column(id_column) else id_column,
        unused=tuple(_unused(rest.drop(chosen.columns), columns.classes)),
        label_name=label,
    )


def _unused(table: pl.DataFrame, classes: frozenset[str]) -> list[str]:
    """Return the columns that hold something other than a model's classes."""

    def is_label(column: pl.Series) -> bool:
        if not (column.dtype == pl.String or column.dtype.is_integer()):
            return False
        return set(map(str, column.drop_nulls().unique().to_list())) <= classes

    return [name for name in table.columns if not is_label(table[name])]


def _chosen(table: pl.DataFrame, names: tuple[str, ...] | None, source: str) -> pl.DataFrame:
    """Return the columns of these names in their order, or all."""
    if names is None or (table.width == 1 and isinstance(table.dtypes[0], pl.List | pl.Array)):
        return table
    missing = [name for name in names if name not in table.columns]
    if len(missing) == len(names):
        raise FirthshotError(
            f"{source} has none of the columns that the model was fitted to ({listed(names)}): it "
            f"has {listed(table.columns) or 'none'}."
        )
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise FirthshotError(
            unknown_column(missing[0], table.columns, source).replace(
                f"column {missing[0]!r}", f"column {missing[0]!r}{more} that the model needs"
            )
        )
    return table.select(names)


def _own_id(table: pl.DataFrame, label: str | None) -> str | None:
    """Return the column that is called id, or else the index that pandas wrote, if any."""
    others = [name for name in table.columns if name != label]
    named = [name for name in others if name.lower() == "id"]
    return next(iter(named + [name for name in others if index_column(name)]), None)


def index_column(name: str) -> bool:
    """Tell whether a column is an index by its name: rows sorted by class make it tell them all."""
    return name.strip().lower() in _INDICES


def _features(table: pl.DataFrame, source: str) -> tuple[Array, tuple[str, ...] | None]:
    """Return the features and their names; one column of lists has features without names."""
    if not table.width:
        raise FirthshotError(
            f"{source} has no feature columns beside label and id: add columns of numbers, or name "
            "the column of labels.",
            "label",
        )
    first = table.to_series(0)
    if table.width == 1 and isinstance(first.dtype, pl.List | pl.Array):
        return _lists(first, source), None
    table = table.cast({pl.Boolean: pl.Float64})  # false and true are 0 and 1
    for name in table.columns:
        _refuse_words(table[name], source)
    features = table.cast(pl.Float64).to_numpy() if _mixed(table) else table.to_numpy()
    features = np.asarray(features, np.float32 if features.dtype == np.float32 else np.float64)
    refuse_not_finite(features, source, table.columns)
    return features, tuple(table.columns)


def _mixed(table: pl.DataFrame) -> bool:
    return len(set(table.dtypes)) > 1 or any(table[name].null_count() for name in table.columns)


def _lists(column: pl.Series, source: str) -> Array:
    rows = column.to_list()
    first = len(rows[0]) if rows[0] is not None else 0
    for number, row in enumerate(rows, 1):
        if row is None or len(row) != first or not first or None in row:
            found = 0 if row is None else len(row)
            raise FirthshotError(
                f"Row {number} of column {column.name!r} in {source} has {found} values or gaps "
                f"where {first} numbers are expected."
            )
    try:
        features = np.array(rows, np.float64)
    except (TypeError, ValueError):
        raise FirthshotError(
            f"The lists in column {column.name!r} of {source} do not hold numbers."
        ) from None
    refuse_not_finite(features, source, [f"{column.name}[{j}]" for j in range(first)])
    return features


def _refuse_words(column: pl.Series, source: str) -> None:
    """Refuse a column that is not numeric, naming its first cell that is no number."""
    if column.dtype.is_numeric():
        return
    where = f"Column {column.name!r} of {source}"
    if column.dtype != pl.String:
        raise FirthshotError(
            f"{where} is of type {column.dtype}, not a number: leave it out.",
            f"drop={column.name}",
        )
    numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    words = numbers.is_null() & column.is_not_null()
    if column.is_null().all():
        raise FirthshotError(f"{where} is empty: fill it in.")
    if words.mean() == 1.0 or not words.any():
        raise FirthshotError(
            f"{where} holds text, such as {_short(column.drop_nulls()[0])}: leave it out, or name "
            "it as id or label.",
            f"drop={column.name}",
            "id",
            "label",
        )
    row = int(words.arg_max() or 0)
    raise FirthshotError(
        f"{where} holds {_short(column[row])} in row {row + 1} where a number is expected: mend "
        "it, or leave the column out.",
        f"drop={column.name}",
    )


def _short(word: str) -> str:
    return repr(word if len(word) <= 40 else word[:39] + "…")


def finite_features(data: Any, source: str) -> Array:
    """Return rows of numbers as float32 or float64; a row that is not finite is refused."""
    features = np.asarray(data)
    if features.dtype not in (np.float32, np.float64):
        with np.errstate(invalid="ignore"):  # a signalling NaN, which is refused below
            features = features.astype(np.float32 if features.dtype == np.float16 else np.float64)
    refuse_not_finite(features, source)
    return features


def refuse_not_finite(features: Array, source: str, names: Sequence[str] | None = None) -> None:
    """Refuse features of which one is no finite number, naming the first; columns may be named."""
    bad = ~np.isfinite(features)
    if bad.any():
        row, column = (int(found[0]) for found in np.nonzero(bad))
        where = column + 1 if names is None else repr(names[column])
        others = int(bad.sum()) - 1
        more = f" ({others} more such cells)" if others else ""
        raise FirthshotError(
            f"{source} has no finite number in row {row + 1}, column {where}{more}: fill it in or "
            "remove the row."
        )


def read_labels(column: pl.Series, source: str, classes: frozenset[str] = frozenset()) -> Array:
    """Return the labels of a column as `class_labels` does, or refuse what are no classes.

    ``classes`` is what a model tells apart, as text: a label that is one of them stays as it is.
    """
    if column.null_count():
        row = int(column.is_null().arg_max() or 0) + 1
        raise FirthshotError(
            f"{source} has no label in row {row} of column {column.name!r}: fill it in or remove "
            "the row."
        )
    _refuse_nested(column, source, "label")
    texts = [str(value) for value in column.to_list()]
    if not classes and are_fractional(texts):
        raise FirthshotError(
            f"Column {column.name!r} of {source} holds fractional numbers, which are no classes: "
            "write them as words or whole numbers, or name another column.",
            "label",
        )
    return as_classes(texts, classes)


def as_classes(texts: list[str], classes: frozenset[str] = frozenset()) -> Array:
    """Return labels as a model writes them, or else as `class_labels` does."""
    if not classes:
        return class_labels(texts)
    plain = [plain_number(text) for text in texts]  # it may have read 1.0 as 1
    pairs = zip(texts, plain, strict=True)
    return np.array([p if text not in classes and p in classes else text for text, p in pairs])


def read_ids(column: pl.Series, source: str) -> Array:
    """Return what a column calls the rows, or refuse what cannot name them."""
    _refuse_nested(column, source, "id")
    return np.array(column.to_list())


def _refuse_nested(column: pl.Series, source: str, role: str) -> None:
    if column.dtype.is_nested() or column.dtype.is_object():
        raise FirthshotError(
            f"Column {column.name!r} of {source} holds lists or objects where words or numbers are "
            f"expected: name another {role}.",
            role,
        )
