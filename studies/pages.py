"""The tables of a study's page, which stand between marks and are made anew from its results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from firthshot.errors import FirthshotError

_MARK = re.compile(r"<!-- ([\w -]+) -->\n.*?<!-- end of \1 -->", re.DOTALL)


def marks(text: str) -> list[str]:
    """Return the names of the tables of a page, in their order."""
    return [found[1] for found in _MARK.finditer(text)]


def fill(text: str, make: Callable[[str], Sequence[str]]) -> str:
    """Return a page with the lines between its marks made anew, table by table."""

    def made(found: re.Match[str]) -> str:
        lines = "\n".join(make(found[1]))
        return f"<!-- {found[1]} -->\n{lines}\n<!-- end of {found[1]} -->"

    return _MARK.sub(made, text)


def fill_page(page: Path, tables: Mapping[str, Sequence[str]]) -> None:
    """Write some tables into a page; its others stay.

    Raises
    ------
    FirthshotError
        When the page has no mark for one of the tables.
    """
    text = page.read_text("utf-8")
    lost = [name for name in tables if name not in marks(text)]
    if lost:
        raise FirthshotError(f"{page} has no marks for the table {lost[0]!r}: add them.")
    old = {found[1]: found[0].splitlines()[1:-1] for found in _MARK.finditer(text)}
    page.write_text(fill(text, lambda mark: tables.get(mark, old[mark])), "utf-8")
