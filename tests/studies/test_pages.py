"""Tables of a page are made anew between their marks; the rest of the page stays."""

import pytest

from firthshot.errors import FirthshotError
from studies.pages import fill, fill_pages, marks

PAGE = """Text.
<!-- one -->
old
<!-- end of one -->
Between.
<!-- the other -->
older
oldest
<!-- end of the other -->
"""


def test_every_table_is_made_anew():
    made = fill(PAGE, lambda mark: [f"new {mark}"])
    assert marks(made) == marks(PAGE) == ["one", "the other"]
    assert made.splitlines()[2] == "new one"
    assert made.splitlines()[4:8] == [
        "Between.", "<!-- the other -->", "new the other", "<!-- end of the other -->"
    ]  # fmt: skip


def test_tables_that_are_not_given_stay(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    fill_pages(tmp_path, {"one": ["a", "b"]})
    assert page.read_text() == PAGE.replace("\nold\n", "\na\nb\n")
    with pytest.raises(FirthshotError, match="has marks for the table 'third'"):
        fill_pages(tmp_path, {"third": []})
