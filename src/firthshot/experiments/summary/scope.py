"""What a summary can say anything about."""

from __future__ import annotations

import polars as pl

from firthshot.experiments.summary.tables import RunSummary


def penalised(summary: RunSummary) -> bool:
    """Return whether any classifier has a penalty."""
    return bool(summary.unjudged) or bool((summary.all["penalty"] != "none").any())


def not_judged(summary: RunSummary) -> list[str]:
    """Say for which banks no λ could be chosen: the verdict does not count their settings."""
    found = summary.all.filter(pl.col("penalty") != "none")
    novel, val = (found.filter(pl.col("split") == split)["bank"] for split in ("novel", "val"))
    banks = sorted(set(novel) - set(val))
    return [f"{bank} has no validation trials: it is not judged." for bank in banks]
