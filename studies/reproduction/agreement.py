"""Whether sign and growth of the gains agree with the paper's, study by study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from firthshot.report.wording import points
from studies.reproduction.compared import PUBLISHED, Entry, axis, growth, study_entries
from studies.reproduction.kept import Kept
from studies.words import gain, table


def agreement(kept: Kept) -> list[str]:
    """Return one line per study and bank, the paper's backbones among them.

    *Sign* counts the significant gains and losses; *growth* is the mean, over all rows of the
    study's table, of the gain in the last column minus that in the first.
    """
    rows = []
    for study in PUBLISHED:
        entries = study_entries(kept, study)
        across = axis(entries)
        groups: dict[tuple[str, str], list[Entry]] = {}
        for entry in entries:
            groups.setdefault((entry.who, entry.method), []).append(entry)
        for (who, method), some in groups.items():
            rows.append({"study": study, "of": ", ".join(filter(None, (who, method)))})
            rows[-1] |= _line(some, across)
    return table(rows, left=2)


def _line(some: Sequence[Entry], across: str) -> dict[str, Any]:
    better = sum(entry.significant and entry.improvement > 0 for entry in some)
    worse = sum(entry.significant and entry.improvement < 0 for entry in some)
    return {
        "mean gain": points(sum(entry.improvement for entry in some) / len(some)),
        "sign": _sign(better, worse, len(some)),
        "growth": _growth(some, across),
    }


def _sign(better: int, worse: int, settings: int) -> str:
    if better and worse:
        return f"mixed: {better} better, {worse} worse of {settings}"
    if better or worse:
        return f"+, {better} of {settings}" if better else f"−, {worse} of {settings}"
    return f"none of {settings}"


def _growth(some: Sequence[Entry], across: str) -> str:
    """Say how the gain grows along the columns, averaged over the rows."""
    along = "shots" if across == "ways" else "ways"
    rows: dict[Any, list[Entry]] = {}
    for entry in some:
        rows.setdefault(getattr(entry, along), []).append(entry)
    found = [made for row in rows.values() if (made := growth(row, across)) is not None]
    if not found:
        return ""
    mean = sum(value for value, _ in found) / len(found)
    width = math.sqrt(sum(ci**2 for _, ci in found)) / len(found)
    word = "flat" if abs(mean) <= width else ("grows" if mean > 0 else "falls")
    return f"{word} with {across}, {gain(mean, width)}"
