"""From the parts of run folders to tables: every coefficient, the chosen one, and contrasts."""

from __future__ import annotations

from firthshot.experiments.summary.tables import (
    RunSummary,
    Unjudged,
    summarise,
    summarise_many,
)

__all__ = ["RunSummary", "Unjudged", "summarise", "summarise_many"]
