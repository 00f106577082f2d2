"""Rows from standard input: one JSON array or object, or lines of CSV."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from firthshot.errors import FirthshotError
from firthshot.own_data._examples import Columns, Examples
from firthshot.own_data._tables import table_examples

SOURCE = "Standard input"


def parse_items(text: str, columns: Columns) -> Examples:
    """Read rows from text.

    Parameters
    ----------
    text : str
        ``[0.1, 0.2]`` (one row), ``[[0.1, 0.2], …]``, ``{"x1": 0.1, "x2": 0.2}``, one such array or
        object per line, or CSV with or without a header.
    columns : Columns
        As for a table.
    """
    text = text.strip()
    if not text:
        raise FirthshotError(f"{SOURCE} is empty: give a JSON array or a line of CSV.")
    if text[0] in "[{":
        return _json_examples(_parse_json(text), columns)
    return _csv_examples(text, columns)


def _parse_json(text: str) -> list[Any]:
    """Return the rows of one JSON value, or of one per line."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as whole:
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError:
            raise FirthshotError(f"{SOURCE} is no valid JSON ({whole}): mend it.") from None
    nested = isinstance(value, list) and value and isinstance(value[0], list | dict)
    return list(value) if nested else [value]


def _json_examples(rows: list[Any], columns: Columns) -> Examples:
    if all(isinstance(row, dict) for row in rows):
        import polars as pl

        try:
            table = pl.DataFrame(rows, infer_schema_length=None)
        except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise FirthshotError(f"{SOURCE} cannot be read as a table ({reason}).") from None
        return table_examples(table, SOURCE, columns, needs_label=False)
    if not all(isinstance(row, list) for row in rows):
        raise FirthshotError(f"{SOURCE} mixes arrays and objects: give one kind.")
    return _rows(rows)


def _rows(rows: list[list[Any]]) -> Examples:
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]) or not row:
            raise FirthshotError(
                f"{SOURCE} has {len(row)} numbers in row {number} and {len(rows[0])} in row 1."
            )
        for place, value in enumerate(row, 1):
            plain = isinstance(value, int | float) and not isinstance(value, bool)
            if not plain or not np.isfinite(value):
                raise FirthshotError(
                    f"{SOURCE} holds {value!r} at place {place} of row {number}, where a finite "
                    "number is expected."
                )
    return Examples(SOURCE, np.array(rows, np.float64))


def _csv_examples(text: str, columns: Columns) -> Examples:
    import polars as pl

    first = text.splitlines()[0].split(",")
    if all(_is_number(cell) for cell in first):
        lines = [line.split(",") for line in text.splitlines() if line.strip()]
        return _rows([[_number(cell) for cell in line] for line in lines])
    try:
        table = pl.read_csv(io.BytesIO(text.encode()), infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise FirthshotError(f"{SOURCE} cannot be read as CSV ({reason}).") from None
    return table_examples(table, SOURCE, columns, needs_label=False)


def _is_number(cell: str) -> bool:
    return not isinstance(_number(cell), str)


def _number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell.strip()
