"""The chosen coefficients of a run as a small table for the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

MOST_LINES = 40
LONGEST_NAME = 30


def overview(folder: Path) -> tuple[Table | None, list[str]]:
    """Return a table of the improvements in points, and the summary's warnings."""
    import polars as pl

    file = folder / "summary" / "chosen.csv"
    if not file.is_file():
        return None, []
    chosen = pl.read_csv(file, infer_schema_length=None).sort(
        *("bank", "source", "head", "penalty", "prior", "ways", "shots", "shots_scheme"),
        "artificial",
    )
    rows = chosen.filter(pl.col("penalty") != "none").to_dicts()
    warnings = json.loads((folder / "summary" / "warnings.json").read_text("utf-8"))
    if not rows or len(rows) > MOST_LINES:
        return None, warnings
    return _table(rows), warnings


def drawn_overview(folder: Path) -> Table | None:
    """Return artificial rows and λ chosen together, where a run has Distribution Calibration."""
    import polars as pl

    file = folder / "summary" / "calibration.csv"
    if not file.is_file():
        return None
    order = ("bank", "source", "head", "penalty", "prior", "ways", "shots", "shots_scheme")
    lines = pl.read_csv(file, infer_schema_length=None).sort(*order)
    # The fair choice first; the paper's is there to compare with its table.
    rows = lines.sort(pl.col("chosen_on") != "val", maintain_order=True).to_dicts()
    return _lay_out([_drawn_words(row) for row in rows]) if 0 < len(rows) <= MOST_LINES else None


def _drawn_words(row: dict[str, Any]) -> dict[str, str]:
    return _place(row) | {
        "chosen on": row["chosen_on"],
        "artificial rows": f"{row['before_artificial']} → {row['artificial']}",
        "base %": f"{100 * row['base_accuracy']:.2f}",
        "λ": f"{row['coefficient']:g}",
        "gain": _gain(row["improvement"], row["improvement_ci"]),
    }


def invalid_trials(folder: Path) -> int:
    """Return how many trials of a run were refused: those of a place count once for all methods."""
    import polars as pl

    files = sorted((folder / "parts").glob("*.parquet"))
    if not files:
        return 0
    trial = ["bank", "split", "ways", "shots", "shots_scheme", "trial"]
    rows = pl.scan_parquet(files, glob=False).filter(pl.col("status") == "invalid")
    return len(rows.select(trial).unique().collect())


def _table(rows: list[dict[str, Any]]) -> Table:
    words = [_words(row) for row in rows]
    if all(row["theory_coefficient"] is None for row in rows):
        words = [{k: v for k, v in row.items() if not k.startswith("theory")} for row in words]
    return _lay_out(words)


def _lay_out(words: list[dict[str, str]]) -> Table:
    """Return the rows as a table; columns that say the same everywhere are left out."""
    from rich.table import Table

    vary = [name for name in words[0] if len({row[name] for row in words}) > 1]
    silent = ("bank", "source", "penalty", "artificial")
    shown = [name for name in words[0] if name in vary or name not in silent]
    table = Table(box=None, padding=(0, 1, 0, 0))
    for name in shown:
        left = name in ("bank", "source", "head", "penalty", "shots", "chosen on")
        # A bank may have any name; the numbers beside it must stay readable.
        widest = LONGEST_NAME if name in ("bank", "source") else None
        table.add_column(
            name, justify="left" if left else "right", no_wrap=True, max_width=widest,
            overflow="ellipsis",
        )  # fmt: skip
    for row in words:
        table.add_row(*(row[name] for name in shown))
    return table


def _place(row: dict[str, Any]) -> dict[str, str]:
    balanced = row["shots_scheme"] == "balanced"
    return {
        "bank": row["bank"],
        "source": row["source"] or "",
        "head": row["head"],
        "penalty": "frequency" if row["prior"] == "class-frequency" else row["penalty"],
        "ways": str(row["ways"]),
        "shots": str(row["shots"]) if balanced else row["shots_scheme"],
    }


def _words(row: dict[str, Any]) -> dict[str, str]:
    theory = row["theory_coefficient"]
    return _place(row) | {
        "artificial": str(row["artificial"]),
        "base %": f"{100 * row['base_accuracy']:.2f}",
        "λ": f"{row['coefficient']:g}",
        "gain": _gain(row["improvement"], row["improvement_ci"]),
        "theory": "" if theory is None else f"{theory:.3g}",
        "theory gain": ""
        if theory is None
        else _gain(row["theory_improvement"], row["theory_improvement_ci"]),
    }


def _gain(mean: float | None, half_width: float | None) -> str:
    """Return points; one trial has no interval, and without a trial there is nothing to tell."""
    if mean is None:
        return "–"
    if not mean and not half_width:
        return "0"
    return f"{100 * mean:+.2f}" + ("" if half_width is None else f" ± {100 * half_width:.2f}")
