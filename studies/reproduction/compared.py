"""One table for every figure and table of the paper: ours beside the published numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from firthshot.experiments.summary.published import Published, published
from firthshot.report.wording import penalty_name
from studies.reproduction.kept import ALPHA, Kept
from studies.words import coefficient, gain, percent, short, table

# Which published figure a study repeats, as the authors' result files name it.
PUBLISHED = {
    "logistic-firth": "Fig 2 (left)",
    "logistic-l2": "Fig 2 (right)",
    "imbalanced": "Fig 3",
    "cosine": "Fig 4",
    "ways-5-10": "Fig A6",
    "mlp-firth": "Fig A7 (left)",
    "mlp-l2": "Fig A7 (right)",
    "imbalanced-mlp": "Fig A10",
    "simpleshot": "Fig A11",
    "datasets-firth": "Fig A13 (left)",
    "datasets-l2": "Fig A13 (right)",
    "confidence": "Table A4",
    "calibration-tiered": "Table A5",
    "calibration-cross": "Table 1",
}
_LEFT_OUT = ("ResNet-18", "ResNet-34", "ResNet-50")  # between the smallest and the largest


@dataclass(frozen=True)
class Entry:
    """An improvement, ours or published, and where it belongs in a table."""

    who: str
    method: str
    ways: int
    shots: str
    improvement: float
    ci: float | None
    base: float | None
    coefficient: float | None
    significant: bool

    def words(self) -> str:
        """Return the content of a cell."""
        made = gain(self.improvement, self.ci, self.significant)
        chosen = "" if self.coefficient is None else f", λ {coefficient(self.coefficient)}"
        return f"{made}<br>{percent(self.base)}{chosen}"


def study_table(kept: Kept, study: str) -> list[str]:
    """Return the improvements of a study, the paper's first."""
    entries = study_entries(kept, study)
    across = axis(entries)
    along = "shots" if across == "ways" else "ways"
    values = sorted({getattr(entry, across) for entry in entries}, key=_order)
    return table(_rows(entries, across, along, values))


def study_entries(kept: Kept, study: str) -> list[Entry]:
    """Return all improvements of a study, the paper's first."""
    return [*_published(study), *_ours(kept, study)]


def axis(entries: Sequence[Entry]) -> str:
    """Return what a study varies most: ways or shots."""
    return "ways" if _count(entries, "ways") > _count(entries, "shots") else "shots"


def _rows(
    entries: Sequence[Entry], across: str, along: str, values: Sequence[Any]
) -> Iterator[dict[str, str]]:
    """Yield a row for every bank, method and value along the table."""
    groups: dict[tuple[str, str, Any], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.who, entry.method, getattr(entry, along)), []).append(entry)
    for (who, method, value), some in groups.items():
        by_value = {getattr(entry, across): entry for entry in some}
        label = [who, method]
        label += [_heading(value, along)] if _count(entries, along) > 1 else []
        row = {" ": ", ".join(filter(None, label))}
        row |= {_heading(v, across): by_value[v].words() if v in by_value else "" for v in values}
        yield row | ({"last − first": _growth(by_value)} if _grows(values) else {})


def _growth(by_value: dict[Any, Entry]) -> str:
    found = growth(list(by_value.values()), axis(list(by_value.values())))
    return "" if found is None else gain(*found)


def growth(entries: Sequence[Entry], across: str) -> tuple[float, float] | None:
    """Return the gain at the largest value minus that at the smallest, and its half-width.

    The trials of the two are different ones. None where there is one value, or a scheme.
    """
    ordered = sorted(entries, key=lambda entry: _order(getattr(entry, across)))
    if len(ordered) < 2 or not _grows([getattr(entry, across) for entry in ordered]):
        return None
    first, last = ordered[0], ordered[-1]
    width = math.hypot(first.ci or 0.0, last.ci or 0.0)
    return last.improvement - first.improvement, width


def _grows(values: Sequence[Any]) -> bool:
    return len(values) > 1 and all(isinstance(_order(value), int) for value in values)


def _heading(value: Any, column: str) -> str:
    if isinstance(_order(value), str):
        return str(value)
    return f"{value} {column if str(value) != '1' else column.removesuffix('s')}"


def _order(value: Any) -> Any:
    """Return a number for ways and shots, and for unequal shots words that sort by their mean."""
    if str(value).isdigit():
        return int(value)
    name, _, shots = str(value).rpartition("-")
    return f"{name}-{int(shots):03d}" if shots.isdigit() else value


def _count(entries: Sequence[Entry], name: str) -> int:
    return len({getattr(entry, name) for entry in entries})


def _ours(kept: Kept, study: str) -> Iterator[Entry]:
    mine = kept.chosen.filter(pl.col("study") == study)
    several = mine.select("penalty", "prior").n_unique() > 1
    for row in mine.iter_rows(named=True):
        method = penalty_name(row["penalty"], row["prior"]) if several else ""
        drawn = f"{row['artificial']} artificial rows" if row["source"] else ""
        yield Entry(
            short(row["bank"]),
            ", ".join(filter(None, (method, drawn))),
            row["ways"],
            _shots(row["shots"], row["shots_scheme"]),
            row["improvement"],
            row["improvement_ci"],
            row["base_accuracy"],
            row["coefficient"],
            row["p_family"] < ALPHA,
        )


def published_entries(study: str) -> list[Published]:
    """Return the paper's numbers for a study, all backbones, as every table here quotes them.

    They come from the authors' result files; where these lack a method, as in Table A4, from the
    printed table. Lines that repeat the better of 0 and 750 artificial rows are left out.
    """
    source = "table" if study == "confidence" else "csv"
    best = study == "calibration-cross"
    return [
        entry
        for entry in published()
        if (entry.source, entry.name) == (source, PUBLISHED.get(study))
        and not (best and entry.artificial is None)
    ]


def _published(study: str) -> Iterator[Entry]:
    mine = [entry for entry in published_entries(study) if entry.backbone not in _LEFT_OUT]
    several = len({(entry.penalty, entry.prior) for entry in mine}) > 1
    for entry in mine:
        method = penalty_name(entry.penalty, entry.prior) if several else ""
        drawn = "" if entry.artificial is None else f"{entry.artificial} artificial rows"
        source = f"{entry.source_dataset} → " if entry.source_dataset else ""
        yield Entry(
            f"*paper: {source}{entry.dataset}, {entry.backbone}*",
            ", ".join(filter(None, (method, drawn))),
            entry.ways,
            _shots(entry.shots, entry.shots_scheme),
            entry.improvement,
            entry.ci,
            entry.before,
            entry.coefficient,
            abs(entry.improvement) > entry.ci,
        )


def _shots(shots: int, scheme: str) -> str:
    return str(shots) if scheme == "balanced" else scheme
