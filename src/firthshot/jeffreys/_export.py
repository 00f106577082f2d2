"""The table of a summary in Markdown, LaTeX and HTML."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    "χ²": r"$\chi^2$", "∞": r"$\infty$", "–": "--", "τ": r"$\tau$", "½": r"$\frac12$",
    "±": r"$\pm$", **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip
_SPECIAL = re.compile("|".join(map(re.escape, _LATEX)))
_NEGATIVE = re.compile(r"^-(?=[\d∞])")


def to_markdown(titles: Sequence[str], rows: Sequence[Sequence[str]], names: int) -> str:
    """Return a table in Markdown; the first columns, as many as ``names``, are text."""
    marks = ["---" if k < names else "---:" for k in range(len(titles))]
    lines = [[text.replace("|", "\\|") for text in line] for line in (titles, *rows)]
    lines.insert(1, marks)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def to_latex(titles: Sequence[str], rows: Sequence[Sequence[str]], names: int) -> str:
    """Return a tabular with the rules of the LaTeX package booktabs."""
    columns = "l" * names + "r" * (len(titles) - names)
    head, *body = (" & ".join(map(_in_latex, line)) + r" \\" for line in (titles, *rows))
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _in_latex(text: str) -> str:
    sign, rest = ("$-$", text[1:]) if _NEGATIVE.match(text) else ("", text)
    return sign + _SPECIAL.sub(lambda found: _LATEX[found[0]], rest)


def to_html(
    head: Sequence[str],
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str],
    names: int,
) -> str:
    """Return lines above, a table and notes below; every text is escaped."""

    def line(tag: str, texts: Sequence[str]) -> str:
        sides = ["left" if k < names else "right" for k in range(len(texts))]
        cells = zip(sides, texts, strict=True)
        made = (f'<{tag} style="text-align:{side}">{escape(text)}</{tag}>' for side, text in cells)
        return f"<tr>{''.join(made)}</tr>"

    above = "<br>".join(map(escape, head))
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    body = "".join(line("td", row) for row in rows)
    return (
        f"<p>{above}</p><table><thead>{line('th', titles)}</thead><tbody>{body}</tbody></table>"
        f"{below}"
    )
