"""The paper's published numbers, as facts with their source.

The tables of the paper are given by the table's name; the values behind its figures come from the
authors' result files, given by file and commit. Where the two differ (ResNet-50, 25 shots: 10.71 %
in Table A9, 11.18 % in the file) both are here. Accuracies are fractions. The data are small CSV
files in ``published/``, written by ``scripts/collect_published.py``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec

# Names under which banks may know the paper's data sets and backbones, without case and signs.
_ALIASES = {
    "mini": "miniimagenet",
    "tiered": "tieredimagenet",
    "cifar": "cifarfs",
    "cub2002011": "cub",
    "wideresnet2810": "wrn2810",
    "wrn2810s2m2r": "wrn2810",
    "s2m2rwrn2810": "wrn2810",
    "densenet": "densenet121",
    "mobilenet84": "mobilenet",
}
# What makes a cell the same; a field that is empty in the published entry is not compared.
_SAME_NAME = ("dataset", "backbone")
_SAME_VALUE = (
    *("transform", "head", "solver", "penalty", "prior", "l2_kind"),
    *("ways", "shots", "shots_scheme"),
)


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """One published cell, in this package's names; "" where something does not matter.

    ``source`` says whether it is printed in the paper's table or figure ``name``, or in the
    authors' ``file`` at ``commit``. ``source_dataset`` is where backbone and Distribution
    Calibration's statistics come from; ``artificial`` is None where the paper reports the better of
    0 and 750. Results are fractions, ``ci`` the half-width of the improvement's 95 % interval.
    """

    source: Literal["table", "csv"]
    name: str
    file: str
    commit: str
    dataset: str
    source_dataset: str
    backbone: str
    transform: str
    head: str
    solver: str
    penalty: str
    prior: str
    l2_kind: str
    ways: int
    shots: int
    shots_scheme: str
    artificial: int | None
    before: float | None
    after: float | None
    improvement: float
    ci: float
    coefficient: float | None


@cache
def published() -> tuple[Published, ...]:
    """Return all published cells, tables first."""
    lines = [*_lines("tables.csv"), *_lines("figures.csv")]
    return tuple(msgspec.convert(line, Published, strict=False) for line in lines)


def published_for(row: Mapping[str, Any]) -> list[Published]:
    """Return the published entries of the same cell as a row of ``chosen.csv``, closest first.

    Data set and backbone are compared without case and punctuation. What else `row` lacks is not
    compared, nor is what an entry leaves open. ``extraction`` is never compared: how the authors'
    ResNet features were taken can only be inferred.
    """
    found = [entry for entry in published() if _same_cell(entry, row)]
    return sorted(found, key=lambda entry: entry.artificial is None)


def _lines(name: str) -> Iterator[dict[str, str | None]]:
    text = (files("firthshot") / "experiments" / "summary" / "published" / name).read_text("utf-8")
    numbers = {"artificial", "before", "after", "coefficient"}
    for line in csv.DictReader(text.splitlines()):
        yield {k: None if v == "" and k in numbers else v for k, v in line.items()}


def _same_cell(entry: Published, row: Mapping[str, Any]) -> bool:
    return (
        all(_plain(getattr(entry, key)) == _plain(row.get(key) or "") for key in _SAME_NAME)
        and all(
            getattr(entry, key) in ("", row[key]) for key in _SAME_VALUE if row.get(key) is not None
        )
        and entry.artificial in (None, row.get("artificial", entry.artificial))
        and _same_source(entry, str(row.get("source") or ""))
    )


def _same_source(entry: Published, source: str) -> bool:
    """Compare the source bank's name, which need only begin with that of the data set."""
    if not source or not entry.source_dataset:
        return True
    short = _plain(entry.source_dataset).removesuffix("imagenet")
    return _plain(source).startswith(short)


@cache
def _plain(name: str) -> str:
    # "resnet10 at 84 px" is a ResNet-10: the size of the pictures is no part of a backbone's name.
    known = re.sub(r" at \d+ ?px$", "", name.lower())
    bare = re.sub(r"[^a-z0-9]", "", known)
    return _ALIASES.get(bare, bare)
