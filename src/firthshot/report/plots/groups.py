"""Which lines of a summary belong into one figure, what they are called, and what captions say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import polars as pl

from firthshot.experiments.schema import ARTIFICIAL, METHOD, PLACE, grouped, penalty_rank
from firthshot.report.verdict import Condition
from firthshot.report.wording import capital, head_name, listed, penalty_name
from firthshot.report.wording.page import trials_words

Row = dict[str, Any]

# What is trained; within it, figures compare banks, ways and shots.
TRAINED = (*METHOD, "transform", *ARTIFICIAL)


@dataclass(frozen=True)
class Group:
    """Lines of one figure that share a key."""

    key: Row  # what they have in common
    rows: tuple[Row, ...]  # the lines, sorted by bank, ways and shots
    label: str  # what tells the group from others in file names, such as "linear-firth"

    @property
    def banks(self) -> list[str]:
        """Return the names of the banks."""
        return distinct(self.rows, "bank")

    @property
    def method(self) -> str:
        """Return head, penalty and artificial samples in words."""
        return f"{head_name(self.key['head'])} head, {method_name(self.key)}{drawn_words(self.key)}"


def group(frame: pl.DataFrame, by: Sequence[str] = TRAINED) -> list[Group]:
    """Split lines that have a penalty into groups; a place that occurs twice splits further."""
    rows = frame.filter(pl.col("penalty") != "none").to_dicts()
    place = itemgetter(*dict.fromkeys((*by, *PLACE)))
    rules = {(place(row), row["query_rule"]) for row in rows}
    names = (*by, "query_rule") if len(rules) > len({at for at, _ in rules}) else tuple(by)
    parts = grouped(sorted(rows, key=method_rank), itemgetter(*names))
    keys = [dict(zip(names, key, strict=True)) for key in parts]

    def order(row: Row) -> tuple[Any, ...]:
        return natural(row["bank"]), Condition.of(row), row.get("coefficient") or 0.0

    return [
        Group(key, tuple(sorted(part, key=order)), label)
        for key, part, label in zip(keys, parts.values(), labels(keys), strict=True)
    ]


def method_rank(row: Row) -> tuple[Any, ...]:
    """Return a key that sorts by head, then Firth before what it is compared with."""
    return row["head"], penalty_rank(row["penalty"]), row["prior"] != "uniform"


def natural(name: str) -> list[tuple[str, int]]:
    """Return a key that sorts resnet50 between resnet10 and resnet101."""
    return [(word, int(digits or 0)) for word, digits in re.findall(r"(\D*)(\d*)", name)]


def labels(keys: Sequence[Row]) -> list[str]:
    """Return a short label for file names for each key, all different."""
    first = [_words(key, ("head", "penalty", "prior")) for key in keys]
    out: list[str] = []
    for key, words in zip(keys, first, strict=True):
        alike = [other for other, its in zip(keys, first, strict=True) if its == words]
        vary = [name for name in key if len({other[name] for other in alike}) > 1]
        label = "-".join([*words, *_words(key, vary)])
        out.append(label if label not in out else f"{label}-{len(out) + 1}")
    return out


def _words(key: Row, names: Iterable[str]) -> list[str]:
    words = [
        f"{name}-{key[name]}" if isinstance(key[name], int | float) else str(key[name])
        for name in names
        if name in key and (name != "prior" or key[name] != "uniform")
    ]
    return [re.sub(r"[^a-z0-9.]+", "-", word.lower()).strip("-.") or "x" for word in words]


def method_name(key: Row) -> str:
    """Return a penalty as legends and panel titles name it."""
    name = penalty_name(key["penalty"], key.get("prior", "uniform")).removeprefix("the ")
    return f"{name} ({key['l2_kind']})" if key["penalty"] == "l2" else name


def drawn_words(key: Row) -> str:
    """Return what Distribution Calibration adds to the name of a method, nothing without it."""
    if not key.get("source"):
        return ""
    return f", {key['artificial'] or 'no'} artificial samples"


def distinct(rows: Iterable[Row], name: str) -> list[Any]:
    """Return the different values of a column, in their order."""
    return list(dict.fromkeys(row[name] for row in rows))


def about(part: Group, rows: Sequence[Row] | None = None) -> str:
    """Say on what a figure stands: head, solver, banks and trials."""
    shown = list(rows if rows is not None else part.rows)
    solver = {"sgd": "SGD", "converged": "converged"}.get(part.key["solver"], part.key["solver"])
    transform = part.key["transform"]
    extra = "" if transform == "none" else f", features transformed by {transform}"
    if part.key["source"]:
        samples = part.key["artificial"]
        extra += f", calibrated with {part.key['source']} ({samples} artificial samples per class)"
    return (
        f"{capital(head_name(part.key['head']))} head ({solver}{extra}). {bank_words(shown)}; "
        f"{trials_words([row['trials'] for row in shown])} per point."
    )


def bank_words(rows: Iterable[Row]) -> str:
    """Name the banks of lines with their data sets and backbones."""
    facts = {row["bank"]: (row["dataset"], row["backbone"]) for row in rows}
    known = [
        f"{name} [{'; '.join(filter(None, its))}]" if any(its) else name
        for name, its in facts.items()
    ]
    return f"{'Banks' if len(known) > 1 else 'Bank'} {listed(known)}"


CHOSEN = "λ is chosen on the validation classes and applied to the novel classes."
