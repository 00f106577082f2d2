"""Write a report: figures, tables, and the page that shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from firthshot.errors import FirthshotError
from firthshot.experiments.run.store import sweep
from firthshot.files import write_whole, writing_to
from firthshot.report.gather import Gathered, gather
from firthshot.report.page.render import render
from firthshot.report.plots import write_figures
from firthshot.report.tables import make_tables, write_tables


def write_report(
    runs: Sequence[Path] | Gathered,
    out: Path | None = None,
    *,
    figures: bool = True,
    drawn: Callable[[int], None] | None = None,
) -> Path:
    """Write ``report.html``, ``figures/`` and ``tables/`` of run folders; return the page.

    ``out`` is the folder of the report: that of the run where there is one. Figures for papers take
    longer than all the rest; ``drawn`` is told after each of them how many there are.
    """
    gathered = runs if isinstance(runs, Gathered) else gather(runs)
    if out is None and len(gathered.runs) > 1:
        raise FirthshotError("A report of several runs needs a folder of its own: name one.", "out")
    target = out or gathered.runs[0].path
    sweep(target)
    pictures = write_figures(gathered, target / "figures", drawn) if figures else []
    tables = make_tables(gathered)
    write_tables(tables, target / "tables")
    html = render(gathered, pictures, tables)
    with writing_to(target):
        target.mkdir(parents=True, exist_ok=True)
        write_whole(target / "report.html", html.encode())
    return target / "report.html"
