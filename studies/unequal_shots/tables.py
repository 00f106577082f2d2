"""The tables of README.md: coefficients chosen on val, methods compared on novel trials."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

import polars as pl

from firthshot.experiments.spec.shots import SCHEMES
from firthshot.experiments.statistics import ALPHA, SAME_MEAN, half_width, holm, wilcoxon
from firthshot.report.wording import points
from studies.pages import fill_pages
from studies.parts import read_parts, statistic
from studies.unequal_shots.experiment import (
    AS_IT_IS,
    CORRECTED,
    HEADS,
    KEYS,
    LAMBDAS,
    MATCHED,
    MEANS,
    ONE,
    PLAIN,
    READY,
    SCORES,
    STRENGTH,
    STRENGTHS,
    WEIGHTED,
)  # fmt: skip
from studies.words import coefficient, gain, number, percent, short, span
from studies.words import table as markdown

RESULTS = Path(__file__).with_name("results.csv")
ENDS: tuple[Literal["min"], Literal["max"]] = ("min", "max")
TESTED = ("accuracy", "alike")
AT_CHANCE = "mini-resnet10-bn-train-sorted"
# Treatment, and the score by which its coefficient is chosen on val (None: 0 is taken).
METHODS: dict[str, tuple[str, str | None]] = {
    "nothing": (PLAIN, None),
    "Firth": (PLAIN, "accuracy"),
    "weights": (WEIGHTED, None),
    "weights and Firth": (WEIGHTED, "accuracy"),
    "correction": (CORRECTED, None),
    "correction and Firth": (CORRECTED, "accuracy"),
    "matched correction and Firth": (MATCHED, "accuracy"),
    "correction of chosen strength": (STRENGTH, "accuracy"),
    "Firth for such queries": (PLAIN, "alike"),
    "correction for such queries": (STRENGTH, "alike"),
}
PAIRS = (  # the first seven have a column in the table of all cells
    ("Firth", "nothing"), ("weights", "nothing"), ("correction", "nothing"), ("Firth", "weights"),
    ("Firth", "correction"), ("weights and Firth", "weights"),
    ("matched correction and Firth", "correction"), ("correction and Firth", "correction"),
    ("Firth", "correction of chosen strength"), ("Firth", MEANS), ("weights", "correction"),
    ("Firth for such queries", "nothing"), ("Firth for such queries", "correction for such queries")
)  # fmt: skip


def write_tables(parts: Path, out: Path = RESULTS) -> None:
    """Write the CSV file where there are parts, and fill in the tables of the page beside it."""
    rows = read_parts(parts)
    if rows is not None:
        summarise(rows).write_csv(out)
    made = tables(pl.read_csv(out))
    fill_pages(out.parent, made)
    print(f"Wrote the tables {', '.join(made)} into {out.parent}.")


def choose(grid: Sequence[float], means: Sequence[float]) -> float:
    """Return the coefficient with the best mean on val, of equal ones the smaller."""
    return min(at for at, mean in zip(grid, means, strict=True) if mean >= max(means) - SAME_MEAN)


def settle(cell: pl.DataFrame) -> dict[tuple[str, str], tuple[float, pl.DataFrame]]:
    """Return, for every head and method of a cell, its coefficient and its novel trials."""
    trials = cell.sort("trial").partition_by("split", *KEYS, as_dict=True)
    found = {key[1:3]: (0.0, trials[key]) for key in trials if key[:2] == ("novel", READY)}
    for head in HEADS:
        found[head, MEANS] = found[READY, MEANS]
        for name, (treatment, score) in METHODS.items():
            if ("val", head, treatment, 0.0) in trials:  # the engine's SGD takes no class weights
                grid = STRENGTHS if treatment == STRENGTH else LAMBDAS if score else (0.0,)
                val = [trials["val", head, treatment, at] for at in grid]
                at = choose(grid, [statistic(one[score or "accuracy"]) for one in val])
                found[head, name] = at, trials["novel", head, treatment, at]
    return found


def summarise(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the means of every cell and method, and of the paired differences of `PAIRS`.

    A line with ``against`` holds differences; p-values are corrected over all of them together.
    """
    lines = []
    for (bank, scheme), cell in rows.group_by("bank", "scheme", maintain_order=True):
        found = settle(cell)
        pairs = [((head, one), (head, other)) for head in HEADS for one, other in PAIRS]
        pairs += [(key, (ONE, "nothing")) for key in found if key[1].startswith(AS_IT_IS)]
        for one, other in [*((key, None) for key in found), *pairs]:
            if one not in found or other not in {*found, None}:
                continue
            at, novel = found[one]
            line = {"bank": bank, "scheme": scheme, "head": one[0], "method": one[1]}
            against = "LogisticRegression()" if other and one[0] == READY else other and other[1]
            line |= {"against": against, "coefficient": at, "trials": novel.height}
            for score in SCORES:
                values = novel[score] - (found[other][1][score] if other else 0.0)
                line |= {score: values.mean(), f"{score}_ci": half_width(values.to_numpy())}
                if score in TESTED:
                    line[f"{score}_p"] = wilcoxon(values.to_numpy()) if other else None
            lines.append(line)
    table = pl.DataFrame(lines, infer_schema_length=None)
    names = [f"{score}_p" for score in TESTED]
    p = holm(table.select(names).to_numpy().ravel()).reshape(-1, len(names))
    corrected = [pl.Series(name, p[:, at], nan_to_null=True) for at, name in enumerate(names)]
    return table.with_columns(corrected).with_columns(pl.col(pl.Float64).round(5))


