"""How to cite, as in CITATION.cff (which does not travel in the wheel)."""

from __future__ import annotations

from firthshot import __version__

PAPER_TITLE = "On the Importance of Firth Bias Reduction in Few-Shot Classification"
PAPER_AUTHORS = (
    ("Ghaffari", "Saba"),
    ("Saleh", "Ehsan"),
    ("Forsyth", "David"),
    ("Wang", "Yu-Xiong"),
)
PAPER_YEAR = 2022
PAPER_VENUE = "International Conference on Learning Representations (ICLR)"
SOFTWARE_AUTHOR = "The firthshot developers"


def citations() -> list[dict[str, str]]:
    """Return the package and the paper, each as a sentence and as BibTeX."""
    names = ", ".join(f"{given} {family}" for family, given in PAPER_AUTHORS)
    authors = " and ".join(f"{family}, {given}" for family, given in PAPER_AUTHORS)
    software = {"title": "firthshot", "author": f"{{{SOFTWARE_AUTHOR}}}", "version": __version__}
    paper = {"title": PAPER_TITLE, "author": authors, "booktitle": PAPER_VENUE}
    paper["year"] = str(PAPER_YEAR)
    told = {
        f"{SOFTWARE_AUTHOR}. firthshot, version {__version__}.": _bibtex(
            "software", "firthshot", software
        ),
        f"The method: {names}. {PAPER_TITLE}. {PAPER_VENUE}, {PAPER_YEAR}.": _bibtex(
            "inproceedings", f"ghaffari{PAPER_YEAR}firth", paper
        ),
    }
    return [{"text": text, "bibtex": bibtex} for text, bibtex in told.items()]


def _bibtex(kind: str, key: str, fields: dict[str, str]) -> str:
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])
