"""The tables of README.md, from the parts that `experiment` has trained or the kept results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from firthshot.experiments.statistics import half_width
from studies.defaults.experiment import CELL, SCORES, TRIALS, TWO_WAY_TRIALS
from studies.defaults.rules import (
    BASELINE,
    CORE,
    COSINE,
    DEFAULT,
    LAMBDAS,
    OURS,
    RIDGES,
    SCALED,
    WIDE,
    named,
)  # fmt: skip
from studies.pages import fill_pages
from studies.parts import read_parts, statistic
from studies.words import table as markdown

RESULTS = Path(__file__).with_name("results.csv")
ROUNDING = 1e-4  # at 2 ways 1 shot both heads are the same but for rounding
SCALE_WAYS = (5, 20)  # of the table of scaled features
RIVALS = {
    "λ = 0": named("0", DEFAULT[1]),
    "λ = 1": named("1", DEFAULT[1]),
    "least squares, ridge 1": "least squares, ridge 1",
    "ridge v": "least squares, ridge v",
    "class means": "nearest class mean",
}
Line = dict[str, Any]


def write_tables(parts: Path, out: Path = RESULTS) -> None:
    """Write the CSV file, and fill in the tables of the page beside it.

    Cells that have no parts here keep their lines of the CSV file. It has no room for the whole
    grid: the tables of that stay as they are where there are no parts of it.
    """
    made, rows = {}, read_parts(parts)
    if rows is not None:
        table = summarise(rows)
        if table["method"].is_in([*SCALED]).any():
            made = {"scale": scale_table(table), "grid": grid_table(table)}
        few = table.filter(~pl.col("method").is_in([name for name in WIDE if name not in CORE]))
        beside_older(few, out).with_columns(pl.col(pl.Float64).round(5)).write_csv(out)
    made |= kept_tables(pl.read_csv(out))
    fill_pages(out.parent, made)
    print(f"Wrote the tables {', '.join(made)} into {out.parent}.")


def kept_tables(kept: pl.DataFrame) -> dict[str, list[str]]:
    """Return the tables that the CSV file has room for."""
    return {"verdict": verdict(kept), "cells": cell_table(kept), "cosine": cosine_table(kept)}


def beside_older(table: pl.DataFrame, file: Path) -> pl.DataFrame:
    """Return the lines of a table, and those of an older file for other cells and methods."""
    if not file.exists():
        return table
    older = pl.read_csv(file, schema=table.schema)
    others = older.join(table, on=[*CELL, "method"], how="anti")
    methods = {name: at for at, name in enumerate(older["method"].unique(maintain_order=True))}
    turn = pl.col("method").replace_strict(methods, default=len(methods))
    return pl.concat([table, others]).sort(*CELL, turn, maintain_order=True)


def summarise(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one line per cell and method, with paired differences to LogisticRegression()."""
    rows = rows.unique([*CELL, "trial", "method"], keep="first", maintain_order=True)
    base = rows.filter(pl.col("method") == BASELINE).drop("method")
    joined = rows.join(base, on=[*CELL, "trial"], suffix="_base")
    lines = []
    for key, group in joined.group_by(*CELL, "method", maintain_order=True):
        line = dict(zip([*CELL, "method"], key, strict=True)) | {"trials": group.height}
        for score in SCORES:
            differences = (group[score] - group[f"{score}_base"]).to_numpy()
            line |= {score: statistic(group[score])}
            line |= {f"{score}_difference": float(differences.mean())}
            line |= {f"{score}_ci": half_width(differences)}
        lines.append(line)
    return pl.DataFrame(lines).sort(CELL, maintain_order=True)


def difference(line: Line, score: str = "accuracy") -> str:
    """Return a paired difference and its interval; of accuracies in points."""
    factor, digits = (100, 2) if score == "accuracy" else (1, 3)
    mean, ci = factor * line[f"{score}_difference"], factor * line[f"{score}_ci"]
    return f"{mean:+.{digits}f} ± {ci:.{digits}f}"


def cell_table(table: pl.DataFrame) -> list[str]:
    """Return the Markdown lines of every cell: the default and its rivals."""
    rows = []
    for (bank, split, ways, shots), by_name in by_cell(table):
        if OURS not in by_name:
            continue
        base, ours = by_name[BASELINE], by_name[OURS]
        row = {"bank, split": f"{bank}, {split}", "ways": ways, "shots": shots}
        row |= {"trials": ours["trials"], "LR accuracy": f"{100 * base['accuracy']:.1f}"}
        row |= {"**default**": difference(ours)}
        row |= {shown: difference(by_name[name]) for shown, name in RIVALS.items()}
        row |= {"LR nll": f"{base['nll']:.3f}", "**default nll**": difference(ours, "nll")}
        row |= {"LR ECE": f"{base['ece']:.3f}", "**default ECE**": f"{ours['ece']:.3f}"}
        rows.append(row)
    return markdown(rows)


def by_cell(table: pl.DataFrame) -> Iterator[tuple[tuple[Any, ...], dict[str, Line]]]:
    """Yield bank, split, ways and shots of every cell, with its lines by method."""
    for key, group in table.group_by(*CELL, maintain_order=True):
        yield key, {line["method"]: line for line in group.iter_rows(named=True)}