def verdict(pairs: pl.DataFrame) -> list[str]:
    """Return the mean and the range of every difference, and the cells where it is significant."""
    rows, every = [], pairs.group_by("head", "method", "against", maintain_order=True)
    for (head, one, other), part in every:
        row = {"head": head, "compared": f"{one} − {other}"}
        for score, queries in zip(TESTED, ("balanced", "as the shots"), strict=True):
            sure = part.filter(pl.col(f"{score}_p") < ALPHA)[score]
            row[f"{queries}: mean"] = points(statistic(part[score]))
            row[f"{queries}: range"] = span(*(statistic(part[score], end) for end in ENDS))
            row[f"{queries}: better, worse"] = f"{(sure > 0).sum()}, {(sure < 0).sum()}"
        rows.append(row)
    return markdown(rows, left=2)


def tables(table: pl.DataFrame) -> dict[str, list[str]]:
    """Return the tables of the page by name, from the lines of the CSV file."""
    alone, above = pl.col("against").is_null(), table.filter(pl.col("bank") != AT_CHANCE)
    once = above.filter(alone, (pl.col("method") != MEANS) | (pl.col("head") == READY))
    means = once.group_by("head", "method", maintain_order=True).agg(pl.col(SCORES).mean())
    ordered = means.sort(pl.col("head") == READY, maintain_order=True).to_dicts()
    tell: dict[str, Any] = {"head": str, "method": str}
    tell |= dict.fromkeys(("accuracy", "fewest", "most", "alike"), percent)
    tell |= {"nll": number, "alike_nll": number}
    cells, none = [], {"accuracy": None, "accuracy_ci": None, "accuracy_p": 1.0}
    for head, bank, scheme in product(HEADS, sorted(set(table["bank"])), SCHEMES):
        lines = table.filter(head=head, bank=bank, scheme=scheme).to_dicts()
        at = {(line["method"], line["against"]): line for line in lines}
        row = {"head": head, "bank": short(bank), "shots": scheme.removeprefix("unbalanced-")}
        row["nothing"] = percent(at["nothing", None]["accuracy"])
        row["λ"] = coefficient(at["Firth", None]["coefficient"])
        for pair in PAIRS[:7]:
            mean, ci, p = (at.get(pair, none)[name] for name in none)
            row[" − ".join(pair)] = gain(mean, ci, p < ALPHA)
        cells.append(row)
    return {
        "verdict": verdict(above.filter(~alone)),
        "means": markdown([{name: tell[name](line[name]) for name in tell} for line in ordered], 2),
        "cells": markdown(cells, left=3),
    }
