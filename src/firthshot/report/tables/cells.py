"""A table as rows of plain values, and as CSV, Markdown and LaTeX with booktabs."""

from __future__ import annotations

import csv
import io
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firthshot.errors import visible
from firthshot.experiments.summary.columns import harmless_cell
from firthshot.report.verdict import Condition

Row = dict[str, Any]
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
    """A table of a report."""

    name: str  # of its files, without ending
    title: str
    # "X ±" follows the column X whose intervals it holds; Markdown and LaTeX show both in one
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]  # text, numbers, or None where there is nothing
    # what a reader must know: units, intervals, marks, and where the paper's numbers are from
    note: str = ""


TEXTS = tomllib.loads(Path(__file__).with_name("tables.toml").read_text("utf-8"))


def table(
    kind: str,
    label: str | None,
    rows: list[Row],
    words: dict[str, str],
    keep: tuple[str, ...] = (),
) -> Table:
    """Make a table of a kind in ``tables.toml`` from rows by column, its texts with these words.

    Columns that are empty everywhere are left out, but for those to ``keep``.
    """
    name = kind if label is None else f"{kind}-{label}"
    title, note = (TEXTS[kind][text].format(**words) for text in ("title", "note"))
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


def gain(title: str, mean: float | None, half_width: float | None) -> dict[str, Number | None]:
    """Return the two columns of a difference in points: its mean with sign, and its interval."""
    return {title: percent(mean, signed=True), f"{title}{WIDTH}": percent(half_width)}


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


def p_value(p: float | None) -> str | None:
    """Return a p-value as tables print it; below 0.001 its size says enough."""
    if p is None:
        return None
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def to_csv(table: Table) -> str:
    """Return a table as CSV with one column for each, intervals apart; its note is not in it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in (table.columns, *table.rows):
        writer.writerow(harmless_cell(cell) if isinstance(cell, str) else cell for cell in row)
    return text.getvalue()


def shown_columns(table: Table) -> list[int]:
    """Return the columns that are shown by themselves: all but those of intervals."""
    return [at for at, name in enumerate(table.columns) if not name.endswith(WIDTH)]


def merged(table: Table) -> tuple[list[str], list[list[str]], list[bool]]:
    """Return header, rows and which columns hold numbers, values and intervals in one column."""
    kept = shown_columns(table)
    widths = {
        name.removesuffix(WIDTH): at
        for at, name in enumerate(table.columns)
        if name.endswith(WIDTH)
    }
    rows = [
        [
            _cell(row[at], row[widths[name]] if (name := table.columns[at]) in widths else None)
            for at in kept
        ]
        for row in table.rows
    ]
    header = [table.columns[at] for at in kept]
    numeric = [
        all(isinstance(row[at], int | float) for row in table.rows if row[at] is not None)
        for at in kept
    ]
    return header, rows, numeric


def _cell(value: Any, width: Any = None) -> str:
    if value is None:
        return ""
    text = str(value)
    if isinstance(value, int | float):
        text = text.replace("-", "−")
    return text if width is None else f"{text} ± {width}"


def to_markdown(table: Table) -> str:
    """Return a table as Markdown with its title and note."""
    header, rows, numeric = merged(table)
    rule = ["---:" if number else "---" for number in numeric]
    lines = [_markdown_row(header), f"| {' | '.join(rule)} |", *map(_markdown_row, rows)]
    note = f"\n{_markdown(table.note)}\n" if table.note else ""
    return f"**{_markdown(table.title)}**\n\n" + "\n".join(lines) + f"\n{note}"


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(map(_markdown, cells))} |"


def _markdown(text: str) -> str:
    for sign in "\\|*_`<>[]&~$":
        text = text.replace(sign, f"\\{sign}")
    return visible(" ".join(text.split()))


def to_latex(table: Table) -> str:
    r"""Return a table as LaTeX for ``\usepackage{booktabs}``, captioned and labelled.

    Lines of one bank stand together under its name, as the paper's do.
    """
    header, rows, numeric = merged(table)
    by_bank = header[0] == "Bank"
    shown = slice(1, None) if by_bank else slice(None)
    lines = []
    for at, row in enumerate(rows):
        if by_bank and (at == 0 or row[0] != rows[at - 1][0]):
            rule = [r"\midrule"] if at else []
            lines += [
                *rule,
                rf"\multicolumn{{{len(row) - 1}}}{{c}}{{{latex(row[0])}}} \\",
                r"\midrule",
            ]
        lines.append(" & ".join(map(latex, row[shown])) + r" \\")
    columns = "".join("r" if number else "l" for number in numeric[shown])
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            r"\small",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(map(latex, header[shown])) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{latex(table.title)}. {latex(table.note)}}}",
            rf"\label{{tab:{table.name}}}",
            r"\end{table}",
            "",
        ]
    )


def latex(text: str) -> str:
    """Escape what LaTeX would read as a command."""
    return "".join(TEXTS["latex"].get(sign, sign) for sign in visible(" ".join(text.split())))


WRITERS: dict[str, Callable[[Table], str]] = {"csv": to_csv, "md": to_markdown, "tex": to_latex}
