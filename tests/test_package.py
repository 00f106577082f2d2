"""What the package promises before anything is computed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import firthshot

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "sklearn", "scipy.optimize", "matplotlib", "numba", "polars")


def command(*words):
    return (
        f"import sys; sys.argv = ['firthshot', *{words!r}]; import firthshot.cli\n"
        "try:\n    firthshot.cli.main()\nexcept SystemExit:\n    pass"
    )


@pytest.mark.parametrize(
    "code",
    [
        "import firthshot",
        "from firthshot.engine import registered_heads",
        command("--help"),
        command("presets"),
        command("validate", "quickstart"),
    ],
    ids=["import", "heads", "help", "presets", "validate"],
)
def test_nothing_heavy_is_imported(code):
    check = f"{code}\nimport sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_public_name_is_there():
    for name in firthshot.__all__:
        assert getattr(firthshot, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        firthshot.nonsense  # noqa: B018


def test_an_error_is_one_sentence_and_exit_code_two():
    command = [sys.executable, "-m", "firthshot", "bank", "info", "no-such-bank"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.strip().splitlines()) == 1
    debug = subprocess.run(
        [*command[:3], "--debug", *command[3:]], capture_output=True, text=True, check=False
    )
    assert "Traceback" in debug.stderr


def test_the_source_distribution_holds_what_its_tests_read():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    targets = settings["tool"]["hatch"]["build"]["targets"]
    shipped = {path.removeprefix("/") for path in targets["sdist"]["include"]}
    texts = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py")]
    place = r"""(?:ROOT|parents\[\d\]\)?) / "([\w.-]+)"""
    read = {name for text in texts for name in re.findall(place, text)}
    read |= {path.name for path in ROOT.glob("*.md")}
    # tests of banks/ are skipped without it; build/ is written to; pyproject.toml is always in
    assert read - shipped == {"banks", "build", "pyproject.toml"}
