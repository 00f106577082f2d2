"""Write tables as CSV, Markdown and LaTeX with booktabs."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

from firthshot.errors import visible
from firthshot.experiments.summary.spreadsheets import harmless_cell
from firthshot.report.tables.cells import WIDTH, Table

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "λ": r"$\lambda$",
    "±": r"$\pm$",
    "−": r"$-$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "→": r"$\rightarrow$",
    "≤": r"$\leq$",
    "‖": r"$\Vert$",
    "ȳ": r"$\bar{y}$",
    "√": r"$\sqrt{}$",
    "…": r"\ldots{}",
    "–": "--",
    "’": "'",
}


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
    """Escape what Markdown would read as markup."""
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
    return "".join(_LATEX.get(sign, sign) for sign in visible(" ".join(text.split())))


WRITERS: dict[str, Callable[[Table], str]] = {"csv": to_csv, "md": to_markdown, "tex": to_latex}
