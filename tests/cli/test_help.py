"""Every command has examples that it accepts, a guide that is there, and a place in a group."""

import shlex
from pathlib import Path

import pytest
import typer

from firthshot.cli import app
from firthshot.cli._help import ALIASES, HELP

ROOT = Path(__file__).parents[2]
TOP = typer.main.get_command(app)


def find(name):
    command = TOP
    for word in name.split():
        command = command.commands[word]
    return command


@pytest.mark.parametrize("name", HELP)
def test_examples_are_lines_that_the_command_accepts(name):
    command = find(name)
    for example in HELP[name].examples:
        words = shlex.split(example)[len(name.split()) :]
        assert example.startswith(name)
        if "--help" not in words:
            command.make_context(name, words)


@pytest.mark.parametrize("name", HELP)
def test_the_guide_is_there_and_the_epilog_names_it(name):
    assert (ROOT / "docs" / HELP[name].guide).exists()
    assert HELP[name].guide in find(name).epilog


@pytest.mark.parametrize(("old", "new"), ALIASES.items())
def test_two_names_mean_one_command(old, new):
    assert find(old).callback.__wrapped__ is find(new).callback.__wrapped__
    assert find(old).hidden
    assert not find(new).hidden
