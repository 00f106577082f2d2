"""The pieces that commands put on the screen."""

import io

import pytest
from rich.console import Console

from firthshot.cli._screen import Bar, facts, pair, plain, say, table


def shown(what, width=40):
    console = Console(file=io.StringIO(), width=width)
    console.print(what)
    return console.file.getvalue()


def test_text_of_files_is_neither_markup_nor_control():
    assert shown(plain("[red]a\x1b[31m")) == "[red]a\N{REPLACEMENT CHARACTER}[31m\n"
    assert shown(facts({"[b]name": "[i]words", "k": "v"})).splitlines()[0].split() == [
        "[b]name",
        "[i]words",
    ]


def test_a_long_sentence_stays_in_its_column():
    lines = shown(pair(plain("warning"), plain("word " * 12), 10)).splitlines()
    assert len(lines) > 1
    assert all(line.startswith(" " * 11) for line in lines[1:])


@pytest.mark.parametrize("one_line", [True, False])
def test_a_table_shortens_or_wraps(one_line):
    made = table("name", "b", right=("b",), one_line=one_line)
    made.add_row("one two three", "1")
    output = shown(made, 14)
    assert ("…" in output) is one_line
    assert ("three" in output) is not one_line


def test_a_line_is_not_broken():
    console = Console(file=io.StringIO(), width=20)
    say(console, "/a/long/path" * 5 + " [x]")
    assert console.file.getvalue() == "/a/long/path" * 5 + " [x]\n"


@pytest.mark.parametrize(
    ("options", "words"), [({"force_terminal": True}, True), ({}, False), ({"quiet": True}, False)]
)
def test_a_bar_is_for_terminals(options, words):
    console = Console(file=io.StringIO(), width=60, **options)
    bar = Bar(console)
    bar.start()
    bar.move(1, 2, "1 of 2 [things]")
    bar.stop()
    assert ("50 %" in console.file.getvalue()) is words
    assert ("[things]" in console.file.getvalue()) is words
    assert words or not console.file.getvalue()