def verdict(table: pl.DataFrame) -> list[str]:
    """Return what the two conditions on a default come to, with features that say something.

    Those that were taken in training mode, sorted by class, say nothing: all methods are at
    chance with them.
    """
    ours = table.filter(pl.col("method") == OURS)
    at_chance = pl.col("bank").str.ends_with("bn-train-sorted")
    return [
        *_conditions(ours.filter(~at_chance)),
        "- Features at chance (`mini-resnet10-bn-train-sorted`), where no method knows better:",
        *("  " + line for line in _conditions(ours.filter(at_chance))),
    ]


def _conditions(ours: pl.DataFrame) -> list[str]:
    low = ours.with_columns(bound=100 * (pl.col("accuracy_difference") - pl.col("accuracy_ci")))
    worst = low.sort("bound").row(0, named=True)
    behind = ours.filter(pl.col("nll_difference") - pl.col("nll_ci") > ROUNDING)
    highest = ours.sort("nll_difference", descending=True, maintain_order=True).row(0, named=True)

    def where(line: dict[str, object]) -> str:
        return f"{line['bank']}, {line['split']}, {line['ways']} ways, {line['shots']} shots"

    means = {score: statistic(ours[f"{score}_difference"]) for score in SCORES}
    whole = ours.filter(pl.col("trials") >= TRIALS).height
    most = ours.filter(pl.col("trials") >= TWO_WAY_TRIALS).height
    return [
        (
            f"- Cells: {ours.height}, {whole} of them with {TRIALS:,} trials or more ({most} with "
            f"{TWO_WAY_TRIALS:,}), the others with {int(statistic(ours['trials'], 'min'))} or more."
        ),
        (
            f"- Lowest lower bound of the accuracy against `LogisticRegression()`: "
            f"{worst['bound']:+.2f} points ({where(worst)}, {worst['trials']} trials); the "
            "condition is -0.3."
        ),
        (
            f"- Cells whose nll is higher by more than its interval: {behind.height}; the highest "
            f"difference is {highest['nll_difference'] + 0.0:+.4f} ± {highest['nll_ci']:.4f} "
            f"({where(highest)})."
        ),
        (
            f"- Mean over cells: accuracy {100 * means['accuracy']:+.2f} points, "
            f"nll {means['nll']:+.3f}, ECE {means['ece']:+.3f}."
        ),
    ]


def grid_table(table: pl.DataFrame) -> list[str]:
    """Return, for every bank, λ by l2: the mean and the lowest accuracy difference over cells."""
    lines = []
    for (bank,), group in table.group_by("bank", maintain_order=True):
        wide = group.filter(pl.col("method").str.starts_with("λ = "))
        full = wide.filter(pl.col("method") == named("0.3", "0.3 v")).select(CELL[1:])
        if not full.height:
            continue
        found = {
            str(name): f"{statistic(gains):+.2f} ({statistic(gains, 'min'):+.1f})"
            for (name,), part in wide.join(full, on=CELL[1:]).group_by("method")
            for gains in [100 * part["accuracy_difference"]]
        }
        rows = [
            {"l2": l2} | {f"λ = {lam}": found.get(named(lam, l2), "") for lam in LAMBDAS}
            for l2 in RIDGES
        ]
        lines += ["", f"{bank}, {full.height} cells:", "", *markdown(rows)]
    return lines


def scale_table(table: pl.DataFrame) -> list[str]:
    """Return accuracy and nll of LogisticRegression() on scaled features, beside the default."""
    shown = (BASELINE, *SCALED, OURS)
    lines = ["| bank, split | ways | shots | score | LR | LR, × 10 | LR, × 0.1 | **default** |"]
    lines += ["|---|---:|---:|---|" + "---:|" * 4]
    for (bank, split, ways, shots), by_name in by_cell(table):
        if ways not in SCALE_WAYS or not all(name in by_name for name in shown):
            continue
        for score, factor, digits in (("accuracy", 100, 2), ("nll", 1, 3)):
            # Fewer trials were trained on scaled features, so that their paired difference counts.
            base = by_name[BASELINE][score]
            found = [base + by_name[name][f"{score}_difference"] for name in shown]
            values = [f"{factor * value:.{digits}f}" for value in found]
            place = f"| {bank}, {split} | {ways} | {shots} | {score} | "
            lines.append(place + " | ".join(values) + " |")
    return lines


def cosine_table(table: pl.DataFrame) -> list[str]:
    """Return both heads as they are, by bank and shots: accuracy and nll against LR."""
    lines = [
        "| bank | shots | cells | linear: accuracy | nll | cosine: accuracy | nll |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    both = table.filter(pl.col("method") == OURS).join(
        table.filter(pl.col("method") == COSINE), on=CELL, suffix="_cosine"
    )
    ordered = both.sort("bank", "shots", maintain_order=True)
    for (bank, shots), part in ordered.group_by("bank", "shots", maintain_order=True):
        shown = []
        for suffix in ("", "_cosine"):
            each = 100 * part[f"accuracy_difference{suffix}"]
            shown.append(f"{statistic(each):+.2f} ({statistic(each, 'min'):+.2f})")
            each = part[f"nll_difference{suffix}"]
            shown.append(f"{statistic(each):+.3f} ({statistic(each, 'max'):+.3f})")
        lines.append(f"| {bank} | {shots} | {part.height} | " + " | ".join(shown) + " |")
    return lines
