"""Cells that miss the condition of docs/choosing-lambda.md, once more with trials of their own.

    python scripts/choose_lambda_again.py      after choose_lambda.py table

The lowest of many lower bounds is low by chance too. Trials that had no part in finding it say
how low the cell is; the bound of the listed trials stays in the table.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
from choose_lambda import BLOCK, TRIALS, cells, real_banks, train_part
from choose_lambda_tables import OURS, summarise
from threadpoolctl import threadpool_limits

CONDITION = -0.003
FRESH = range(TRIALS // BLOCK, 5 * TRIALS // BLOCK)  # blocks after the listed ones


def below_condition(table: pl.DataFrame) -> set[tuple[str, str, int, int]]:
    """Return bank, split, ways and shots of the cells whose lower bound is too low."""
    low = table.filter(
        pl.col("method") == OURS,
        pl.col("accuracy_difference") - pl.col("accuracy_ci") < CONDITION,
    )
    return set(low.select("bank", "split", "ways", "shots").iter_rows())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", type=Path, default=Path("docs/choosing-lambda.csv"))
    parser.add_argument("--parts", type=Path, default=Path("runs/choosing-lambda-again"))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    wanted = below_condition(pl.read_csv(arguments.table))
    arguments.parts.mkdir(parents=True, exist_ok=True)
    found = [c for c in cells(real_banks([])) if (c.bank.name, c.split, c.ways, c.shots) in wanted]
    with threadpool_limits(limits=1), ThreadPoolExecutor(arguments.threads) as pool:
        for cell in found:
            for block in FRESH:
                path = cell.part(arguments.parts, "core", block)
                if not path.exists():
                    train_part(cell, "core", block, path, pool)
    print(f"{len(found)} cells below the condition.")
    if found:
        fresh = summarise(arguments.parts).filter(pl.col("method") == OURS)
        for line in fresh.iter_rows(named=True):
            print(
                f"{line['bank']}, {line['split']}, {line['ways']} ways, {line['shots']} shots: "
                f"accuracy {100 * line['accuracy_difference']:+.2f} ± "
                f"{100 * line['accuracy_ci']:.2f} points, nll {line['nll_difference']:+.3f} ± "
                f"{line['nll_ci']:.3f}, {line['trials']:,} other trials"
            )


if __name__ == "__main__":
    main()
