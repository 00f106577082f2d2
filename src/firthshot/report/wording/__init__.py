"""From verdicts, runs and tables to sentences: English is made here and nowhere else."""

from __future__ import annotations

from firthshot.report.wording.words import (
    capital,
    counted,
    head_name,
    listed,
    penalty_name,
    points,
    points_ci,
    setting_words,
    shots_words,
)

__all__ = [
    "capital",
    "counted",
    "head_name",
    "listed",
    "penalty_name",
    "points",
    "points_ci",
    "setting_words",
    "shots_words",
]
