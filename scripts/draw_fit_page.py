"""Draw docs/images/fit-page.png and fit-charts.png: the page of a fit, in a real browser.

The fit is that of examples/tickets.csv, in which two labels are made wrong.
"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

import firthshot

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))

from report.chromium import Chromium, find_chromium  # noqa: E402

WRONG = {
    "How do I get a refund for last week?": "sales",
    "Is there a trial of the business version?": "technical",
}
WIDTH, SHOWN = 1200, 900


def write_page(folder: Path) -> Path:
    """Fit the examples, two of them with wrong labels, and write the page."""
    with (ROOT / "examples/tickets.csv").open(encoding="utf-8", newline="") as file:
        rows = [(row["text"], WRONG.get(row["text"], row["team"])) for row in csv.DictReader(file)]
    source = folder / "tickets.csv"
    with source.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "team"), *rows])
    page = folder / "tickets.html"
    firthshot.fit(str(source), text="text", label="team").report(page)
    shown = page.read_text("utf-8").replace(f"{folder}/", "")
    page.write_text(shown, encoding="utf-8")
    return page


def cut(browser: Chromium, first: str, last: str, folder: Path) -> Image.Image:
    """Return the page from the top of one element to the bottom of another."""
    places = f"[{first}.getBoundingClientRect().top, {last}.getBoundingClientRect().bottom]"
    top, bottom = browser.run(f"{places}.map(y => Math.round(y + window.scrollY))")
    browser.screenshot(folder / "whole.png")
    whole = Image.open(io.BytesIO((folder / "whole.png").read_bytes()))
    part = whole.crop((0, max(top - 12, 0), WIDTH, min(bottom + 12, whole.height)))
    return part.resize((SHOWN, part.height * SHOWN // WIDTH), Image.Resampling.LANCZOS)


def main() -> None:
    program = find_chromium()
    if program is None:
        raise SystemExit("No Chromium was found: install chromium.")
    browser = Chromium(program)
    try:
        with TemporaryDirectory() as name:
            folder = Path(name)
            browser.media()
            browser.resize(WIDTH)
            browser.open(write_page(folder))
            browser.run("document.querySelector('.matrix .wrong button').click()")
            doubts = "document.querySelector('#look .looks')"
            images = ROOT / "docs/images"
            cut(browser, "document.body", doubts, folder).save(images / "fit-page.png")
            charts = ("document.querySelector('.pair')", "document.querySelector('#others')")
            cut(browser, *charts, folder).save(images / "fit-charts.png")
    finally:
        browser.close()


if __name__ == "__main__":
    main()
