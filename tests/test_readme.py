"""Every Python example of the README runs as printed."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example_runs(number, capsys):
    exec(compile(EXAMPLES[number], f"README example {number + 1}", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_every_document_that_the_readme_names_is_there():
    links = re.findall(r"\]\(([^)]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []
