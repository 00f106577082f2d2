"""Results as lines of JSON, one for each finished piece of work: a killed campaign goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def read(path: Path) -> list[Record]:
    """Return the records of a file; a last line that a kill cut short is not one."""
    if not path.is_file():
        return []
    text = path.read_text("utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def append(path: Path, record: Record) -> None:
    """Add a record; what a kill left of the last line is taken away first."""
    text = path.read_text("utf-8") if path.is_file() else ""
    if not text.endswith("\n"):
        path.write_text(text[: text.rfind("\n") + 1], "utf-8")
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def total(records: list[Record], kind: str, field: str) -> int:
    """Return the sum of a field over the records of a kind."""
    return sum(record[field] for record in records if record["kind"] == kind)


def faults(records: list[Record]) -> list[str]:
    """Return what went wrong, each with the kind of work."""
    return [f"{record['kind']}: {fault}" for record in records for fault in record["faults"]]
