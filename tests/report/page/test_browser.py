"""The page in a real Chromium: charts, controls, sorting, themes, phone, print.

Screenshots are kept in ``build/screenshots``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firthshot.report.gather import gather
from firthshot.report.page.render import render
from firthshot.report.plots import FigureFile
from firthshot.report.tables import make_tables
from report.chromium import Chromium, find_chromium
from report.runs_made import HOSTILE, toy_run

SCREENSHOTS = Path(__file__).parents[3] / "build" / "screenshots"
CHARTS = ("improvement", "path", "tradeoff", "reliability", "differences", "contrasts")
pytestmark = pytest.mark.skipif(
    find_chromium() is None,
    reason="there is no Chromium here: `make test` installs it for root on Debian",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page with everything on it: two heads, two penalties, unequal shots, a picture."""
    folder = tmp_path_factory.mktemp("browser")
    run = toy_run(
        folder,
        bank={"name": HOSTILE},
        heads=["linear", "cosine"],
        penalties=["firth", "l2"],
        shots=[1, 2, 3, 4, 5, "dirichlet-3"],  # a wide grid of tiles
        trials=20,
    )
    picture = folder / "rope.svg"
    picture.write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 6"></svg>')
    gathered = gather([run])
    figures = [FigureFile("rope", "A rope", "A caption.", {"svg": picture})]
    file = folder / "report.html"
    file.write_text(render(gathered, figures, make_tables(gathered)), "utf-8")
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    found = Chromium(find_chromium() or "")
    yield found
    found.close()


@pytest.fixture
def opened(browser: Chromium, page: Path) -> Chromium:
    browser.media()
    browser.resize(1200)
    browser.open(page)
    browser.run("localStorage.clear()")
    return browser


def test_pictures_are_there_before_anybody_scrolls(opened: Chromium) -> None:
    """They are part of the page: loaded late, they would move what is below them, or not print."""
    opened.wait("document.querySelector('#pictures img').offsetHeight > 100")


def marks(browser: Chromium, chart: str) -> list[str]:
    """Return where the marks of a chart are."""
    query = f"#chart-{chart} svg .role-mark path, #chart-{chart} svg .role-mark line"
    found: list[str] = browser.run(
        f"[...document.querySelectorAll('{query}')]"
        ".map((mark) => mark.getAttribute('d') + mark.getAttribute('transform'))"
    )
    return found


def drawn(browser: Chromium, chart: str) -> str:
    text: str = browser.run(f"document.getElementById('chart-{chart}').innerHTML")
    return text


def test_charts_are_drawn_and_nothing_complains(opened: Chromium, page: Path) -> None:
    for chart in CHARTS:
        assert len(marks(opened, chart)) >= 3, chart
    assert opened.complaints() == []
    assert [url for url in opened.requests() if not url.startswith(("data:", "blob:"))] == [
        page.as_uri()
    ]


def test_a_script_in_a_name_stays_text(opened: Chromium) -> None:
    assert opened.run("document.querySelectorAll('script:not([type])').length") == 0
    assert HOSTILE in opened.run("document.body.innerText")
    assert opened.run("[...document.querySelectorAll('#bank option')][0].textContent") == HOSTILE


def test_markup_that_slips_in_does_not_run(opened: Chromium) -> None:
    """The policy of the page refuses scripts that are not ours."""
    opened.run(
        "(() => { const s = document.createElement('script');"
        "s.textContent = 'window.slipped = 1'; document.body.append(s); })()"
    )
    assert opened.run("window.slipped === undefined")


@pytest.mark.parametrize(
    ("control", "value", "chart"),
    [
        ("metric", "nll", "improvement"),
        ("metric", "base_accuracy", "improvement"),
        ("value", "theory", "improvement"),
        ("axis", "ways", "improvement"),
        ("head-all", "cosine", "improvement"),
        ("penalty-all", "L2", "improvement"),
        ("path-metric", "ece_pooled", "path"),
        ("split", "novel", "path"),
        ("loss", "nll", "tradeoff"),
    ],
)
def test_controls_change_the_chart(opened: Chromium, control: str, value: str, chart: str) -> None:
    before = drawn(opened, chart)
    opened.choose(control, value)
    opened.wait(f"document.getElementById('chart-{chart}').innerHTML !== {json.dumps(before)}")
    assert opened.run(f"document.getElementById('{control}').value") == value
    assert len(marks(opened, chart)) >= 3
    assert opened.complaints() == []


def test_the_detail_follows_method_and_setting(opened: Chromium) -> None:
    for control, charts in (
        ("head", ("path", "tradeoff", "contrasts")),
        ("ways", ("path", "reliability")),
        ("shots", ("path", "tradeoff", "reliability")),
    ):
        options: list[str] = opened.run(
            f"[...document.querySelectorAll('#{control} option')].map((o) => o.value)"
        )
        current = opened.run(f"document.getElementById('{control}').value")
        before = {chart: drawn(opened, chart) for chart in charts}
        opened.choose(control, next(option for option in options if option != current))
        for chart in charts:
            was = json.dumps(before[chart])
            opened.wait(f"document.getElementById('chart-{chart}').innerHTML !== {was}")
    assert opened.complaints() == []


