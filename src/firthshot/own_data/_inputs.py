"""From what a user holds in Python to `Examples`: lists, frames, arrays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.backbones.images import ENDINGS as PICTURES
from firthshot.errors import FirthshotError
from firthshot.own_data._encoded import Embedder, embed_files, embed_table_texts, embed_texts
from firthshot.own_data._examples import Columns, Examples
from firthshot.own_data._tables import finite_features, table_examples
from firthshot.own_data._texts import looks_like_texts

if TYPE_CHECKING:
    import polars as pl

PYTHON = "the given table"
KINDS_OF_DATA = "an array of shape (rows, features), a data frame, texts or pictures"


def held_examples(
    data: Any,
    y: Any,
    columns: Columns,
    embedder: Embedder,
    *,
    needs_label: bool,
    skip_bad: bool,
) -> Examples:
    """Return the rows of what is held in memory, as `read_examples` does."""
    try:
        return _held(data, y, columns, embedder, needs_label, skip_bad)
    except FirthshotError as error:
        if not str(error).startswith(PYTHON):
            raise
        raise error.reworded(str(error)[0].upper() + str(error)[1:]) from None


def _held(
    data: Any, y: Any, columns: Columns, embedder: Embedder, needs_label: bool, skip_bad: bool
) -> Examples:
    if data is None:
        raise FirthshotError(f"The data are None: give {KINDS_OF_DATA}.")
    data = data.toarray() if hasattr(data, "toarray") else data  # of scipy
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):
        found = _frame_examples(_as_polars(data), y, columns, embedder, needs_label)
    elif not hasattr(data, "__len__") or not len(data):
        raise FirthshotError(f"The data are empty or no sequence: give {KINDS_OF_DATA}.")
    elif all(isinstance(one, str | Path) for one in data):
        labels = None if y is None else _labels(y, len(data))
        found = _listed_examples(list(data), labels, embedder, skip_bad)
    else:
        found = Examples(PYTHON, _numbers(data))
    if y is not None and found.kind != "image":  # of which some may be left out
        found = replace(found, labels=_labels(y, len(found)))
    if needs_label and found.labels is None:
        raise FirthshotError("The rows have no labels: give y.")
    return found


def _as_polars(frame: Any) -> pl.DataFrame:
    import polars as pl

    if isinstance(frame, pl.DataFrame):
        return frame
    if hasattr(frame, "to_dict") and hasattr(frame, "iloc"):  # of pandas
        return pl.DataFrame([_series(str(name), frame[name]) for name in frame.columns])
    return pl.DataFrame(frame)


def _series(name: str, column: Any) -> pl.Series:
    """Return a column of pandas, in which whatever is missing is null."""
    import polars as pl

    values = [
        None if gone else value for value, gone in zip(column.tolist(), column.isna(), strict=True)
    ]
    try:
        return pl.Series(name, values)
    except TypeError:
        raise FirthshotError(
            f"Column {name!r} of {PYTHON} holds values of several types: write all as words or all "
            "as numbers."
        ) from None


def _frame_examples(
    frame: pl.DataFrame, y: Any, columns: Columns, embedder: Embedder, needs_label: bool
) -> Examples:
    needs = needs_label and y is None
    if columns.text is not None or embedder.takes_texts or looks_like_texts(frame, columns):
        return embed_table_texts(frame, PYTHON, columns, embedder, needs)
    return table_examples(frame, PYTHON, columns, needs_label=needs)


def _listed_examples(
    items: list[str | Path], labels: np.ndarray | None, embedder: Embedder, skip_bad: bool
) -> Examples:
    """Return pictures or texts of a list: files of pictures by their names, else texts."""
    pictures = not embedder.takes_texts and all(
        Path(one).suffix.lower() in PICTURES for one in items
    )
    if pictures:
        paths = [Path(one) for one in items]
        return embed_files(paths, labels, PYTHON, embedder, skip_bad=skip_bad)
    return embed_texts([str(one) for one in items], PYTHON, embedder)


def _numbers(data: Any) -> np.ndarray:
    try:
        features = np.asarray(data)
        if features.ndim != 2 or not features.size:
            raise FirthshotError(f"Rows of shape {features.shape} are none: give (rows, features).")
        return finite_features(features, PYTHON)
    except FirthshotError:
        raise
    except (TypeError, ValueError):
        raise FirthshotError(f"The rows are no numbers: give {KINDS_OF_DATA}.") from None


def _labels(y: Any, rows: int) -> np.ndarray:
    labels = np.asarray(y)
    gaps = [row for row, one in enumerate(labels.ravel().tolist(), 1) if one is None or one != one]
    if gaps:
        raise FirthshotError(f"y has no label in row {gaps[0]}: fill it in or remove the row.")
    if labels.shape != (rows,):
        raise FirthshotError(f"y has shape {labels.shape}: give one label for each of {rows} rows.")
    return labels
