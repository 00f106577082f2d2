"""What a report wrote into a folder: so that a later report leaves nothing of it behind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from firthshot.files import write_whole, writing_to

LISTING = "contents.json"


def write_listing(folder: Path, words: dict[str, str], files: Sequence[str]) -> None:
    """Record titles with captions, and files; remove the files of an earlier report of the folder.

    Only what the earlier record lists is removed: a figure that no longer has data, for example.
    """
    with writing_to(folder):
        for name in set(_recorded(folder)) - set(files):
            (folder / name).unlink(missing_ok=True)
        if not files:
            (folder / LISTING).unlink(missing_ok=True)
            return
        record = {"captions": words, "files": sorted(files)}
        text = json.dumps(record, indent=1, ensure_ascii=False)
        write_whole(folder / LISTING, text.encode())


def _recorded(folder: Path) -> list[str]:
    """Return the names in the earlier record; nothing but plain names of files counts."""
    try:
        names = json.loads((folder / LISTING).read_text("utf-8"))["files"]
        return [name for name in names if isinstance(name, str) and Path(name).name == name]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
