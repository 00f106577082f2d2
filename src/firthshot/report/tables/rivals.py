"""All methods of a bank on the same trials, best first: the table for a paper."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import numpy as np

from firthshot.engine import registered_heads
from firthshot.experiments.run.record import TIMED
from firthshot.experiments.schema import METHOD, grouped
from firthshot.experiments.statistics import ALPHA, holm
from firthshot.report.gather import Gathered
from firthshot.report.plots.groups import Row, labels, method_name
from firthshot.report.tables.cells import WIDTH, Number, Table, p_value, percent, place, table
from firthshot.report.verdict import Condition
from firthshot.report.verdict.outcomes import turned
from firthshot.report.wording import counted, head_name, listed, penalty_name

_method = itemgetter(*METHOD)
FEWEST = 4  # heads, with the two references: fewer have tables enough
MANY = 5  # inductive methods: a headline does not rank fewer


def rival_tables(gathered: Gathered) -> Iterator[Table]:
    """Return a table for every bank on which many heads were trained."""
    chosen = gathered.summary.chosen.to_dicts()
    banks = list(dict.fromkeys((row["bank"], row["transform"]) for row in chosen))
    keys = [{"bank": bank, "transform": transform} for bank, transform in banks]
    for (bank, transform), label in zip(banks, labels(keys), strict=True):
        own = [row for row in chosen if (row["bank"], row["transform"]) == (bank, transform)]
        if len({row["head"] for row in own}) >= FEWEST:
            yield _table(own, gathered, label)


def ranking(gathered: Gathered) -> Iterator[str]:
    """Say which inductive methods have the best mean ranks of all settings, and Firth's place."""
    places: dict[str, list[int]] = {}
    for one in rival_tables(gathered):
        lines = [dict(zip(one.columns, cells, strict=True)) for cells in one.rows]
        inductive = [line for line in lines if line["Kind"] == "inductive"]
        for own in grouped(inductive, itemgetter("Way", "Shot")).values():
            for line in own:  # equal accuracies share a place
                better = sum(other["Accuracy"] > line["Accuracy"] for other in own)
                places.setdefault(line["Method"], []).append(1 + better)
    settings = max(map(len, places.values()), default=0)
    means = {name: sum(own) / settings for name, own in places.items() if len(own) == settings}
    if len(means) < MANY:
        return
    order = sorted(means, key=lambda name: means[name])
    firsts = listed(f"{name} ({means[name]:.1f})" for name in order[:3])
    firth = next((name for name in order[3:] if name.endswith(f" + {penalty_name('firth')}")), None)
    place = f"; {firth} is number {order.index(firth) + 1} ({means[firth]:.1f})" if firth else ""
    yield (
        f"By mean rank of accuracy over {counted(settings, 'setting')}, the first of {len(means)} "
        f"inductive methods are {firsts}{place}."
    )


def _table(rows: list[Row], gathered: Gathered, label: str) -> Table:
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


def is_transductive(head: str) -> bool:
    """Tell whether a head sees all queries at once; one that is not known here does not."""
    known = registered_heads()
    return head in known and known[head].transductive


def _contrasts(gathered: Gathered, bank: str, transform: str) -> dict[tuple[Any, ...], Row]:
    """Return the contrasts of a bank by setting and both methods, from either side."""
    found = {}
    for row in gathered.summary.contrasts.to_dicts():
        if (row["bank"], row["transform"]) == (bank, transform):
            for one in (row, turned(row)):
                other = tuple(one[f"against_{name}"] for name in METHOD)
                found[Condition.of(one), _method(one), other] = one
    return found
