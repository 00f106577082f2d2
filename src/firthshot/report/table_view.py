"""The tables as the page shows them: values with their intervals in one cell, sorted by value."""

from __future__ import annotations

from typing import Any

from firthshot.report.tables_cells import WIDTH, Table

_FULL = 40  # lines; longer tables are folded
_OPEN = ("artificial", "improvement", "published", "geometric")  # the others are folded too


def table_view(table: Table) -> dict[str, Any]:
    """Return what the template needs of a table."""
    widths = {
        name.removesuffix(WIDTH): at
        for at, name in enumerate(table.columns)
        if name.endswith(WIDTH) and name.removesuffix(WIDTH) in table.columns
    }
    shown = [at for at in range(len(table.columns)) if at not in widths.values()]
    beside = {at: widths[table.columns[at]] for at in shown if table.columns[at] in widths}
    rows = [
        [_cell(row[at], row[beside[at]] if at in beside else None) for at in shown]
        for row in table.rows
    ]
    return {
        "name": table.name,
        "title": table.title,
        "columns": [table.columns[at] for at in shown],
        "numbers": [any(row[at]["number"] for row in rows) for at in range(len(shown))],
        "rows": rows,
        "note": table.note,
        "open": len(rows) <= _FULL and table.name.startswith(_OPEN),
    }


def _cell(value: Any, width: Any) -> dict[str, Any]:
    """Return text, what to sort by ("" sorts last), and whether it is a number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = "" if value is None else str(value).replace("-", "−") if number else str(value)
    if value is not None and width is not None:
        text = f"{text} ± {width}"
    sort = "" if value is None else float(value) if number else None
    return {"text": text, "sort": sort, "number": number}