def test_hovering_tells_interval_and_counts(opened: Chromium) -> None:
    opened.run(
        "document.getElementById('chart-improvement').scrollIntoView("
        "{block: 'center', behavior: 'instant'})"
    )
    place: dict[str, Any] = opened.run(
        "(() => { const all = document.querySelectorAll("
        "'#chart-improvement .mark-symbol.role-mark path');"
        "const box = all[0].getBoundingClientRect();"
        "return {x: box.x + box.width / 2, y: box.y + box.height / 2}; })()"
    )
    opened.call("Input.dispatchMouseEvent", type="mouseMoved", **place)
    opened.wait("document.querySelector('#vg-tooltip-element.visible') !== null")
    text = opened.run("document.getElementById('vg-tooltip-element').innerText")
    for words in ("±", "Trials", "20", "Interval over classes", "p (Holm)", "λ"):
        assert words in text


def test_tables_sort_up_and_down(opened: Chromium) -> None:
    column = (
        "[...document.querySelectorAll('#tables .sortable')[0].tBodies[0].rows]"
        ".map((row) => Number(row.cells[{at}].dataset.sort))"
    )
    at = opened.run(
        "[...document.querySelectorAll('#tables .sortable')[0].tHead.rows[0].cells]"
        ".findIndex((cell) => cell.textContent.trim() === 'Before')"
    )
    click = f"document.querySelectorAll('#tables .sortable')[0].tHead.rows[0].cells[{at}]"
    for order, word in ((False, "ascending"), (True, "descending")):
        opened.run(f"{click}.querySelector('button').click()")
        values = opened.run(column.format(at=at))
        assert values == sorted(values, reverse=order)
        assert opened.run(f"{click}.getAttribute('aria-sort')") == word
    assert len(set(values)) > 1


def test_a_download_unpacks_to_the_table(opened: Chromium) -> None:
    text = opened.run(
        "(async () => { const packed = document.getElementById('file-chosen').textContent;"
        "let seen; const make = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { seen = blob; return make(blob); };"
        "HTMLAnchorElement.prototype.click = function () {};"
        "document.querySelector('[data-download=file-chosen]').click();"
        "while (!seen) await new Promise((go) => setTimeout(go, 20));"
        "return seen.text(); })()"
    )
    assert text.startswith("bank,dataset,backbone")
    assert text.count("\n") > 10


def test_dark_by_wish_and_by_button(browser: Chromium, page: Path) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    browser.resize(1200)
    browser.media(dark=False)
    browser.open(page)
    browser.run("localStorage.clear()")
    light = browser.run(colour)
    first = browser.run(
        "getComputedStyle(document.querySelector('#chart-path .mark-line path')).stroke"
    )
    browser.run("document.getElementById('theme').click()")
    dark = browser.run(colour)
    assert dark != light
    assert browser.run("document.getElementById('theme').getAttribute('aria-pressed')") == "true"
    browser.run("document.getElementById('theme').click()")
    assert browser.run(colour) == light
    browser.run("localStorage.clear()")
    browser.media(dark=True)
    browser.open(page)
    assert browser.run(colour) == dark
    second = browser.run(
        "getComputedStyle(document.querySelector('#chart-path .mark-line path')).stroke"
    )
    assert first != second  # the first series has its own blue in the dark
    ink = "getComputedStyle(document.querySelector('#chart-path text')).fill"
    darkened = browser.run(ink)
    browser.media(dark=False)
    assert browser.run(ink) != darkened  # charts follow without being drawn again


@pytest.mark.parametrize("width", [360, 768])
def test_narrow_pages_do_not_scroll_sideways(browser: Chromium, page: Path, width: int) -> None:
    browser.media()
    browser.resize(width, 800, phone=width < 500)
    browser.open(page)
    assert browser.run("document.documentElement.scrollWidth") <= width
    for chart in CHARTS:
        wide = f"document.querySelector('#chart-{chart} svg').getBoundingClientRect().width"
        assert 100 < browser.run(wide) <= width
    assert browser.complaints() == []


def test_printing(opened: Chromium) -> None:
    content = opened.print(SCREENSHOTS / "report.pdf")
    assert content.startswith(b"%PDF")
    opened.media(dark=True, kind="print")
    paper = opened.run("getComputedStyle(document.documentElement).getPropertyValue('--paper')")
    assert paper.strip() == "#fdfcf9"  # print is light, whatever the reader prefers
    assert opened.run("getComputedStyle(document.querySelector('.controls')).display") == "none"


def test_everything_can_be_reached_by_keyboard_and_name(opened: Chromium) -> None:
    unnamed = opened.run(
        "[...document.querySelectorAll('select, button, img')].filter((part) =>"
        "!(part.labels?.length || part.textContent.trim() || part.alt)).length"
    )
    assert unnamed == 0
    assert opened.run("document.querySelectorAll('h1').length") == 1
    assert opened.run("[...document.querySelectorAll('table')].every((t) => t.tHead)")
    targets = "[...document.querySelectorAll('nav a')].every((a) => document.querySelector(a.hash))"
    assert opened.run(targets)


@pytest.mark.parametrize(
    ("name", "width", "dark"),
    [("light", 1200, False), ("dark", 1200, True), ("phone", 360, False)],
)
def test_screenshots(browser: Chromium, page: Path, name: str, width: int, dark: bool) -> None:
    browser.media(dark=dark)
    browser.resize(width, 900, phone=width < 500)
    browser.open(page)
    height = browser.run("document.documentElement.scrollHeight")
    browser.resize(width, min(height, 9000), phone=width < 500)
    file = SCREENSHOTS / f"report-{name}.png"
    browser.screenshot(file)
    assert file.stat().st_size > 20_000
