"""The tables of studies/defaults/README.md, from the parts that ``experiment`` has trained."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from firthshot.experiments.statistics import half_width
from studies.defaults.experiment import (
    BASELINE,
    CORE,
    COSINE,
    DEFAULT,
    LAMBDAS,
    RIDGES,
    SCALED,
    SCORES,
    TRIALS,
    TWO_WAY_TRIALS,
    WIDE,
    named,
)

OURS = "default: calibrated"
ROUNDING = 1e-4  # at 2 ways 1 shot both heads are the same but for rounding
SCALE_WAYS = (5, 20)  # of the table of scaled features


def write_tables(parts: Path, out: Path) -> None:
    """Write the CSV file, and fill in the tables of the page beside it.

    Cells that have no parts here keep their lines of the CSV file. It has no room for the whole
    grid: the tables of that stay as they are where there are no parts of it.
    """
    table = summarise(parts)
    page, whole_grid = out.with_name("README.md"), table["method"].is_in([*SCALED]).any()
    if whole_grid:
        insert(page, "scale", scale_table(table))
        insert(page, "grid", grid_table(table))
    only_of_the_grid = [name for name in WIDE if name not in CORE]
    kept = beside_older(table.filter(~pl.col("method").is_in(only_of_the_grid)), out)
    kept.with_columns(pl.col(pl.Float64).round(5)).write_csv(out)
    insert(page, "verdict", verdict(kept))
    insert(page, "cells", cell_table(kept))
    insert(page, "cosine", cosine_table(kept))
    grid = "" if whole_grid else ", but for those of the grid"
    print(f"Wrote {out} ({kept.height} lines) and the tables of {page}{grid}.")


def beside_older(table: pl.DataFrame, file: Path) -> pl.DataFrame:
    """Return the lines of a table, and those of an older file for other cells and methods."""
    if not file.exists():
        return table
    older = pl.read_csv(file, schema=table.schema)
    keys = ["bank", "split", "ways", "shots", "method"]
    others = older.join(table, on=keys, how="anti")
    methods = {name: at for at, name in enumerate(older["method"].unique(maintain_order=True))}
    return pl.concat([table, others]).sort(
        "bank",
        "split",
        "ways",
        "shots",
        pl.col("method").replace_strict(methods, default=len(methods)),
        maintain_order=True,
    )


def summarise(folder: Path) -> pl.DataFrame:
    """Return one line per cell and method, with paired differences to LogisticRegression()."""
    files = sorted(folder.glob("*.parquet"))
    rows = pl.concat([pl.read_parquet(file) for file in files]).unique(
        ["bank", "split", "ways", "shots", "trial", "method"], keep="first", maintain_order=True
    )
    keys = ["bank", "split", "ways", "shots", "trial"]
    base = rows.filter(pl.col("method") == BASELINE).drop("method")
    joined = rows.join(base, on=keys, suffix="_base")
    lines = []
    for (bank, split, ways, shots, method), group in joined.group_by(
        "bank", "split", "ways", "shots", "method", maintain_order=True
    ):
        line = {"bank": bank, "split": split, "ways": ways, "shots": shots, "method": method}
        line["trials"] = group.height
        for score in SCORES:
            difference = (group[score] - group[f"{score}_base"]).to_numpy()
            line[score] = float(group[score].mean())
            line[f"{score}_difference"] = float(difference.mean())
            line[f"{score}_ci"] = half_width(difference)
        lines.append(line)
    return pl.DataFrame(lines).sort("bank", "split", "ways", "shots", maintain_order=True)


def difference(line: dict[str, float], score: str = "accuracy") -> str:
    """Return a paired difference and its interval; of accuracies in points."""
    factor, digits = (100, 2) if score == "accuracy" else (1, 3)
    mean, ci = factor * line[f"{score}_difference"], factor * line[f"{score}_ci"]
    return f"{mean:+.{digits}f} ± {ci:.{digits}f}"


def cell_table(table: pl.DataFrame) -> list[str]:
    """Return the Markdown lines of every cell: the default and its rivals."""
    rivals_shown = {
        "λ = 0": named("0", DEFAULT[1]),
        "λ = 1": named("1", DEFAULT[1]),
        "least squares, ridge 1": "least squares, ridge 1",
        "ridge v": "least squares, ridge v",
        "class means": "nearest class mean",
    }
    lines = [
        "| bank, split | ways | shots | trials | LR accuracy | **default** | "
        + " | ".join(rivals_shown)
        + " | LR nll | **default nll** | LR ECE | **default ECE** |",
        "|---|" + "---:|" * (9 + len(rivals_shown)),
    ]
    for (bank, split, ways, shots), group in table.group_by(
        "bank", "split", "ways", "shots", maintain_order=True
    ):
        by_name = {line["method"]: line for line in group.iter_rows(named=True)}
        if OURS not in by_name:
            continue
        base, ours = by_name[BASELINE], by_name[OURS]
        cells_shown = [
            f"{bank}, {split}", ways, shots, ours["trials"], f"{100 * base['accuracy']:.1f}",
            difference(ours), *(difference(by_name[name]) for name in rivals_shown.values()),
            f"{base['nll']:.3f}", difference(ours, "nll"),
            f"{base['ece']:.3f}", f"{ours['ece']:.3f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells_shown)) + " |")
    return lines


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
    highest = ours.sort("nll_difference").row(-1, named=True)

    def where(line: dict[str, object]) -> str:
        return f"{line['bank']}, {line['split']}, {line['ways']} ways, {line['shots']} shots"

    whole = ours.filter(pl.col("trials") >= TRIALS).height
    most = ours.filter(pl.col("trials") >= TWO_WAY_TRIALS).height
    return [
        (
            f"- Cells: {ours.height}, {whole} of them with {TRIALS:,} trials or more ({most} with "
            f"{TWO_WAY_TRIALS:,}), the others with {ours['trials'].min()} or more."
        ),
        (
            f"- Lowest lower bound of the accuracy against `LogisticRegression()`: "
            f"{worst['bound']:+.2f} points ({where(worst)}, {worst['trials']} trials); the "
            "condition is -0.3."
        ),
        (
            f"- Cells whose nll is higher by more than its interval: {behind.height}; the highest "
            f"difference is {highest['nll_difference']:+.4f} ± {highest['nll_ci']:.4f} "
            f"({where(highest)})."
        ),
        (
            f"- Mean over cells: accuracy {100 * ours['accuracy_difference'].mean():+.2f} points, "
            f"nll {ours['nll_difference'].mean():+.3f}, ECE {ours['ece_difference'].mean():+.3f}."
        ),
    ]


def grid_table(table: pl.DataFrame) -> list[str]:
    """Return, for every bank, λ by l2: the mean and the lowest accuracy difference over cells."""
    lines = []
    for (bank,), group in table.group_by("bank", maintain_order=True):
        wide = group.filter(pl.col("method").str.starts_with("λ = "))
        full = wide.filter(pl.col("method") == named("0.3", "0.3 v")).select(
            "split", "ways", "shots"
        )
        wide = wide.join(full, on=["split", "ways", "shots"])
        if not wide.height:
            continue
        found = {
            str(name): (100 * part["accuracy_difference"].mean(),
                        100 * part["accuracy_difference"].min())
            for (name,), part in wide.group_by("method")
        }  # fmt: skip
        lines += ["", f"{bank}, {full.height} cells:", ""]
        lines += ["| l2 | " + " | ".join(f"λ = {lam}" for lam in LAMBDAS) + " |"]
        lines += ["|---|" + "---:|" * len(LAMBDAS)]
        for l2 in RIDGES:
            pairs = [found.get(named(lam, l2)) for lam in LAMBDAS]
            shown = [f"{pair[0]:+.2f} ({pair[1]:+.1f})" if pair else "" for pair in pairs]
            lines.append(f"| {l2} | " + " | ".join(shown) + " |")
    return lines


def scale_table(table: pl.DataFrame) -> list[str]:
    """Return accuracy and nll of LogisticRegression() on scaled features, beside the default."""
    shown = (BASELINE, *SCALED, OURS)
    lines = ["| bank, split | ways | shots | score | LR | LR, × 10 | LR, × 0.1 | **default** |"]
    lines += ["|---|---:|---:|---|" + "---:|" * 4]
    for (bank, split, ways, shots), group in table.group_by(
        "bank", "split", "ways", "shots", maintain_order=True
    ):
        by_name = {line["method"]: line for line in group.iter_rows(named=True)}
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
    keys = ["bank", "split", "ways", "shots"]
    both = table.filter(pl.col("method") == OURS).join(
        table.filter(pl.col("method") == COSINE), on=keys, suffix="_cosine"
    )
    ordered = both.sort("bank", "shots", maintain_order=True)
    for (bank, shots), part in ordered.group_by("bank", "shots", maintain_order=True):
        shown = []
        for suffix in ("", "_cosine"):
            each = 100 * part[f"accuracy_difference{suffix}"]
            shown.append(f"{each.mean():+.2f} ({each.min():+.2f})")
            each = part[f"nll_difference{suffix}"]
            shown.append(f"{each.mean():+.3f} ({each.max():+.3f})")
        lines.append(f"| {bank} | {shots} | {part.height} | " + " | ".join(shown) + " |")
    return lines


def insert(page: Path, mark: str, lines: list[str]) -> None:
    """Replace what stands between two marks of a page."""
    text = page.read_text("utf-8")
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    page.write_text(f"{head}{begin}\n" + "\n".join(lines) + f"\n{end}{tail}", "utf-8")
