"""The tables as the page shows them: values with their intervals in one cell, sorted by value."""

from __future__ import annotations

from typing import Any

from firthshot.report.tables.cells import Table
from firthshot.report.tables.writers import merged, shown_columns

_FULL = 40  # lines; longer tables are folded
_OPEN = ("artificial", "improvement", "published", "geometric")  # the others are folded too


def table_view(table: Table) -> dict[str, Any]:
    """Return what the template needs of a table: of a cell text, and what to sort by."""
    header, texts, _ = merged(table)
    places = shown_columns(table)
    rows = [
        [(text, _sort(row[at])) for text, at in zip(cells, places, strict=True)]
        for cells, row in zip(texts, table.rows, strict=True)
    ]
    return {
        "name": table.name,
        "title": table.title,
        "columns": header,
        "numbers": [any(isinstance(row[at], int | float) for row in table.rows) for at in places],
        "rows": rows,
        "note": table.note,
        "open": len(rows) <= _FULL and table.name.startswith(_OPEN),
    }


def _sort(value: Any) -> float | str | None:
    """Return a number, "" where there is nothing, which sorts last, and None for text."""
    if value is None:
        return ""
    return float(value) if isinstance(value, int | float) else None
