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
    """Write ``report.html``, ``figures/`` and ``tables/`` of one or several runs.

    Parameters
    ----------
    runs : sequence of Path, or Gathered
        Run folders, finished or not; or what `gather` found in them.
    out : Path, optional
        Folder of the report; that of the run where there is one run, else it must be given.
    figures : bool
        Draw the figures for papers, which takes longer than all the rest.
    drawn : callable, optional
        Told after each figure how many there are.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    FirthshotError
        In one sentence, where a folder cannot be reported or the report not be written.
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
