"""Another library's error as part of a sentence of ours."""

import pytest

from firthshot.errors import reason


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
