"""Every Python example of README and docs runs as printed; every link and code name leads on."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in DOCUMENTS}
EXAMPLES = {
    name: re.findall(r"```python\n(.*?)```", text, re.DOTALL) for name, text in TEXTS.items()
}


@pytest.mark.parametrize("name", [name for name, examples in EXAMPLES.items() if examples])
def test_examples_run_from_top_to_bottom(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for number, example in enumerate(EXAMPLES[name], start=1):
        exec(compile(example, f"{name}, example {number}", "exec"), names)
    assert capsys.readouterr().out.strip() or "print(" not in "".join(EXAMPLES[name])


@pytest.mark.parametrize("name", TEXTS)
def test_every_file_that_a_document_links_to_is_there(name):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", TEXTS[name])
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (ROOT / name).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize(
    "dotted", sorted(set(re.findall(r"`(firthshot\.[\w.]+)`", TEXTS["docs/notation.md"])))
)
def test_every_name_in_the_notation_is_in_the_code(dotted):
    home, _, attribute = dotted.rpartition(".")
    assert hasattr(importlib.import_module(home), attribute)


def test_every_preset_in_the_notation_is_there_and_none_is_left_out():
    section = TEXTS["docs/notation.md"].partition("## Figures and tables")[2]
    named = set(re.findall(r"`([\w-]+)`", section))
    presets = {path.stem for path in (ROOT / "src/firthshot/experiments/presets").glob("*.toml")}
    assert named == presets - {"quickstart"}
