"""Names in CSV files that people open in a spreadsheet, which runs what looks like a formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_STARTS = tuple("=+-@\t\r\n")  # of what spreadsheets compute instead of showing


def harmless_cell(text: str) -> str:
    """Return text with an apostrophe before it where a spreadsheet would take it for a formula.

    Numbers are none, also as text: −1 and +1 stay as they are.
    """
    return f"'{text}" if text.startswith(_STARTS) and not _is_number(text) else text


def harmless_csv(frame: pl.DataFrame) -> str:
    """Return a table as CSV in which no text is a formula."""
    import polars as pl

    texts = [
        column.map_elements(harmless_cell, return_dtype=pl.String)
        for column in frame
        if column.dtype == pl.String
    ]
    return frame.with_columns(texts).write_csv()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
