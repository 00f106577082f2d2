"""Run the examples of the tutorials and keep the pictures that they write in docs/images."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]


def run_examples(page: Path, folder: Path) -> None:
    """Run the examples of a page in a folder, from top to bottom."""
    names: dict[str, object] = {}
    with contextlib.chdir(folder):
        for example in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
            exec(compile(example, page.name, "exec"), names)


def main() -> None:
    pages = sys.argv[1:] or [page.stem for page in (ROOT / "docs/tutorials").glob("*.md")]
    for name in pages:
        page = ROOT / f"docs/tutorials/{name}.md"
        with TemporaryDirectory() as folder:
            run_examples(page, Path(folder))
            for picture in Path(folder).glob("*.png"):
                if f"images/{picture.name})" in page.read_text("utf-8"):
                    shutil.copy(picture, ROOT / "docs/images")
                    print(f"{page.name}: docs/images/{picture.name}")


if __name__ == "__main__":
    main()
