"""Every Python example of README and docs runs as printed; whatever they name is there."""

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest
import typer

from firthshot.cli import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("studies/*/*.md")])
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in DOCUMENTS}
# Each with what it prints, where a block of text right below says so.
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n?```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
EXAMPLES = {name: EXAMPLE.findall(text) for name, text in TEXTS.items()}
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
SHELL = ("", "sh", "bash", "console")  # languages of fences that may hold commands
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def anchors(text):
    """Return the anchors that GitHub gives to the headings of a page."""
    found, seen = set(), Counter()
    for heading in re.findall(r"^#+ +(.+?) *$", FENCED.sub("", text), re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)  # of a link its words alone
        slug = re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def commands(text):
    """Return what may be a command: inline code, and lines of shell without their comments."""
    blocks = [body for language, body in FENCED.findall(text) if language in SHELL]
    lines = [line.partition(" #")[0] for block in blocks for line in block.splitlines()]
    return [code.strip() for code in (*lines, *re.findall(r"`([^`\n]+)`", FENCED.sub("", text)))]


def lost_anchors(name, text):
    """Return the links to headings that their page does not have."""
    lost = []
    for page, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", FENCED.sub("", text)):
        if "://" not in page:
            there = (ROOT / name).parent.joinpath(page).read_text("utf-8") if page else text
            if anchor not in anchors(there):
                lost.append(f"{page}#{anchor}")
    return lost


def lost_paths(_, text):
    """Return the scripts and tests that are named and not there."""
    paths = re.findall(r"(?<![\w/])(?:scripts|studies)/[\w./-]*\w", text)
    paths += [path for code in commands(text) for path in re.findall(r"\btests/[\w./-]*\w", code)]
    return [path for path in paths if not (ROOT / path).exists()]


def lost_targets(_, text):
    """Return the targets of make that the Makefile does not have."""
    asked = [re.match(r"(?:\$ )?make ([a-z][\w-]*)", code) for code in commands(text)]
    return [found[1] for found in asked if found and found[1] not in TARGETS]


def lost_subcommands(_, text):
    """Return the commands of firthshot that its command line does not have."""
    tops = typer.main.get_command(app).commands
    lost = []
    for code in commands(text):
        for name, second in re.findall(r"(?:^|[\s/])firthshot ([a-z][\w-]*) ?([a-z]\w*)?", code):
            known = getattr(tops.get(name), "commands", None)  # None: a command without any below
            if name not in tops or (second and known is not None and second not in known):
                lost.append(f"{name} {second}".strip())
    return lost


CHECKS = [lost_anchors, lost_paths, lost_targets, lost_subcommands]


@pytest.mark.parametrize("name", [name for name, examples in EXAMPLES.items() if examples])
def test_examples_run_from_top_to_bottom(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for number, (example, output) in enumerate(EXAMPLES[name], start=1):
        exec(compile(example, f"{name}, example {number}", "exec"), names)
        printed = capsys.readouterr().out.strip()
        assert printed == output.strip() or not output
        assert printed or "print(" not in example


@pytest.mark.parametrize("name", TEXTS)
def test_every_file_that_a_document_links_to_is_there(name):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", TEXTS[name])
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (ROOT / name).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("lost", CHECKS)
def test_everything_that_a_document_names_is_there(lost, name):
    assert lost(name, TEXTS[name]) == []


NAMING = """
# What λ = K/2 is, `lam` and [so](on.md)
## Twice
## Twice
[a](#what-λ--k2-is-lam-and-so) [b](#twice-1) [c](#twice-2) [d](docs/engine.md#nothing)
`make test`, make nothing, `python scripts/check_wheel.py`, scripts/removed.py.
`pytest tests/engine -k one`, `pytest -s tests/removed.py`, `firthshot bank LIST`
```
# no heading
make demo        # make nothing
make cake
firthshot run cosine --set shots=[1]
.venv/bin/firthshot bank ls && firthshot bank lists
firthshot ride
```
```python
from firthshot import load_bank
```
"""


@pytest.mark.parametrize(
    ("lost", "found"),
    [
        (lost_anchors, ["#twice-2", "docs/engine.md#nothing"]),
        (lost_paths, ["scripts/removed.py", "tests/removed.py"]),
        (lost_targets, ["cake"]),
        (lost_subcommands, ["bank lists", "ride"]),
    ],
)
def test_what_is_not_there_is_found(lost, found):
    assert lost("README.md", NAMING) == found


@pytest.mark.parametrize(
    "dotted", sorted(set(re.findall(r"`(firthshot\.[\w.]+)`", TEXTS["docs/notation.md"])))
)
def test_every_name_in_the_notation_is_in_the_code(dotted):
    home, _, attribute = dotted.rpartition(".")
    assert hasattr(importlib.import_module(home), attribute)


def test_every_preset_in_the_notation_is_there_and_none_is_left_out():
    section = TEXTS["docs/notation.md"].partition("## Figures and tables")[2]
    named = set(re.findall(r"`([\w-]+)`", section))
    presets = {
        path.stem for path in (ROOT / "src/firthshot/experiments/spec/presets").glob("*.toml")
    }
    assert named == presets - {"quickstart", "rivals"}  # the two that no figure of the paper has
