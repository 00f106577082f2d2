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


def fill_pages(folder: Path, tables: Mapping[str, Sequence[str]]) -> None:
    """Write some tables into the pages of a folder; their others stay.

    Raises
    ------
    FirthshotError
        When no page has a mark for one of the tables.
    """
    texts = {page: page.read_text("utf-8") for page in sorted(folder.glob("*.md"))}
    known = {mark for text in texts.values() for mark in marks(text)}
    lost = [name for name in tables if name not in known]
    if lost:
        raise FirthshotError(f"No page of {folder} has marks for the table {lost[0]!r}: add them.")
    for page, text in texts.items():
        old = {found[1]: found[0].splitlines()[1:-1] for found in _MARK.finditer(text)}
        made = fill(text, lambda mark, old=old: tables.get(mark, old[mark]))  # type: ignore[misc]
        if made != text:
            page.write_text(made, "utf-8")
