"""Trials that a run had to refuse: some of their features are NaN or infinite."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from firthshot.experiments.run.store import part_files
from firthshot.experiments.schema import TRIAL_KEYS


def dropped_trials(folder: Path, leave_out: Container[str] = ()) -> dict[str, tuple[int, int]]:
    """Count the refused trials of a run by split: split → (refused, all), where there are any.

    A trial of a place counts once for all methods; ``leave_out`` names damaged parts.
    """
    import polars as pl

    files = [part for part in part_files(folder) if part.name not in leave_out]
    if not files:
        return {}
    rows = pl.scan_parquet(files, glob=False)
    if "status" not in rows.collect_schema():  # a run of another kind
        return {}
    where = (*TRIAL_KEYS, "trial")
    refused = rows.filter(pl.col("status") == "invalid").select(where).unique().collect()
    if refused.is_empty():
        return {}
    every = rows.select(where).unique().collect()
    return {
        split: (int((refused["split"] == split).sum()), int((every["split"] == split).sum()))
        for split in sorted(set(refused["split"]))
    }


def dropped_words(dropped: dict[str, tuple[int, int]]) -> str:
    """Say how many trials were refused; "" where none was."""
    said = [
        f"{refused:,} of {total:,} {split} {'trial was' if total == 1 else 'trials were'} dropped"
        for split, (refused, total) in dropped.items()
    ]
    return " and ".join(said)
