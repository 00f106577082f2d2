"""The pieces that commands put on the screen."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import firthshot.cli
from firthshot.cli._screen import (
    echo,
    echo_data,
    facts,
    pair,
    plain,
    say,
    screen,
    table,
    with_options,
)
from firthshot.errors import Advice, FirthshotError

CLI = Path(firthshot.cli.__file__).parent


def shown(what, width=40):
    console = Console(file=io.StringIO(), width=width)
    console.print(what)
    return console.file.getvalue()


def test_text_of_files_is_neither_markup_nor_control():
    assert shown(plain("[red]a\x1b[31m")) == "[red]a\\u001b[31m\n"
    assert shown(facts({"[b]name": "[i]words", "k": "v"})).splitlines()[0].split() == [
        "[b]name",
        "[i]words",
    ]


CONTROLS = "\x1b[2J\x9b31m\x7f\u202e\u2028\udcff"
SHOWN = r"\u001b[2J\u009b31m\u007f\u202e\u2028\udcff"


def test_a_screen_obeys_no_name():
    out = io.StringIO()
    console = screen(file=out, width=90, force_terminal=True, color_system="standard")
    made = table("[b]column", f"x{CONTROLS}")
    made.add_row(f"[red]cell[/red] :smile: {CONTROLS}", "1")
    console.print(made)
    console.print(f"[bold]line {CONTROLS}")
    say(console, f"[bold]said {CONTROLS}\n{CONTROLS}")
    told = out.getvalue()
    for kept in ("[b]column", "[red]cell[/red] :smile:", f"[bold]line {SHOWN}"):
        assert kept in told
    assert rf"[bold]said {SHOWN}\n{SHOWN}" in told
    own = re.sub(r"\x1b\[[0-9;]*m", "", told)  # colours of the table itself
    assert own.isprintable() or set(filter(lambda c: not c.isprintable(), own)) == {"\n"}


def test_echo_escapes_names_and_keeps_data(capsys, monkeypatch):
    echo(f"a {CONTROLS}\n", err=True)
    assert capsys.readouterr().err == rf"a {SHOWN}\n" + "\n"
    data = '{"label": "\x9b31m"}\n{"label": "b"}\n'
    echo_data(data)
    assert capsys.readouterr().out == data
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    echo_data(data)
    told = capsys.readouterr().out
    assert "\x9b" not in told
    assert [json.loads(line)["label"] for line in told.splitlines()] == ["\x9b31m", "b"]


def test_commands_print_through_the_screen_only():
    """One mechanism: what goes past it could carry control characters of somebody's file."""
    ours = [path for path in CLI.glob("*.py") if path.name != "_screen.py"]
    assert len(ours) > 15
    past = re.compile(
        r"typer\.echo|click\.echo|(?<![\w.])print\(|Console\(|sys\.std(out|err)\.write"
    )
    assert [path.name for path in ours if past.search(path.read_text("utf-8"))] == []


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
    ("arguments", "end"),
    [
        ((), "mend it."),
        (("label",), "mend it (--label)."),
        (("class_weight=none",), "mend it (--class-weight none)."),
        (("drop=my age", "id"), "mend it (--drop 'my age', --id)."),
    ],
)
def test_a_command_adds_its_options_to_a_sentence(arguments, end):
    for sentence in (FirthshotError("x: mend it.", *arguments), Advice("x: mend it.", *arguments)):
        assert with_options(sentence) == f"x: {end}"
        assert str(sentence) == "x: mend it."


def test_the_command_line_names_the_option(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    command = [sys.executable, "-m", "firthshot", "fit", "t.csv", "--model", "m.firth"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert told.stderr.endswith("Name the column of the classes (--label).\n")
