"""Fill in the tables of the pages of studies/reproduction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from firthshot.errors import FirthshotError
from studies import pages
from studies.reproduction.agreement import agreement
from studies.reproduction.budget import budget
from studies.reproduction.compared import study_table
from studies.reproduction.figures import PICTURES, picture_lines
from studies.reproduction.kept import Kept
from studies.reproduction.overview import TABLES as OVERVIEW
from studies.reproduction.plan import FOLDER, read_plan
from studies.reproduction.questions import TABLES as QUESTIONS

Maker = Callable[[Kept], list[str]]
PAGES = tuple(sorted(FOLDER.glob("*.md")))


def makers() -> dict[str, Maker]:
    """Return what makes the content of each mark of the page."""
    studies = [study.name for study in read_plan() if study.banks]
    made: dict[str, Maker] = {f"study {name}": _study(name) for name in studies}
    made |= {f"picture {one.name}": partial(picture_lines, one) for one in PICTURES}
    return {**made, **OVERVIEW, **QUESTIONS, "agreement": agreement, "budget": budget}


def fill(text: str, kept: Kept) -> str:
    """Return a page with every table between marks made anew.

    Raises
    ------
    FirthshotError
        When the page has a mark that nothing makes.
    """
    known = makers()

    def make(mark: str) -> list[str]:
        if mark not in known:
            raise FirthshotError(f"The page has a mark {mark!r}, for which there is no table.")
        return known[mark](kept)

    return pages.fill(text, make)


def write_pages(kept: Path, folder: Path = FOLDER) -> None:
    """Write all pages into a folder, from the kept tables and the prose that they have here."""
    tables = Kept(kept)
    for page in PAGES:
        (folder / page.name).write_text(fill(page.read_text("utf-8"), tables), "utf-8")


def _study(name: str) -> Maker:
    return lambda kept: study_table(kept, name)
