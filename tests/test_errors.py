"""Another library's error as part of a sentence of ours."""

import pytest

from firthshot.errors import listed, reason


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("two  lines\n of words."), "two lines of words"),
        (RuntimeError(""), "RuntimeError"),
        (OSError("..."), "OSError"),
        (KeyError("x"), "'x'"),
        (ValueError("a" * 300), "a" * 200),
    ],
)
def test_a_reason_is_one_line_and_never_empty(error, words):
    assert reason(error) == words


def test_a_list_that_goes_on_ends_in_dots():
    assert listed([]) == ""
    assert listed(["a", 2]) == "a, 2"
    assert listed("abc", most=2) == "a, b, …"
