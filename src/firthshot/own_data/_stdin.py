"""Rows as text, from standard input or a .jsonl file: JSON, or lines of numbers."""

from __future__ import annotations

import json
import math
import reprlib
from typing import TYPE_CHECKING, Any

import numpy as np

from firthshot.errors import FirthshotError, reason
from firthshot.own_data._examples import Columns, Examples
from firthshot.own_data._tables import table_examples
from firthshot.tables import parse_separated, polars_errors

if TYPE_CHECKING:
    import polars as pl

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
    """Read rows from text.

    Parameters
    ----------
    text : str
        ``[0.1, 0.2]`` (one row), ``[[0.1, 0.2], …]``, ``{"x1": 0.1, "x2": 0.2}``, one such array or
        object per line, or lines of numbers between commas, semicolons, tabs or spaces, with or
        without a header.
    columns : Columns
        As for a table.
    source : str
        Where the text comes from, for messages.
    needs_label : bool
        As for a table: arrays have no labels.
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
    import polars as pl

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
