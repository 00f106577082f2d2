"""A table as rows of plain values: what pages, CSV, Markdown and LaTeX are made from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from firthshot.report.verdict import Condition
from firthshot.report.wording import listed

WIDTH = " ±"  # a column "X ±" holds the half-widths of the 95 % intervals of column "X"


class Number(float):
    """A number that is shown with a fixed number of decimals, and with its sign if asked to."""

    decimals: int
    signed: bool

    def __new__(cls, value: float, decimals: int = 2, signed: bool = False) -> Number:
        """Round the value to what will be shown, so that a file holds what the reader sees."""
        made = super().__new__(cls, round(float(value), decimals) + 0.0)  # no negative zero
        made.decimals, made.signed = decimals, signed
        return made

    def __str__(self) -> str:
        sign = "+" if self.signed and self else ""
        return f"{float(self):{sign}.{self.decimals}f}"

    __repr__ = __str__


@dataclass(frozen=True)
class Table:
    """A table of a report.

    Attributes
    ----------
    name : str
        Of its files, without ending.
    title : str
    columns : tuple of str
        A column "X ±" follows the column X whose intervals it holds; Markdown and LaTeX show both
        in one.
    rows : tuple of tuples
        Text, numbers, or None where there is nothing.
    note : str
        What a reader must know: units, intervals, marks, and where the paper's numbers are from.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""


def table(
    name: str, title: str, rows: list[dict[str, Any]], note: str, keep: tuple[str, ...] = ()
) -> Table:
    """Make a table from rows by column; columns that are empty everywhere are left out.

    ``keep`` are columns that stay even where they are empty.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    used = [
        column
        for column in columns
        if column in keep or any(row.get(column) not in (None, "") for row in rows)
    ]
    lines = tuple(tuple(row.get(column) for column in used) for row in rows)
    return Table(name, title, tuple(used), lines, note)


def percent(fraction: float | None, signed: bool = False) -> Number | None:
    """Return a fraction in per cent with two decimals."""
    return None if fraction is None else Number(100 * fraction, 2, signed)


def coefficient(value: float | None) -> Number | None:
    """Return a coefficient with three significant digits."""
    if value is None:
        return None
    text = f"{value:.3g}"
    plain = f"{float(text):.10f}".rstrip("0").rstrip(".")
    return Number(value, len(plain.partition(".")[2]))


def finite(value: float | None, decimals: int = 3, signed: bool = False) -> Number | None:
    """Return a number with its decimals, or nothing where it is not finite."""
    known = value is not None and math.isfinite(value)
    return Number(value, decimals, signed) if known and value is not None else None


def place(row: Mapping[str, Any], with_bank: bool) -> dict[str, Any]:
    """Return the columns that say where a line of a summary belongs."""
    condition = Condition.of(row)
    shots = condition.label if condition.unbalanced else row["shots"]
    return ({"Bank": row["bank"]} if with_bank else {}) | {"Way": row["ways"], "Shot": shots}


def bank_note(rows: Iterable[Mapping[str, Any]]) -> str:
    """Name the banks of lines with their data sets and backbones."""
    facts = {row["bank"]: (row["dataset"], row["backbone"]) for row in rows}
    known = [
        f"{name} [{'; '.join(filter(None, its))}]" if any(its) else name
        for name, its in facts.items()
    ]
    return f"{'Banks' if len(known) > 1 else 'Bank'} {listed(known)}."


def p_value(p: float | None) -> str | None:
    """Return a p-value as tables print it; below 0.001 its size says enough."""
    if p is None:
        return None
    return "<0.001" if p < 0.001 else f"{p:.3f}"
