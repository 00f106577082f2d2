"""The table of what was tried: kept in the repository, shown in docs/robustness.md."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from campaign import kept

KEPT = Path(__file__).parent / "kept.jsonl"
PAGE = Path(__file__).parents[2] / "docs" / "robustness.md"
LIBRARIES = ("numpy", "numba", "polars", "torch", "distributed")
_KILLS = ("Run", "SIGKILLs", "halfway", "after the last cell", "run folders", "faults")
_INPUTS = ("Reader", "inputs", "read", "refused", "faults")
_COUNTS = {
    "kills": ("killed", "halfway", "late", "folders"),
    "inputs": ("tried", "sound", "refused"),
}


def write(folder: Path | None) -> None:
    """Put the table into the page; results of a folder are kept first."""
    if folder is not None:
        keep(folder)
    text = PAGE.read_text("utf-8")
    PAGE.write_text(with_tables(text, kept.read(KEPT)), "utf-8")
    print(tables(kept.read(KEPT)))


def keep(folder: Path) -> None:
    """Take the results of a campaign into the repository, in place of older ones of its sort."""
    found = [record for what in _COUNTS for record in condensed(folder, what)]
    fresh = {record["what"] for record in found}
    lines = [record for record in kept.read(KEPT) if record["what"] not in fresh] + found
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in lines)
    KEPT.write_text(text, "utf-8")


def condensed(folder: Path, what: str) -> list[kept.Record]:
    """Return one record for every kind, with the sums of all its pieces."""
    records = kept.read(folder / f"{what}.jsonl")
    return [
        {
            "what": what,
            "kind": kind,
            "date": datetime.now(UTC).date().isoformat(),
            "versions": _versions(),
            **{name: _total(records, kind, name) for name in _COUNTS[what]},
            "faults": sum(len(each["faults"]) for each in records if each["kind"] == kind),
        }
        for kind in dict.fromkeys(record["kind"] for record in records)
    ]


def _total(records: list[kept.Record], kind: str, name: str) -> int:
    return sum(record.get(name, 0) for record in records if record["kind"] == kind)


def _versions() -> dict[str, str]:
    found = {name: version(name) for name in LIBRARIES}
    return {"firthshot": version("firthshot"), "python": platform.python_version(), **found}


def tables(records: list[kept.Record]) -> str:
    """Return both tables as Markdown."""
    return "\n\n".join(
        f"{_told(some)}\n\n{_table(heads, some, _COUNTS[what])}"
        for what, heads in (("kills", _KILLS), ("inputs", _INPUTS))
        if (some := [record for record in records if record["what"] == what])
    )


def _told(records: list[kept.Record]) -> str:
    last = records[-1]
    with_versions = ", ".join(f"{name} {number}" for name, number in last["versions"].items())
    return f"{last['date']}; {with_versions}."


def _table(heads: tuple[str, ...], records: list[kept.Record], counts: tuple[str, ...]) -> str:
    fields = (*counts, "faults")
    rows = [(record["kind"], *(record[name] for name in fields)) for record in records]
    total = ("**all**", *(sum(record[name] for record in records) for name in fields))
    return "\n".join(
        [_line(heads), _line(["---", *["--:"] * len(fields)]), *map(_line, [*rows, total])]
    )


def _line(cells: Iterable[object]) -> str:
    shown = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells)
    return f"| {' | '.join(shown)} |"


def with_tables(page: str, records: list[kept.Record]) -> str:
    """Return the page with the tables between its marks."""
    begin, end = "<!-- campaign -->", "<!-- end of campaign -->"
    pattern = f"{re.escape(begin)}.*{re.escape(end)}"
    filled = f"{begin}\n{tables(records)}\n{end}"
    return re.sub(pattern, lambda _: filled, page, flags=re.DOTALL)
