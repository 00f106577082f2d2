"""Every command has a help screen of 80 columns, examples that it accepts, and a guide."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from firthshot.cli import app
from firthshot.cli._help import ALIASES, HELP

ROOT = Path(__file__).parents[2]
TOP = typer.main.get_command(app)


def find(name):
    command = TOP
    for word in name.split():
        command = command.commands[word]
    return command


def shown(name):
    result = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("name", HELP)
def test_examples_are_lines_that_the_command_accepts(name):
    command = find(name)
    for example in HELP[name]["examples"]:
        words = shlex.split(example.partition(" > ")[0])[len(name.split()) :]
        assert example.startswith(name)
        command.make_context(name, words)


@pytest.mark.parametrize("name", HELP)
def test_the_guide_is_there_and_the_help_ends_with_it(name):
    assert (ROOT / "docs" / HELP[name]["guide"]).exists()
    assert shown(name).rstrip().endswith(f"Guide: docs/{HELP[name]['guide']}")


@pytest.mark.parametrize("name", ["", "bank", "backbone", *HELP])
def test_help_fits_a_terminal_and_clips_nothing(name):
    output, command = shown(name), find(name)
    assert max(map(len, output.splitlines())) <= 80
    assert "<" not in output.replace(" > ", "")
    for one in command.params:
        if not getattr(one, "hidden", False):
            label = one.opts[0] if one.opts[0].startswith("--") else one.metavar or one.name.upper()
            assert re.search(rf"^ +\[?{re.escape(label)}", output, re.MULTILINE)


def test_a_flag_stands_alone_and_others_say_what_they_take():
    lines = {line.split()[0]: line for line in shown("fit").splitlines() if line.startswith("  --")}
    assert lines["--quiet"] == "  --quiet           Print warnings only."
    assert lines["--head"] == "  --head auto|linear|cosine|mlp"
    assert lines["--calibrate/--no-calibrate"].split() == ["--calibrate/--no-calibrate"]
    assert lines["--model"].startswith("  --model PATH ")
    assert "--seed N            " in shown("backbone train")
    assert "Default: 0." in shown("bank import")


@pytest.mark.parametrize("name", HELP)
def test_every_argument_and_option_is_described_once(name):
    texts = [HELP[name].get("arguments", {}), *HELP[name].get("options", {}).values()]
    named = [key.partition(" ")[0] for own in texts for key in own]
    assert sorted(named) == sorted(one.opts[0].removeprefix("--") for one in find(name).params)
    assert all(one.help for one in find(name).params)


def test_commands_stand_under_what_a_person_wants():
    output = shown("")
    assert output.index("Classify your own") < output.index("  fit ") < output.index("Find out")
    assert "  ls " not in shown("bank")  # a second name is not listed


@pytest.mark.parametrize(("old", "new"), ALIASES.items())
def test_two_names_mean_one_command(old, new):
    assert find(old).callback.__wrapped__ is find(new).callback.__wrapped__
    assert find(old).hidden
    assert not find(new).hidden
