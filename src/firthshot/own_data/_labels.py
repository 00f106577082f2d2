"""Labels of a table: those of a model that the user fits, or those that a model already knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.own_data._examples import Array
from firthshot.tables import are_fractional, class_labels, plain_number

if TYPE_CHECKING:
    import polars as pl


def read_labels(column: pl.Series, source: str, classes: frozenset[str] = frozenset()) -> Array:
    """Return the labels of a column as `class_labels` does, or refuse what are no classes.

    Parameters
    ----------
    column : Series
        As text where it comes from a text file.
    source : str
    classes : frozenset of str
        What a model tells apart, as text: a label that is one of them stays as it is.
    """
    _refuse_gaps(column, source)
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
    if classes:
        return np.array([_as_class(text, classes) for text in texts])
    return class_labels(texts)


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


def _as_class(text: str, classes: frozenset[str]) -> str:
    """Return a label as the model writes it, which may have read ``1.0`` as 1."""
    plain = plain_number(text)
    return plain if text not in classes and plain in classes else text


def _refuse_gaps(column: pl.Series, source: str) -> None:
    if column.null_count():
        row = int(column.is_null().arg_max() or 0) + 1
        raise FirthshotError(
            f"{source} has no label in row {row} of column {column.name!r}: fill it in or remove "
            "the row."
        )
