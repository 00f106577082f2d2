"""Another library's error as part of a sentence of ours."""

import pickle

import pytest

from firthshot.errors import BankError, FirthshotError, listed, one_line, reason, visible

LETTERS = "Größe λ 漢字 e\u0301 👩\u200d🔬 a\u00a0b C:\\dir"  # all of these are shown


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x00\x7f\x9b", r"\u001b[2J\u0000\u007f\u009b"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\u202eevil\u2066\u2028\u2029\u200f\ufeff", r"\u202eevil\u2066\u2028\u2029\u200f\ufeff"),
        ("\udcff.bank", r"\udcff.bank"),
        (LETTERS, LETTERS),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(text, shown):
    assert visible(text) == visible(shown) == shown
    assert str(FirthshotError(f"Bank {text} is bad.")) == f"Bank {shown} is bad."


@pytest.mark.parametrize("name", ["x" * 100_000, "x y " * 25_000, "\x1b" * 100_000])
def test_a_long_name_is_cut_in_its_middle(name):
    said = str(BankError(f"Bank {name} is damaged: import it again."))
    assert len(said) <= 2000
    assert said.startswith("Bank ")
    assert said.endswith(" is damaged: import it again.")
    assert "…" in said
    assert one_line(said) == said


def test_an_error_travels_between_processes():
    error = BankError("a\x1bb")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (BankError, str(error))


def test_a_list_that_goes_on_ends_in_dots():
    assert listed([]) == ""
    assert listed(["a", 2]) == "a, 2"
    assert listed("abc", most=2) == "a, b, …"
