"""The columns of the summary's tables, in their order, and CSV that no spreadsheet computes."""

from __future__ import annotations

from typing import Any

import polars as pl

from firthshot.experiments.schema import KEYS, METHOD, SPLITLESS

_KEYS: dict[str, Any] = {name: getattr(pl, kind) for name, kind in KEYS.items()}
_SPLITLESS: dict[str, Any] = {name: _KEYS[name] for name in SPLITLESS}


def _floats(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, pl.Float64)


ALL: dict[str, Any] = {
    **_KEYS,
    "coefficient": pl.Float64,
    "theory": pl.Boolean,
    "trials": pl.Int64,
    **_floats("accuracy", "accuracy_ci", "improvement", "improvement_ci"),
    **_floats("nll", "brier", "ece", "ece_pooled"),
}

CHOSEN: dict[str, Any] = {
    **_SPLITLESS,
    "coefficient": pl.Float64,
    "at_edge": pl.Boolean,
    "trials": pl.Int64,
    **_floats("base_accuracy", "base_accuracy_ci", "accuracy", "accuracy_ci"),
    **_floats("improvement", "improvement_ci"),
    **_floats("improvement_classes_low", "improvement_classes_high", "relative_improvement"),
    **_floats("share_won", "share_lost", "p_wilcoxon", "p_holm"),
    **_floats("base_nll", "nll", "base_brier", "brier", "base_ece", "ece"),
    **_floats("base_ece_pooled", "ece_pooled"),
    "theory_coefficient": pl.Float64,
    "theory_exact": pl.Boolean,
    "theory_trials": pl.Int64,
    **_floats("theory_accuracy", "theory_improvement", "theory_improvement_ci"),
    **_floats("theory_improvement_classes_low", "theory_improvement_classes_high"),
    **_floats("theory_share_won", "theory_p_wilcoxon"),
    **_floats("theory_nll", "theory_brier", "theory_ece"),
    "published_table": pl.String,
    **_floats("published_table_before", "published_table_after"),
    **_floats("published_table_improvement", "published_table_improvement_ci"),
    "published_csv": pl.String,
    **_floats("published_csv_before", "published_csv_after"),
    **_floats("published_csv_improvement", "published_csv_improvement_ci"),
    **_floats("published_csv_coefficient"),
}

CONTRASTS: dict[str, Any] = {
    **_SPLITLESS,
    "coefficient": pl.Float64,
    **{f"against_{name}": _KEYS[name] for name in METHOD},
    "against_coefficient": pl.Float64,
    "trials": pl.Int64,
    **_floats("accuracy", "against_accuracy", "difference", "difference_ci"),
    **_floats("difference_classes_low", "difference_classes_high"),
    **_floats("share_won", "share_lost", "p_wilcoxon", "p_holm"),
    **_floats("nll_difference", "brier_difference", "ece_difference"),
}

_STARTS = tuple("=+-@\t\r\n")  # of what spreadsheets compute instead of showing


def harmless_cell(text: str) -> str:
    """Return text with an apostrophe before it where a spreadsheet would take it for a formula.

    Numbers are none, also as text: −1 and +1 stay as they are.
    """
    return f"'{text}" if text.startswith(_STARTS) and not _is_number(text) else text


def harmless_csv(frame: pl.DataFrame) -> str:
    """Return a table as CSV in which no text is a formula."""
    texts = [
        column.map_elements(harmless_cell, return_dtype=pl.String)
        for column in frame
        if column.dtype == pl.String
    ]
    return frame.with_columns(texts).write_csv()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
