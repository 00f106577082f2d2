"""The documentation builds, and no page gives a warning."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OPTIONS = ["-b", "dummy", "-c", "docs", "-W", "--keep-going", "-q"]


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", *OPTIONS, "-d", tmp_path / "trees", ".", tmp_path]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (built.stderr, built.returncode) == ("", 0)


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/**/*.md")), ids=lambda path: path.name)
def test_no_page_is_longer_than_a_reader_scrolls(path):
    assert len(path.read_text("utf-8").splitlines()) <= 300
