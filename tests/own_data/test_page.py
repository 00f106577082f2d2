"""The page of a fit, in text and in a real Chromium.

Screenshots are kept in ``build/screenshots``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

import firthshot
from firthshot.own_data import Embedder, Examples
from firthshot.own_data._fitting import fit_examples
from firthshot.own_data.assessment.doubts import leaking_columns, near_copies
from firthshot.own_data.page.views import Thumbnails
from report.chromium import Chromium, find_chromium

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
HOSTILE = "<script>alert(1)</script>\"'&"
needs_chromium = pytest.mark.skipif(
    find_chromium() is None,
    reason="there is no Chromium here: `make test` installs it for root on Debian",
)


def drawn(folder: Path, classes: int, each: int, side: int = 160) -> Examples:
    """Write pictures of coloured shapes, and return them with features that mix some classes."""
    rng = np.random.default_rng(0)
    ids, labels = [], []
    for k in range(classes):
        for number in range(each):
            path = folder / f"class-{k}" / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            picture = Image.fromarray(rng.integers(0, 255, (side, side, 3), np.uint8))
            ImageDraw.Draw(picture).ellipse((20, 20, 120, 120), fill=f"hsl({k * 36}, 80%, 50%)")
            picture.save(path, quality=90)
            ids.append(path.as_posix())
            labels.append(HOSTILE if k == 0 else f"class-{k}")
    centres = rng.normal(size=(classes, 200))
    X = np.repeat(centres, each, axis=0) + 2.6 * rng.normal(size=(classes * each, 200))
    X[1] = X[0] + 1e-3
    names = np.array(labels)
    names[[each + 1, 2 * each]] = names[[2 * each, each + 1]]  # two wrong labels
    return Examples(str(folder), X, names, ids=np.array(ids), id_name="picture", kind="image")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    examples = drawn(folder / "photos", 6, 8)
    file = folder / "page.html"
    fit_examples(examples, "auto", {}, Embedder()).report(file)
    return file


def test_names_are_escaped_and_nothing_is_loaded(page: Path) -> None:
    text = page.read_text("utf-8")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert not re.search(r'(?:src|href)="https?:', text)
    assert "default-src &#39;none&#39;" in text


def test_the_page_says_what_there_is_to_say(page: Path) -> None:
    text = page.read_text("utf-8")
    for words in (
        "of 100 new pictures will be right",
        "Labels that look wrong",
        "class-1/1.jpg",
        "data:image/jpeg;base64,",
        "<dt>compared</dt><dd>Fitted to fewer rows and tested on the rest: this head ",
        "fits without any of the rows listed here",
        "fits without the row itself, so a row that is also listed above has other ones here",
        "LogisticRegression()",
        "λ = 0",
        "rows per class",
        "Equal or nearly equal rows",
        "scikit-learn",
    ):
        assert words in text
    held = json.loads(
        text.split('<script id="cells" type="application/json">')[1].split("</script>")[0]
    )
    assert sum(map(len, held["rows"].values())) == 48


def test_a_page_of_200_pictures_is_small(tmp_path: Path) -> None:
    examples = drawn(tmp_path / "photos", 10, 20, side=400)
    model = fit_examples(examples, "auto", {}, Embedder())
    assert len(model.report()) < 3_000_000


def test_one_row_per_class_has_a_page_too() -> None:
    page = firthshot.fit(np.eye(3), ["a", "b", "c"]).report()
    assert "Every class has one row" in page
    assert "Which classes are mixed up" not in page


def test_texts_stand_on_the_page(intents: Path) -> None:
    page = firthshot.fit(intents).report()
    assert "<blockquote>" in page
    assert "of 100 new texts" in page


def test_near_copies_are_found_and_others_are_not() -> None:
    X = np.random.default_rng(0).normal(size=(30, 100))
    X[7] = 1.0001 * X[3] + 1e-4
    X[9] = X[4]
    labels = np.arange(30) % 3
    found = {(pair.one, pair.other): pair.torn for pair in near_copies(X, labels)}
    assert found == {(3, 7): labels[3] != labels[7], (4, 9): labels[4] != labels[9]}


def test_a_column_that_tells_all_classes_is_named() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 10)
    X = np.column_stack([rng.normal(size=30), 10.0 * labels + rng.random(30), labels % 2])
    assert leaking_columns(X, labels).tolist() == [1]
    assert leaking_columns(X[:15], labels[:15]).tolist() == []
    table = firthshot.fit(X, labels).report()
    assert "tells all classes apart by itself" in table


def test_a_file_that_is_no_picture_has_none(tmp_path: Path) -> None:
    (tmp_path / "no.png").write_bytes(b"no picture")
    assert Thumbnails().of(str(tmp_path / "no.png")) is None
    assert Thumbnails().of(str(tmp_path / "nothere.png")) is None


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    found = Chromium(find_chromium() or "")
    yield found
    found.close()


@needs_chromium
@pytest.mark.parametrize(
    ("width", "dark"), [(400, False), (400, True), (1200, False), (1200, True)]
)
def test_it_fits_both_widths_in_both_themes(
    browser: Chromium, page: Path, width: int, dark: bool
) -> None:
    browser.media(dark=dark)
    browser.resize(width, phone=width < 500)
    browser.open(page)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []
    assert [one for one in browser.requests() if not one.startswith(("file:", "data:"))] == []
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 200) is dark
    theme = "dark" if dark else "light"
    browser.screenshot(SCREENSHOTS / f"fit-{width}-{theme}.png")


@needs_chromium
def test_a_long_name_without_a_space_stays_on_a_phone(browser: Chromium, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(40, 80)) + 9 * np.repeat(np.eye(2, 80), 20, axis=0)
    labels = np.repeat(["one", "other"], 20)
    labels[3] = "other"  # it looks wrong, and is named in the answer
    names = np.array([f"photos/{'a_name_wider_than_a_phone_' * 3}{row}.jpg" for row in range(40)])
    examples = Examples("photos", X, labels, ids=names, id_name="picture", kind="image")
    model = fit_examples(examples, "auto", {}, Embedder())
    assert names[3].removeprefix("photos/") in model.report(tmp_path / "page.html")
    browser.resize(400, phone=True)
    browser.open(tmp_path / "page.html")
    assert browser.run("document.documentElement.scrollWidth") <= 400


@needs_chromium
def test_a_click_lists_the_rows_of_a_cell(browser: Chromium, page: Path) -> None:
    browser.media()
    browser.resize(1200)
    browser.open(page)
    shown = "document.querySelectorAll('#cell .look').length"
    assert browser.run(shown) == 0
    cell = "document.querySelector('.matrix .wrong button')"
    count = browser.run(f"Number({cell}.textContent)")
    browser.run(f"{cell}.click()")
    assert browser.run(shown) == count
    assert browser.run("document.querySelector('#cell img').naturalWidth") > 50
    assert browser.run(f"{cell}.getAttribute('aria-pressed')") == "true"
    browser.run(f"{cell}.click()")
    assert browser.run(shown) == 0


@needs_chromium
def test_a_click_sorts_the_classes(browser: Chromium, page: Path) -> None:
    browser.open(page)
    column = (
        "[...document.querySelectorAll('.sortable tbody tr')].map((r) => +r.cells[2].dataset.sort)"
    )
    browser.run("document.querySelectorAll('.sortable th')[2].click()")
    shares = browser.run(column)
    assert shares == sorted(shares)
    assert len(set(shares)) > 1
    browser.run("document.querySelectorAll('.sortable th')[2].click()")
    assert browser.run(column) == sorted(shares, reverse=True)
