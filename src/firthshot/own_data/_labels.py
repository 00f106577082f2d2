"""Labels of a table: the text that the file has, or whole numbers where nothing is lost by it.

``01``, ``1`` and ``007`` are three classes, though a reader of numbers finds two in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.own_data._examples import Array

if TYPE_CHECKING:
    import polars as pl

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # one text for each number, all within int64
_DOT_ZERO = ".0"  # pandas writes so whole numbers of a column that had gaps


def read_labels(column: pl.Series, source: str, classes: frozenset[str] = frozenset()) -> Array:
    """Return the labels of a column, whole numbers or text, or refuse what are no classes.

    Parameters
    ----------
    column : Series
        As text where it comes from a text file.
    source : str
    classes : frozenset of str
        What a model tells apart, as text: a label that is one of them stays as it is.
    """
    _refuse_gaps(column, source)
    texts = [str(value) for value in column.to_list()]
    if classes:
        return np.array([_as_class(text, classes) for text in texts])
    whole = whole_numbers(texts)
    if whole is not None:
        return whole
    if all(map(_is_number, texts)) and any(not float(text).is_integer() for text in texts):
        raise FirthshotError(
            f"Column {column.name!r} of {source} holds fractional numbers, which are no classes: "
            "write them as words or whole numbers, or name another --label."
        )
    return np.array(texts)


def whole_numbers(texts: Iterable[str]) -> Array | None:
    """Return texts as whole numbers where each is the one way to write its number, else None.

    So are texts that all end in ``.0``.
    """
    found = list(texts)
    if all(text.endswith(_DOT_ZERO) for text in found):
        found = [text.removesuffix(_DOT_ZERO) for text in found]
    if not all(_WHOLE.fullmatch(text) for text in found):
        return None
    return np.array([int(text) for text in found])


def _as_class(text: str, classes: frozenset[str]) -> str:
    """Return a label as the model writes it, which may have read ``1.0`` as 1."""
    plain = text.removesuffix(_DOT_ZERO)
    return plain if text not in classes and plain in classes else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _refuse_gaps(column: pl.Series, source: str) -> None:
    if column.null_count():
        row = int(column.is_null().arg_max() or 0) + 1
        raise FirthshotError(
            f"{source} has no label in row {row} of column {column.name!r}: fill it in or remove "
            "the row."
        )
