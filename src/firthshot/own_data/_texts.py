"""Texts out of a table or out of lines: which column holds them, and what else a row says."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import numpy as np

from firthshot.backbones.datasets import text_column
from firthshot.errors import FirthshotError, listed
from firthshot.own_data._examples import Columns, Examples
from firthshot.own_data._stdin import objects_table, parse_json
from firthshot.own_data._tables import as_classes, index_column, read_ids
from firthshot.tables import parse_separated

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl


def table_texts(
    table: pl.DataFrame, source: str | Path, columns: Columns, *, needs_label: bool
) -> tuple[list[str], Examples]:
    """Return the texts of a table, and its rows, which have no features yet.

    Texts without ids name themselves.
    """
    if not table.height:
        raise FirthshotError(f"{source} has no rows: give a table with texts below its header.")
    if needs_label and columns.label not in table.columns:
        raise FirthshotError(
            f"{source} has no column {columns.label!r} of labels, but {listed(table.columns)}: "
            "name the column of labels.",
            "label",
        )
    column, notes = _column(table, source, columns)
    labelled = columns.label in table.columns and columns.label != column
    ids = columns.id or ("id" if "id" in table.columns else column)
    if ids not in table.columns:
        raise FirthshotError(f"{source} has no column {ids!r}, but {listed(table.columns)}.")
    return _filled(table, column, source), Examples(
        str(source),
        np.empty((table.height, 0)),
        as_classes(_filled(table, columns.label, source), columns.classes) if labelled else None,
        ids=read_ids(table[ids], str(source)),
        id_name=ids,
        kind="text",
        label_name=columns.label if labelled else None,
        text_name=column,
        notes=notes,
    )


def lines_table(text: str, columns: Columns, source: str) -> pl.DataFrame | None:
    """Return lines as a table if they are JSON objects or have a header; None for mere texts.

    A header is a first line with the name of the text column among its cells.
    """
    if _holds_objects(text):
        return objects_table(parse_json(text, source), source)
    lines = [line for line in text.splitlines() if line.strip()]
    separator = _separator_of_header(lines[0], columns.text or columns.model_text or "text")
    return None if separator is None else parse_separated("\n".join(lines), separator, None, source)


def looks_like_texts(table: pl.DataFrame, columns: Columns) -> bool:
    """Tell whether the only column beside label and id holds words, or that called text does."""
    import polars as pl

    rest = [name for name in table.columns if name not in _others(table, columns)]
    named = rest if len(rest) == 1 else [name for name in rest if name == "text"]
    return bool(named) and table.schema[named[0]] == pl.String and not numeric(table[named[0]])


def numeric(column: pl.Series) -> bool:
    """Tell whether a column of text holds nothing but numbers."""
    import polars as pl

    return bool(column.str.strip_chars().cast(pl.Float64, strict=False).is_not_null().all())


def _column(
    table: pl.DataFrame, source: str | Path, columns: Columns
) -> tuple[str, tuple[str, ...]]:
    """Return the column of texts, and what is to be said of the choice."""
    model = columns.model_text
    if columns.text is not None or model in table.columns:
        return text_column(table, source, columns.text or model, ()), ()
    others = _others(table, columns)
    rest = [name for name in _words(table) if name not in others]
    if not rest and columns.id in _words(table):
        return str(columns.id), ()  # the only words there are: they name themselves
    if model is None:
        return text_column(table, source, None, tuple(others)), ()
    if len(rest) != 1 or _are_labels(table[rest[0]]):
        raise FirthshotError(
            f"{source} has no column {model!r}, which held the model's texts, but "
            f"{listed(map(repr, table.columns))}: name the column of texts.",
            "text",
        )
    note = (
        f"{source} has no column {model!r}, which held the model's texts: {rest[0]!r}, its only "
        "column of words, was read instead."
    )
    return rest[0], (note,)


def _are_labels(column: pl.Series) -> bool:
    """Tell whether words are rather classes than texts: by their name, or because they repeat."""
    return column.name.lower() == "label" or 2 * column.n_unique() <= len(column)


def _others(table: pl.DataFrame, columns: Columns) -> set[str]:
    """Return the columns that are something else than texts, by their names."""
    own = {name for name in table.columns if name.lower() == "id" or index_column(name)}
    return own | {columns.label, *columns.drop, *([columns.id] if columns.id else [])}


def _words(table: pl.DataFrame) -> list[str]:
    import polars as pl

    return [
        name
        for name, kind in table.schema.items()
        if kind == pl.String and not numeric(table[name])
    ]


def _filled(table: pl.DataFrame, column: str, source: str | Path) -> list[str]:
    values = table[column].to_list()
    for row, value in enumerate(values, 1):
        if value is None or not str(value).strip():
            raise FirthshotError(
                f"{source} has an empty cell in row {row} of column {column!r}: fill it in or "
                "remove the row."
            )
    return [str(value) for value in values]


def _holds_objects(text: str) -> bool:
    """Tell whether text is JSON of objects: one, an array of them, or one per line."""
    if text.lstrip()[0] not in "[{":
        return False
    for part in (text.strip().splitlines()[0], text):
        try:
            value = json.loads(part)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) or (
            isinstance(value, list) and value and all(isinstance(one, dict) for one in value)
        ):
            return True
    return False


def _separator_of_header(line: str, name: str) -> str | None:
    """Return what separates a header with this name; None for a sentence.

    Cells of a header have no spaces around them: "text, please" is a sentence.
    """
    for mark in ",;\t":
        try:
            cells = next(csv.reader([line], delimiter=mark), [])
        except csv.Error:  # a text longer than any cell of a header
            return None
        if name in cells and all(cell == cell.strip() for cell in cells):
            return mark
    return None
