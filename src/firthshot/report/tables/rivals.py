"""All methods of a bank on the same trials, best first: the table for a paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from firthshot.experiments.run.record import TIMED
from firthshot.experiments.schema import METHOD, grouped
from firthshot.experiments.statistics import ALPHA, holm
from firthshot.report.gather import Gathered
from firthshot.report.plots.groups import Row, labels, method_name
from firthshot.report.tables.cells import WIDTH, Number, Table, p_value, percent, place, table
from firthshot.report.verdict import Condition
from firthshot.report.verdict.outcomes import turned
from firthshot.report.wording import (
    capital,
    counted,
    head_name,
    is_transductive,
    listed,
    penalty_name,
)

_method = itemgetter(*METHOD)
FEWEST = 4  # heads, with the two references: fewer have tables enough
MANY = 5  # inductive methods: a headline does not rank fewer
_FIRST = 3  # that it names
_MARK = " (transductive)"  # in the names of such methods


def rival_tables(gathered: Gathered) -> Iterator[Table]:
    """Return two tables for every bank on which many heads were trained: accuracies, and all."""
    for bank, label, full in _full_tables(gathered):
        yield _overview(full, bank, label)
        yield full


def _full_tables(gathered: Gathered) -> Iterator[tuple[str, str | None, Table]]:
    """Yield bank, label and table of every bank with many heads."""
    chosen = gathered.summary.chosen.to_dicts()
    banks = list(dict.fromkeys((row["bank"], row["transform"]) for row in chosen))
    keys = [{"bank": bank, "transform": transform} for bank, transform in banks]
    for (bank, transform), label in zip(banks, labels(keys), strict=True):
        own = [row for row in chosen if (row["bank"], row["transform"]) == (bank, transform)]
        if len({row["head"] for row in own}) >= FEWEST:
            yield bank, label, _table(own, gathered, label)


def ranking(gathered: Gathered) -> list[str]:
    """Say which methods lead their kind, then by how much, and Firth's place.

    Nothing where few inductive methods are there.
    """
    kinds: dict[str, dict[str, list[_Place]]] = {"inductive": {}, "transductive": {}}
    for _, _, one in _full_tables(gathered):
        for kind, method, _, ranked in _placed(one):
            kinds[kind].setdefault(method, []).append(ranked)
    settings = max(map(len, kinds["inductive"].values()), default=0)
    means = {kind: _means(places, settings) for kind, places in kinds.items()}
    own = means["inductive"]
    if len(own) < MANY:
        return []
    order = list(own)
    firth = next((name for name in order if name.endswith(f" + {penalty_name('firth')}")), None)
    place = ""
    if firth and firth not in order[:_FIRST]:
        place = f"; {firth} is number {order.index(firth) + 1} ({own[firth]:.1f})"
    said = [
        f"Mean rank of accuracy in {counted(settings, 'setting')}: {_first(own)}{place}.",
        *_unbeaten(kinds["inductive"], dict.fromkeys(filter(None, (order[0], firth))), settings),
    ]
    leads = f"{capital(order[0])} leads the {len(own)} inductive methods"
    if others := means["transductive"]:
        names = f"Transductive methods see all queries at once; their mean ranks: {_first(others)}."
        said.append(names.replace(_MARK, ""))
        leads += f", {next(iter(others)).replace(_MARK, '')} the {len(others)} transductive ones"
    if all(one.unbeaten for name in order for one in kinds["inductive"][name]):
        leads = f"None of the {len(own)} inductive methods is significantly better than another"
    return [f"{leads}.", *said]


def _placed(full: Table) -> Iterator[tuple[str, str, Row, _Place]]:
    """Yield kind, name, line and place of every method and setting of a table."""
    lines = [dict(zip(full.columns, cells, strict=True)) for cells in full.rows]
    for own in grouped(lines, itemgetter("Way", "Shot", "Kind")).values():
        for line in own:
            yield line["Kind"], line["Method"], line, _Place.of(line, own)


def _overview(full: Table, bank: str, label: str | None) -> Table:
    """Return accuracies, a method a line and a setting a column, best mean rank first."""
    found: dict[tuple[str, str], list[tuple[Row, _Place]]] = {}
    for kind, method, line, ranked in _placed(full):
        found.setdefault((kind, method), []).append((line, ranked))
    settings = max(map(len, found.values()))
    rows = []
    for (kind, method), own in found.items():
        mean = sum(ranked.rank for _, ranked in own) / len(own) if len(own) == settings else None
        row = {"Kind": kind, "Method": method, "Mean rank": mean and Number(mean, 1)}
        for line, _ in own:
            shot = line["Shot"]
            setting = f"{line['Way']}-way {shot}{'-shot' if str(shot).isdigit() else ''}"
            row |= {setting: line["Accuracy"], f"{setting}{WIDTH}": line[f"Accuracy{WIDTH}"]}
        rows.append(row)
    rows.sort(key=lambda row: (row["Kind"], row["Mean rank"] or settings * len(rows)))
    return table("rivals-overview", label, rows, {"bank": bank})


class _Place(NamedTuple):
    """Where a method stands among its kind in a setting; equal accuracies share their mean rank."""

    rank: float
    unbeaten: bool

    @classmethod
    def of(cls, line: Row, own: list[Row]) -> _Place:
        better = sum(other["Accuracy"] > line["Accuracy"] for other in own)
        equal = sum(other["Accuracy"] == line["Accuracy"] for other in own)
        return cls(better + (equal + 1) / 2, line["Rank"] == 1)


def _means(places: dict[str, list[_Place]], settings: int) -> dict[str, float]:
    """Return the mean ranks of the methods that are in every setting, best first."""
    found = {
        name: sum(place.rank for place in own) / settings
        for name, own in places.items()
        if len(own) == settings
    }
    return dict(sorted(found.items(), key=itemgetter(1)))


def _first(means: dict[str, float]) -> str:
    return listed(f"{name} {mean:.1f}" for name, mean in list(means.items())[:_FIRST])


def _unbeaten(
    places: dict[str, list[_Place]], names: Iterable[str], settings: int
) -> Iterator[str]:
    """Say how often nothing is significantly better, as a lead may be chance."""
    first, *more = (f"{name} in {sum(one.unbeaten for one in places[name])}" for name in names)
    rest = f", than {listed(more)}" if more else ""
    yield f"No inductive method is significantly better than {first} of {settings} settings{rest}."


def _table(rows: list[Row], gathered: Gathered, label: str | None) -> Table:
    settings = grouped(rows, Condition.of)
    contrasts = _contrasts(gathered, rows[0]["bank"], rows[0]["transform"])
    lines = [
        line
        for condition in sorted(settings)
        for line in _ranked(settings[condition], condition, contrasts)
    ]
    p = holm(np.array([np.nan if line["p"] is None else line["p"] for line in lines]))
    shown = [_shown(line, corrected, gathered) for line, corrected in zip(lines, p, strict=True)]
    return table("rivals", label, shown, {"bank": rows[0]["bank"]}, ("Sig.",))


def _ranked(
    rows: list[Row], condition: Condition, contrasts: dict[tuple[Any, ...], Row]
) -> Iterator[Row]:
    """Yield the methods of a setting with rank and difference, inductive ones first."""
    ordered = sorted(rows, key=lambda row: (is_transductive(row["head"]), -row["accuracy"]))
    best = next((row for row in ordered if not is_transductive(row["head"])), ordered[0])
    for row in ordered:
        kind = is_transductive(row["head"])
        same = [other for other in ordered if is_transductive(other["head"]) == kind]
        pairs = [contrasts.get((condition, _method(other), _method(row)), {}) for other in same]
        better = sum(one.get("difference", 0) > 0 and one["p_holm"] < ALPHA for one in pairs)
        against = contrasts.get((condition, _method(row), _method(best)), {})
        beside = {"difference": against.get("difference"), "ci": against.get("difference_ci")}
        yield {**row, **beside, "p": against.get("p_wilcoxon"), "rank": 1 + better, "kind": kind}


def _shown(line: Row, p: float, gathered: Gathered) -> Row:
    penalty = "" if line["penalty"] == "none" else f" + {method_name(line)}"
    seconds = gathered.seconds.get(itemgetter(*TIMED)(line))
    tested = line["p"] is not None
    return place(line, with_bank=False) | {
        "Kind": "transductive" if line["kind"] else "inductive",
        "Rank": line["rank"],
        "Method": f"{head_name(line['head'])}{penalty}",
        "Accuracy": percent(line["accuracy"]),
        f"Accuracy{WIDTH}": percent(line["accuracy_ci"]),
        "Difference": percent(line["difference"], signed=True),
        f"Difference{WIDTH}": percent(line["ci"]),
        "Sig.": "*" if tested and p < ALPHA else "",
        "p (Holm)": p_value(p) if tested else None,
        "ms": None if seconds is None else Number(1000 * seconds, 2),
    }


def _contrasts(gathered: Gathered, bank: str, transform: str) -> dict[tuple[Any, ...], Row]:
    """Return the contrasts of a bank by setting and both methods, from either side."""
    found = {}
    for row in gathered.summary.contrasts.to_dicts():
        if (row["bank"], row["transform"]) == (bank, transform):
            for one in (row, turned(row)):
                other = tuple(one[f"against_{name}"] for name in METHOD)
                found[Condition.of(one), _method(one), other] = one
    return found
