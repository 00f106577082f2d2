"""From the parts of run folders to tables: every coefficient, the chosen one, and contrasts."""

from __future__ import annotations

from firthshot.experiments.summary.scope import not_judged, penalised
from firthshot.experiments.summary.tables import (
    RunSummary,
    Unjudged,
    read_summary,
    summarise,
    summarise_many,
)

__all__ = [
    "RunSummary",
    "Unjudged",
    "not_judged",
    "penalised",
    "read_summary",
    "summarise",
    "summarise_many",
]
