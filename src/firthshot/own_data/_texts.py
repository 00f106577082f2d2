"""Rows out of text, from standard input or a file: JSON, lines of numbers, lines of words.

And which column of a table holds texts.
"""

from __future__ import annotations

import csv
import json
import math
import reprlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from firthshot.backbones.datasets import text_column
from firthshot.errors import FirthshotError, listed, reason
from firthshot.own_data._examples import Columns, Examples
from firthshot.own_data._tables import as_classes, index_column, read_ids, table_examples
from firthshot.tables import parse_separated, polars_errors

SOURCE = "Standard input"


def decode(content: bytes, source: str = SOURCE) -> str:
    """Return bytes as text, or say that they are none."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FirthshotError(
            f"{source} is not in UTF-8: convert it, as with iconv -f latin1 -t utf-8."
        ) from None


def parse_items(
    text: str, columns: Columns, source: str = SOURCE, *, needs_label: bool = False
) -> Examples:
    """Read rows of numbers from text.

    It is ``[0.1, 0.2]`` (one row), ``[[0.1, 0.2], …]``, ``{"x1": 0.1, "x2": 0.2}``, one such array
    or object per line, or lines of numbers between commas, semicolons, tabs or spaces, with or
    without a header.
    """
    if not text.strip():
        raise FirthshotError(f"{source} is empty: give a JSON array or a line of numbers.")
    if text.lstrip()[0] not in "[{":  # the lines before it count for messages
        return _line_examples(text, columns, source, needs_label)
    rows = parse_json(text, source)
    if all(isinstance(row, dict) for row in rows):
        table = objects_table(rows, source)
        return table_examples(table, source, columns, needs_label=needs_label)
    if not all(isinstance(row, list) for row in rows):
        raise FirthshotError(f"{source} mixes arrays and objects: give one kind.")
    return _rows(rows, source, needs_label)


def parse_json(text: str, source: str) -> list[Any]:
    """Return the rows of one JSON value, or of one per line."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as whole:
        return _json_lines(text, source, whole)
    except (ValueError, RecursionError) as error:  # a number of 5000 digits, or too deep
        raise _no_json(source, reason(error)) from None
    nested = isinstance(value, list) and value and isinstance(value[0], list | dict)
    return list(value) if nested else [value]


def _json_lines(text: str, source: str, whole: json.JSONDecodeError) -> list[Any]:
    """Return the value of every line; where the first is none, the text is one bad value."""
    values: list[Any] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if line.strip():
                values.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            words = f"line {number}: {getattr(error, 'msg', reason(error))}"
            raise _no_json(source, words if values else str(whole)) from None
    return values


def _no_json(source: str, words: str) -> FirthshotError:
    return FirthshotError(f"{source} is no valid JSON ({words}): mend it.")


def objects_table(rows: list[Any], source: str) -> pl.DataFrame:
    """Return JSON objects as the rows of a table."""
    if not all(isinstance(row, dict) for row in rows):
        raise FirthshotError(f"{source} mixes objects and other values: give one object per row.")
    try:
        return pl.DataFrame(rows, infer_schema_length=None)
    except polars_errors(Exception) as error:  # Python's own errors come through polars too
        raise FirthshotError(f"{source} cannot be read as a table ({reason(error)}).") from None


def _rows(rows: list[list[Any]], source: str, needs_label: bool) -> Examples:
    if needs_label:
        raise FirthshotError(f"{source} holds rows of numbers without labels: name the columns.")
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]) or not row:
            raise FirthshotError(
                f"{source} has {len(row)} numbers in row {number} and {len(rows[0])} in row 1."
            )
        for place, value in enumerate(row, 1):
            if not _is_finite(value):
                raise FirthshotError(
                    f"{source} holds {reprlib.repr(value)} at place {place} of row {number}, where "
                    "a finite number is expected."
                )
    return Examples(source, np.array(rows, np.float64))


def _is_finite(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def _line_examples(text: str, columns: Columns, source: str, needs_label: bool) -> Examples:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    separator = next((mark for mark in ",;\t" if mark in lines[0]), None)  # or any white space
    first = [_number(cell) for cell in lines[0].split(separator)]
    words = [cell for cell in first if isinstance(cell, str)]
    if not words:
        rows = [[_number(cell) for cell in line.split(separator)] for line in lines]
        return _rows(rows, source, needs_label)
    if len(lines) == 1:
        raise FirthshotError(
            f"{source} holds {words[0]!r} where a number is expected: give numbers, a JSON "
            "array or object, or a header with rows below."
        )
    if separator is None:
        lines, separator = ["\t".join(line.split()) for line in lines], "\t"
    table = parse_separated("\n".join(lines), separator, [columns.label], source)
    return table_examples(table, source, columns, needs_label=needs_label)


def _number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell.strip()


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
    rest = [name for name in table.columns if name not in _others(table, columns)]
    named = rest if len(rest) == 1 else [name for name in rest if name == "text"]
    return bool(named) and table.schema[named[0]] == pl.String and not numeric(table[named[0]])


def numeric(column: pl.Series) -> bool:
    """Tell whether a column of text holds nothing but numbers."""
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
